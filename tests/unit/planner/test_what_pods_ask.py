"""What the worker template asks of a node is known before a rank is pinned there: affinity, side containers, devices, volumes."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from hyperscale.control.render.template import RenderError
from hyperscale.control.specs.plan_question import question_about, worker_asks
from hyperscale.model.api.job import JobSpec
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.plan import Infeasible, Plan
from hyperscale.model.planning import PlanRequest, node_rule
from hyperscale.planner.check.plan_check import violations
from hyperscale.planner.choice.portfolio import make_plan
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.workload.profile import profile
from tests.builders.clusters import GIB, POLICY, gpu_node, snapshot, training
from tests.builders.placement import plan

RDMA = "rdma/hca"
OFFERS = {"pods": 110.0, "ephemeral-storage": 100.0 * GIB, RDMA: 1.0}


def with_template(workers: int = 1, limits: dict[str, str] | None = None, **spec: Any) -> JobSpec:
    """A job whose worker containers have these limits, and whose pods have these fields in their spec."""
    resources, template = {"limits": limits or {}}, {"spec": spec}
    return training(workers={"minReplicas": workers, "maxReplicas": workers, "resources": resources, "template": template})


def asked(job: JobSpec, **more: Any) -> PlanRequest:
    return replace(question_about("team-a/gnn", job, POLICY), **more)


def answered(request: PlanRequest, seen: ClusterSnapshot) -> Plan | Infeasible:
    return make_plan(request, build(seen, POLICY), profile(request.job), POLICY)


def chosen(request: PlanRequest, seen: ClusterSnapshot) -> list[str]:
    """Planned nodes; the checker agrees with every one of them."""
    found = answered(request, seen)
    assert isinstance(found, Plan), found
    return [worker.node for worker in found.workers]


def rejected(request: PlanRequest, seen: ClusterSnapshot, node: str) -> str:
    """Why the planner leaves a node out; the checker leaves it out for the same reason."""
    found = answered(request, seen)
    known = next(member for member in seen.nodes if member.name == node)
    alone = replace(plan(node, product=known.gpu_product), partitions=1)
    assert any(node in sentence for sentence in violations(alone, request, seen)), "the checker would take it"
    return next(each.reason for each in found.rejected if each.node == node)


def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def on(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


RIGHT = gpu_node("right", load=0.8, labels={"disk": "nvme", "generation": "7", "free": "yes"})
WRONG = gpu_node("wrong", labels={"disk": "hdd", "generation": "5", "reserved": "yes"})
BOTH = snapshot(RIGHT, WRONG)
CASES = [
    affinity(on("disk", "In", "nvme", "ssd")),
    affinity(on("disk", "NotIn", "hdd")),
    affinity(on("free", "Exists")),
    affinity(on("reserved", "DoesNotExist")),
    affinity(on("generation", "Gt", "6")),
    affinity({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["right"]}]}),
    affinity({"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["wrong"]}]}),
    affinity(on("absent", "Exists"), on("disk", "In", "nvme")),
    affinity({"matchExpressions": [*on("disk", "Exists")["matchExpressions"], *on("free", "Exists")["matchExpressions"]]}),
]


@pytest.mark.parametrize("required", CASES, ids=str)
def test_the_required_node_affinity_of_the_template_is_kept(required: dict[str, Any]) -> None:
    assert chosen(asked(with_template()), BOTH) == ["wrong"], "without affinity the idle node is better"
    request = asked(with_template(affinity=required))
    assert chosen(request, BOTH) == ["right"]
    assert rejected(request, BOTH, "wrong") == "NodeAffinity"


@pytest.mark.parametrize(
    "required", [affinity(on("generation", "Lt", "five")), affinity({}), affinity(on("disk", "Like", "nvme"))], ids=str
)
def test_a_term_that_kube_scheduler_never_meets_fits_no_node(required: dict[str, Any]) -> None:
    found = answered(asked(with_template(affinity=required)), BOTH)
    assert isinstance(found, Infeasible)
    assert found.never
    assert "the node affinity of spec.workers.template" in found.message


POD_DEMANDS: list[tuple[str, dict[str, Any], str, float]] = [
    ("a side container", {"containers": [{"name": "worker"}, {"name": "log", "resources": {"requests": {"cpu": "3"}}}]}, "cpu", 3.0),
    (
        "an init container that asks for more",
        {"limits": {"cpu": "2"}, "initContainers": [{"name": "fetch", "resources": {"requests": {"cpu": "9"}}}]},
        "cpu",
        9.0,
    ),
    (
        "a sidecar beside the worker",
        {
            "limits": {"cpu": "2"},
            "initContainers": [{"name": "proxy", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}],
        },
        "cpu",
        3.0,
    ),
    ("the pod's own resources", {"limits": {"cpu": "2"}, "resources": {"requests": {"cpu": "5"}}}, "cpu", 5.0),
    ("a device", {"limits": {RDMA: "2"}}, RDMA, 2.0),
    ("ephemeral storage", {"limits": {"ephemeral-storage": "2Gi"}}, "ephemeral-storage", 2.0 * GIB),
    ("huge pages", {"limits": {"hugepages-2Mi": "4Mi"}}, "hugepages-2Mi", 4.0 * 2**20),
]


@pytest.mark.parametrize(("spec", "name", "amount"), [case[1:] for case in POD_DEMANDS], ids=[case[0] for case in POD_DEMANDS])
def test_the_whole_pod_is_counted_as_it_is_rendered(spec: dict[str, Any], name: str, amount: float) -> None:
    assert worker_asks(with_template(**spec)).resources[name] == amount


@pytest.mark.parametrize(
    ("spec", "poor", "reason"),
    [
        ({"limits": {RDMA: "1"}}, {"allocatable": {**OFFERS, RDMA: 0.0}}, "Resource"),
        ({"limits": {RDMA: "1"}}, {"allocatable": {"pods": 110.0}}, "Resource"),
        ({"limits": {RDMA: "1"}}, {"requested": {RDMA: 1.0}}, "Resource"),
        ({}, {"requested": {"pods": 110.0}}, "Resource"),
        ({"limits": {"ephemeral-storage": "60Gi"}}, {"requested": {"ephemeral-storage": 50.0 * GIB}}, "Resource"),
        (
            {"containers": [{"name": "worker"}, {"name": "log", "resources": {"requests": {"cpu": "3"}}}]},
            {"requested_cpu_cores": 14.0},
            "CPU",
        ),
    ],
    ids=["device not offered", "device unknown there", "device in use", "pods in use", "storage in use", "cores for a side container"],
)
def test_a_node_that_lacks_what_the_pod_asks_is_left_out(spec: dict[str, Any], poor: dict[str, Any], reason: str) -> None:
    base: dict[str, Any] = {"allocatable": OFFERS, "allocatable_cpu_cores": 16.0}
    seen = snapshot(gpu_node("rich", load=0.8, **base), gpu_node("poor", **{**base, **poor}))
    request = asked(with_template(**spec))
    assert chosen(request, seen) == ["rich"]
    assert rejected(request, seen, "poor") == reason


def test_a_node_takes_as_many_workers_as_its_devices_allow() -> None:
    seen = snapshot(gpu_node("one", free=4, allocatable=OFFERS), gpu_node("four", free=4, load=0.8, allocatable={**OFFERS, RDMA: 4.0}))
    request = asked(with_template(4, limits={RDMA: "1"}))
    assert sorted(chosen(request, seen)).count("one") <= 1


@pytest.mark.parametrize("held", [{"cpu": 15.0}, {RDMA: 1.0}, {"pods": 110.0}], ids=str)
def test_what_ranks_of_other_plans_hold_is_taken(held: dict[str, float]) -> None:
    base: dict[str, Any] = {"allocatable": OFFERS, "allocatable_cpu_cores": 16.0}
    seen = snapshot(gpu_node("rich", load=0.8, **base), gpu_node("poor", **base))
    request = asked(with_template(limits={"cpu": "2", RDMA: "1"}))
    assert chosen(request, seen) == ["poor"]
    assert chosen(replace(request, reserved_amounts={"poor": held}), seen) == ["rich"]
    assert rejected(replace(request, reserved_amounts={"poor": held}), seen, "poor") in ("CPU", "Resource")


def alone(selector: dict[str, Any], key: str = "kubernetes.io/hostname", **more: Any) -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": selector, **more}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


OWN_LABELS: list[dict[str, Any]] = [
    {"matchLabels": {"training.kubeflow.org/job-name": "gnn"}},
    {"matchExpressions": [{"key": "training.kubeflow.org/job-role", "operator": "In", "values": ["worker"]}]},
    {"matchLabels": {"hyperscale.dev/job-name": "gnn"}, "matchExpressions": [{"key": "other", "operator": "DoesNotExist"}]},
]


@pytest.mark.parametrize("selector", OWN_LABELS, ids=str)
def test_workers_that_keep_apart_get_a_node_each(selector: dict[str, Any]) -> None:
    seen = snapshot(gpu_node("four", free=4), gpu_node("one", load=0.9, domain="us/a"), gpu_node("two", load=0.9, domain="us/b"))
    request = asked(with_template(2, affinity=alone(selector)))
    assert request.apart
    nodes = chosen(request, seen)
    assert len(set(nodes)) == 2
    assert violations(plan("four", "four", product="NVIDIA-A100-SXM4-80GB"), request, seen)[0].startswith("2 workers are planned for four")
    kept = chosen(replace(request, workers_fixed=2, pinned={0: "four"}), seen)
    assert kept[0] == "four"
    assert kept[1] != "four"
    refusal = answered(asked(with_template(4, affinity=alone(selector))), seen)
    assert isinstance(refusal, Infeasible)
    assert refusal.never, "three nodes host three workers"


@pytest.mark.parametrize(
    "affinity",
    [
        alone({"matchLabels": {"training.kubeflow.org/job-name": "other"}}),
        alone({"matchLabels": {"training.kubeflow.org/job-role": "launcher"}}),
        alone(OWN_LABELS[0], key="topology.kubernetes.io/zone"),
        alone(OWN_LABELS[0], namespaces=["other"]),
        {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": "apart"}},
    ],
    ids=["another job", "launchers", "by zone", "another namespace", "not readable"],
)
def test_what_keeps_workers_from_others_does_not_keep_them_apart(affinity: dict[str, Any]) -> None:
    assert not asked(with_template(2, affinity=affinity)).apart


def test_a_volume_in_one_zone_keeps_the_workers_there() -> None:
    seen = snapshot(gpu_node("here", load=0.8, domain="eu/a"), gpu_node("there", domain="eu/b"))
    terms = [on("topology.kubernetes.io/zone", "In", "a")]
    volume = node_rule({"nodeSelectorTerms": terms}, reason="Volume", source='PersistentVolumeClaim "state"')
    request = asked(with_template(), node_rules=(volume,))
    assert chosen(request, seen) == ["here"]
    assert rejected(request, seen, "there") == "Volume"


def test_snapshots_of_earlier_versions_rule_nothing_out() -> None:
    assert chosen(asked(with_template(limits={RDMA: "1"})), BOTH) == ["wrong"]


def test_every_claim_that_the_pods_mount_is_known() -> None:
    own = {"name": "scratch", "persistentVolumeClaim": {"claimName": "scratch"}}
    job = training(
        dataset={**SMALL, "source": {"persistentVolumeClaim": {"claimName": "graph"}}},
        checkpoint={"claimName": "state"},
        partitioning={"claimName": "parts"},
        workers={"minReplicas": 1, "maxReplicas": 4, "template": {"spec": {"volumes": [own, {"name": "tmp", "emptyDir": {}}]}}},
    )
    assert worker_asks(job).claims == ("graph", "parts", "scratch", "state")


@pytest.mark.parametrize(
    "name",
    [
        "../../../pods?watch=true&x=1",
        "../../others/configmaps/x",
        "..",
        ".",
        "",
        "a/b",
        "a%2fb",
        "A",
        "a..b",
        "-a",
        "a\n",
        "a" * 254,
        7,
        None,
        ["a"],
    ],
)
def test_a_claim_is_mounted_by_its_name_and_nothing_else(name: object) -> None:
    """The operator reads claims with its own rights: what is no name must never become part of a URL."""
    volumes = [{"name": "tmp", "emptyDir": {}}, {"name": "own", "persistentVolumeClaim": {"claimName": name}}]
    with pytest.raises(RenderError, match="no name of a PersistentVolumeClaim; write 1 to 253 characters") as refused:
        worker_asks(with_template(volumes=volumes))
    assert refused.value.path == "spec.workers.template.spec.volumes[1].persistentVolumeClaim.claimName"


@pytest.mark.parametrize("name", ["a", "0", "state.of-job.v1", "a" * 253])
def test_every_name_that_a_claim_can_have_may_be_mounted(name: str) -> None:
    assert name in worker_asks(with_template(volumes=[{"name": "own", "persistentVolumeClaim": {"claimName": name}}])).claims


SMALL = {"vertices": 1000, "edges": 10_000, "featureSize": 16, "classes": 4}
