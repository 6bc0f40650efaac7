"""What stands beside the MPIJob: the plan file and the Job that writes partitions; and what its pods see of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from hyperscale.control.render.batch_jobs import partition_job, partition_key
from hyperscale.control.render.mpijob import render
from hyperscale.control.render.plan_file import config_map
from hyperscale.control.render.template import RenderError
from hyperscale.model import constants
from hyperscale.model.api.node_links import NodeLinks
from hyperscale.model.plan import AllreduceCost, Plan
from hyperscale.model.runplan import RUN_PLAN_FILE, RunPlan
from tests.builders.placement import DEFAULTS, job, metadata, plan
from tests.builders.restricted import breaches

DOCS = Path(__file__).resolve().parents[4] / "docs" / "reference"
LINKS = NodeLinks((4e-12, 1e-9, 4e-12), (5e-6, 1e-4, 5e-6))
PLAN = replace(plan("node-b", "node-a"), allreduce=AllreduceCost(1e-4, 2e-9, measured=True), links=LINKS)
SHARED: dict[str, Any] = {"partitioning": {"claimName": "parts"}}


def template(of: Plan | None = PLAN, replica: str = "Worker", **fields: Any) -> dict[str, Any]:
    found: dict[str, Any] = render(metadata(), job(**fields), of, DEFAULTS)["spec"]["mpiReplicaSpecs"][replica]["template"]
    return found


def variables(pod: dict[str, Any]) -> dict[str, str]:
    return {entry["name"]: entry["value"] for entry in pod["spec"]["containers"][0]["env"]}


def made(of: Plan | None = PLAN, memory_bytes: int | None = None, **fields: Any) -> dict[str, Any]:
    return partition_job(metadata(), job(**{**SHARED, **fields}), of, DEFAULTS, memory_bytes)


def test_the_documented_schema_of_the_plan_file_is_the_one_of_the_type() -> None:
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "HyperScale run plan"}
    schema = {**head, **msgspec.json.schema(RunPlan)}
    assert json.loads((DOCS / "runplan.schema.json").read_text()) == json.loads(json.dumps(schema))


def test_every_field_of_the_plan_file_is_described_in_the_document() -> None:
    text = (DOCS / "runplan.md").read_text()
    document = json.loads(config_map(metadata(), PLAN, {})["data"]["plan.json"])
    fields = {*document, *document["workers"][0], *document["allreduce"], *document["links"]}
    assert [field for field in sorted(fields) if f"`{field}`" not in text] == []


def test_the_plan_file_can_be_read_back_and_belongs_to_the_job() -> None:
    made_map = config_map(metadata(), PLAN, {"a": "b"})
    assert (made_map["metadata"]["name"], made_map["metadata"]["namespace"]) == ("cora-plan", "team-a")
    assert made_map["metadata"]["ownerReferences"][0]["uid"] == "7f3c"
    read = msgspec.json.decode(made_map["data"]["plan.json"], type=RunPlan)
    assert (read.version, read.job, read.plan_id) == (1, "team-a/cora", PLAN.plan_id)
    assert (read.workers, read.allreduce, read.links) == (PLAN.workers, PLAN.allreduce, LINKS)


@pytest.mark.parametrize("replica", ["Worker", "Launcher"])
def test_every_pod_of_a_planned_job_mounts_the_plan_file_read_only(replica: str) -> None:
    pod = template(replica=replica)
    assert variables(pod)["HYPERSCALE_PLAN_FILE"] == RUN_PLAN_FILE == "/etc/hyperscale/plan.json"
    assert {"name": "hyperscale-plan", "mountPath": "/etc/hyperscale", "readOnly": True} in pod["spec"]["containers"][0]["volumeMounts"]
    assert {"name": "hyperscale-plan", "configMap": {"name": "cora-plan"}} in pod["spec"]["volumes"]


def test_without_a_plan_there_is_no_plan_file() -> None:
    pod = template(None, planner="None")
    assert "HYPERSCALE_PLAN_FILE" not in variables(pod)
    assert "hyperscale-plan" not in str(pod["spec"]["volumes"])


def test_workers_read_partitions_and_only_the_job_writes_them() -> None:
    pod = template(**SHARED)
    assert variables(pod)["HYPERSCALE_PARTITION_DIR"] == "/partitions"
    assert {"name": "hyperscale-partitions", "mountPath": "/partitions", "readOnly": True} in pod["spec"]["containers"][0]["volumeMounts"]
    writer = made()["spec"]["template"]["spec"]
    assert {"name": "hyperscale-partitions", "mountPath": "/partitions"} in writer["containers"][0]["volumeMounts"]
    assert "HYPERSCALE_PARTITION_DIR" not in variables(template())


def test_the_partition_job_runs_the_program_once_without_gpus_and_within_restricted() -> None:
    pod = made(
        memory_bytes=3 * 2**30 + 1, workers={"maxReplicas": 2, "resources": {"limits": {"memory": "8Gi"}, "requests": {"cpu": "4"}}}
    )["spec"]["template"]
    container = pod["spec"]["containers"][0]
    assert container["command"] == ["python3", "-m", "hyperscale.training.worker.prepare"]
    assert container["resources"] == {"requests": {"cpu": "4", "memory": "3073Mi"}}
    assert constants.GPU_RESOURCE not in str(pod)
    assert "schedulingGates" not in pod["spec"]
    assert pod["spec"]["restartPolicy"] == "Never"
    assert breaches(pod) == []


def test_the_partition_job_takes_image_account_and_variables_of_the_users_worker_but_no_side_container() -> None:
    own = {
        "spec": {
            "serviceAccountName": "trainer",
            "containers": [
                {"name": "log", "image": "log:1"},
                {
                    "name": "worker",
                    "image": "gnn:1",
                    "args": ["--fast"],
                    "env": [{"name": "A", "value": "1"}],
                    "resources": {"limits": {"x/y": 1}},
                },
            ],
        }
    }
    spec = made(workers={"minReplicas": 1, "maxReplicas": 4, "template": own, "resources": {"limits": {"x/y": 1}}})["spec"]["template"][
        "spec"
    ]
    (container,) = spec["containers"]
    assert (spec["serviceAccountName"], container["image"], container["name"]) == ("trainer", "gnn:1", "partition")
    assert {"name": "A", "value": "1"} in container["env"]
    assert not {"args", "resources", "ports", "readinessProbe"} & container.keys()


def test_what_cannot_succeed_is_not_tried_again() -> None:
    rules = made()["spec"]["podFailurePolicy"]["rules"]
    assert rules[0] == {"action": "FailJob", "onExitCodes": {"containerName": "partition", "operator": "In", "values": [2]}}


def test_a_volume_of_the_users_may_not_take_our_names() -> None:
    with pytest.raises(RenderError, match="hyperscale-partitions"):
        made(
            workers={
                "minReplicas": 1,
                "maxReplicas": 4,
                "template": {"spec": {"volumes": [{"name": "hyperscale-partitions", "emptyDir": {}}]}},
            }
        )


def test_the_same_shares_on_other_nodes_need_no_new_partitions() -> None:
    asked = job(**SHARED)
    assert partition_key(asked, plan("a", "b")) == partition_key(asked, plan("c", "d"))
    assert partition_key(asked, plan("a", "b")) != partition_key(asked, plan("a", "b", "c"))


@pytest.mark.parametrize(
    "fields",
    [{"partitioning": {"claimName": "parts", "method": "Random"}}, {"dataset": {"source": {"builtin": {"name": "CiteSeer"}}}}],
    ids=["another method", "another graph"],
)
def test_what_decides_the_partitions_decides_the_key(fields: dict[str, Any]) -> None:
    assert partition_key(job(**SHARED), PLAN) != partition_key(job(**{**SHARED, **fields}), PLAN)


def test_no_job_writes_partitions_where_no_volume_is_named_or_none_are_wanted() -> None:
    assert partition_key(job(), PLAN) == ""
    assert partition_key(job(partitioning={"claimName": "parts", "method": "None"}), PLAN) == ""


def test_workers_are_found_by_prometheus_unless_the_user_says_otherwise() -> None:
    pod = template()
    assert {"name": "metrics", "containerPort": 9464} in pod["spec"]["containers"][0]["ports"]
    assert variables(pod)["HYPERSCALE_METRICS_PORT"] == "9464"
    assert pod["metadata"]["annotations"]["prometheus.io/scrape"] == "true"
    own = {"metadata": {"annotations": {"prometheus.io/scrape": "false"}}}
    assert (
        template(workers={"minReplicas": 1, "maxReplicas": 4, "template": own})["metadata"]["annotations"]["prometheus.io/scrape"]
        == "false"
    )


def test_the_launcher_keeps_the_result_wherever_the_image_can() -> None:
    wrapper = ["python3", "-m", "hyperscale.training.worker.launch", "--", "mpirun"]
    own = {"template": {"spec": {"containers": [{"name": "launcher", "image": "theirs:1"}]}}}
    script: dict[str, Any] = {"model": {"architecture": "GCN", "script": "train.py"}}
    assert template(replica="Launcher")["spec"]["containers"][0]["command"][:5] == wrapper
    assert template(replica="Launcher", **script)["spec"]["containers"][0]["command"][:5] == wrapper
    assert template(replica="Launcher", launcher=own)["spec"]["containers"][0]["command"][:5] == wrapper
    assert template(replica="Launcher", launcher=own, **script)["spec"]["containers"][0]["command"][0] == "mpirun"
