from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hyperscale.control.render.commands import UNKNOWN_IMAGE_PROGRAM
from hyperscale.control.render.mpijob import launcher_pod_for_dry_run, plan_annotation, render, worker_pod_for_dry_run
from hyperscale.model import constants
from hyperscale.model.plan import Plan, Rejection
from hyperscale.observe.kube.owned_objects import mpijob_view
from tests.builders.placement import DEFAULTS, job, metadata, plan

PLAN = plan("node-b", "node-a")


def rendered(*, of: Plan | None = PLAN, labels: dict[str, str] | None = None, **fields: Any) -> dict[str, Any]:
    return render(metadata(**(labels or {})), job(**fields), of, DEFAULTS)


def pod_spec(mpijob: dict[str, Any], replica: str = "Worker") -> dict[str, Any]:
    spec: dict[str, Any] = mpijob["spec"]["mpiReplicaSpecs"][replica]["template"]["spec"]
    return spec


def variables(mpijob: dict[str, Any], replica: str = "Worker") -> dict[str, str]:
    return {entry["name"]: entry["value"] for entry in pod_spec(mpijob, replica)["containers"][0]["env"]}


def test_the_mpijob_has_the_jobs_name_and_belongs_to_it() -> None:
    found = rendered()["metadata"]
    assert (found["namespace"], found["name"]) == ("team-a", "cora")
    assert found["ownerReferences"] == [
        {
            "apiVersion": "hyperscale.dev/v1alpha1",
            "kind": "GNNTrainingJob",
            "name": "cora",
            "uid": "7f3c",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


def test_there_is_one_worker_for_each_planned_rank_and_one_launcher() -> None:
    specs = rendered()["spec"]["mpiReplicaSpecs"]
    assert specs["Worker"]["replicas"] == 2
    assert specs["Launcher"]["replicas"] == 1


OWN_IMAGE = {"template": {"spec": {"containers": [{"name": "launcher", "image": "example.org/own:1"}]}}}
OWN_COMMAND = {"template": {"spec": {"containers": [{"name": "launcher", "command": ["mpirun", "-np", "2", "train"]}]}}}


@pytest.mark.parametrize(
    ("fields", "resizable"),
    [
        ({}, True),
        ({"workers": {"minReplicas": 2, "maxReplicas": 2}}, False),
        ({"placement": {"mode": "Preferred"}}, False),
        ({"planner": "None"}, False),
        ({"model": {"architecture": "GCN", "script": "train.py"}}, False),
        ({"launcher": OWN_IMAGE}, False),
        ({"launcher": OWN_COMMAND}, False),
    ],
    ids=["a range", "one count", "Preferred", "planner None", "own script", "own launcher image", "own launcher command"],
)
def test_an_mpijob_says_whether_its_launcher_goes_by_the_plan_in_force(fields: dict[str, Any], resizable: bool) -> None:
    assert mpijob_view(rendered(**fields)).resizable is resizable


def test_gpus_are_limits_of_the_worker_and_slots_of_mpi() -> None:
    mpijob = rendered(workers={"maxReplicas": 2, "resources": {"limits": {"nvidia.com/gpu": 4}}}, of=plan("a", "b", gpus=4))
    assert mpijob["spec"]["slotsPerWorker"] == 4
    assert pod_spec(mpijob)["containers"][0]["resources"] == {"limits": {"nvidia.com/gpu": 4}}
    assert "nvidia.com/gpu" not in str(pod_spec(mpijob, "Launcher"))
    command = pod_spec(mpijob, "Launcher")["containers"][0]["command"]
    assert command[command.index("-np") + 1] == "8"


def test_cpu_is_requested_and_memory_requested_and_limited() -> None:
    resources = pod_spec(
        rendered(workers={"maxReplicas": 2, "resources": {"limits": {"memory": "8Gi"}, "requests": {"cpu": 4, "memory": "4Gi"}}})
    )["containers"][0]["resources"]
    assert resources == {"limits": {"nvidia.com/gpu": 1, "memory": "8Gi"}, "requests": {"cpu": "4", "memory": "4Gi"}}


@pytest.mark.parametrize("mode", ["Strict", "Preferred"])
def test_pods_wait_behind_gates_when_the_plan_is_to_be_carried_out(mode: str) -> None:
    mpijob = rendered(placement={"mode": mode})
    assert pod_spec(mpijob)["schedulingGates"] == [{"name": constants.PLACEMENT_GATE}]
    assert pod_spec(mpijob, "Launcher")["schedulingGates"] == [{"name": constants.LAUNCHER_GATE}]
    assert mpijob["spec"]["launcherCreationPolicy"] == "AtStartup"


@pytest.mark.parametrize(("of", "fields"), [(PLAN, {"placement": {"mode": "Advisory"}}), (None, {"planner": "None"})])
def test_pods_wait_for_nobody_when_the_plan_is_advice_or_there_is_none(of: Plan | None, fields: dict[str, Any]) -> None:
    mpijob = rendered(of=of, **fields)
    assert "schedulingGates" not in pod_spec(mpijob)
    assert "schedulingGates" not in pod_spec(mpijob, "Launcher")
    assert mpijob["spec"]["launcherCreationPolicy"] == "WaitForWorkersReady"


def test_without_a_plan_the_job_gets_all_its_workers() -> None:
    mpijob = rendered(of=None, planner="None")
    assert mpijob["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] == 4
    assert constants.PLAN_ANNOTATION not in mpijob["metadata"]["annotations"]
    assert constants.PLAN_ID_LABEL not in mpijob["metadata"]["labels"]
    assert variables(mpijob)["HYPERSCALE_SHARES"] == "0.25,0.25,0.25,0.25"


@pytest.mark.parametrize(
    ("labels", "asked", "suspended"),
    [({}, False, False), ({}, True, True), ({constants.KUEUE_QUEUE_LABEL.replace("/", "__"): "gold"}, False, True)],
    ids=["nobody says wait", "the user says wait", "a queue decides"],
)
def test_it_is_created_suspended_when_someone_else_decides_when_it_runs(labels: dict[str, str], asked: bool, suspended: bool) -> None:
    assert rendered(labels=labels, runPolicy={"suspend": asked})["spec"]["runPolicy"]["suspend"] is suspended


def test_queue_labels_are_copied_and_no_others() -> None:
    labels = {"kueue.x-k8s.io__queue-name": "gold", "kueue.x-k8s.io__priority-class": "high", "kai.scheduler__queue": "k", "team": "x"}
    found = rendered(labels=labels)["metadata"]["labels"]
    assert found["kueue.x-k8s.io/queue-name"] == "gold"
    assert found["kueue.x-k8s.io/priority-class"] == "high"
    assert found["kai.scheduler/queue"] == "k"
    assert "team" not in found


@pytest.mark.parametrize(
    ("topology", "annotation"),
    [
        ({"required": "rack", "preferred": "zone"}, {"kueue.x-k8s.io/podset-required-topology": "rack"}),
        ({"preferred": "zone"}, {"kueue.x-k8s.io/podset-preferred-topology": "zone"}),
    ],
)
def test_an_advisory_job_in_a_queue_tells_the_queue_its_topology(topology: dict[str, str], annotation: dict[str, str]) -> None:
    placement = {"mode": "Advisory", "topology": topology}
    queued = rendered(labels={"kueue.x-k8s.io__queue-name": "gold"}, placement=placement)
    plain = rendered(placement=placement)["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["metadata"]["annotations"]
    assert queued["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["metadata"]["annotations"] == annotation | plain
    assert not any(key.startswith("kueue") for key in plain)


def test_the_run_policy_is_the_jobs_own() -> None:
    policy = {"cleanPodPolicy": "All", "backoffLimit": 5, "activeDeadlineSeconds": 60, "ttlSecondsAfterFinished": 0}
    assert rendered(runPolicy=policy)["spec"]["runPolicy"] == policy | {"suspend": False}


def test_the_plan_can_be_read_back_from_the_mpijob() -> None:
    assert mpijob_view(rendered()).plan == PLAN
    assert mpijob_view({"metadata": {}}).plan is None
    assert mpijob_view({"metadata": {"annotations": {constants.PLAN_ANNOTATION: "{"}}}).plan is None


def test_a_plan_too_large_for_an_annotation_loses_its_explanations_only() -> None:
    wide = plan(*(f"{index:0240d}" for index in range(600)))
    large = msgspec.structs.replace(wide, reasons=("why",) * 16, rejected=(Rejection("node-c", "Cordoned", "x" * 256),) * 32)
    assert msgspec.json.decode(plan_annotation(large), type=Plan) == wide


def test_a_thousand_workers_fit_into_an_annotation() -> None:
    wide = plan(*(f"gpu-pool-7-node-{index:05d}.eu-west.example.com" for index in range(1000)))
    assert len(plan_annotation(wide)) < 200_000


def test_the_program_is_told_what_was_planned() -> None:
    told = variables(rendered(allreduce={"compression": "FP16"}, partitioning={"method": "METIS"}))
    assert told["HYPERSCALE_JOB"] == "team-a/cora"
    assert told["HYPERSCALE_PLAN_ID"] == "0123456789abcdef"
    assert told["HYPERSCALE_PARTITIONS"] == "2"
    assert told["HYPERSCALE_SHARES"] == "0.5,0.5"
    assert told["HYPERSCALE_PARTITIONING_METHOD"] == "METIS"
    assert told["HYPERSCALE_COMPRESSION"] == "FP16"
    assert msgspec.json.decode(told["HYPERSCALE_MODEL"])["architecture"] == "GCN"


def test_hyperparameters_are_handed_over_as_numbers_and_images_of_before_see_none_where_none_are() -> None:
    stated: dict[str, Any] = {"learningRate": "0.1", "edgeFeatures": False}
    told = variables(rendered(model={"architecture": "GCN", "hyperparameters": stated}))
    assert msgspec.json.decode(told["HYPERSCALE_MODEL"])["hyperparameters"] == stated | {"learningRate": 0.1}
    assert "HYPERSCALE_HYPERPARAMETERS" not in told
    assert "hyperparameters" not in msgspec.json.decode(variables(rendered(model={"architecture": "GCN"}))["HYPERSCALE_MODEL"])


def test_every_variable_of_the_launcher_is_handed_to_the_ranks() -> None:
    template = {
        "spec": {"containers": [{"name": "launcher", "env": [{"name": "MY_SEED", "value": "3"}, {"name": "odd name", "value": ""}]}]}
    }
    container = pod_spec(rendered(launcher={"template": template}), "Launcher")["containers"][0]
    forwarded = {container["command"][index + 1] for index, part in enumerate(container["command"]) if part == "-x"}
    assert forwarded == {entry["name"] for entry in container["env"]} - {"odd name"}


@pytest.mark.parametrize(
    ("script", "ending"),
    [
        (None, ["python3", "-m", "hyperscale.training.worker.train"]),
        ("examples/gcn.py", ["python3", "-m", "hyperscale.training.worker.script", "examples/gcn.py"]),
    ],
)
def test_the_launcher_runs_the_jobs_script_or_the_worker_package(script: str | None, ending: list[str]) -> None:
    mpijob = rendered(model={"architecture": "GCN", "script": script})
    assert pod_spec(mpijob, "Launcher")["containers"][0]["command"][-len(ending) :] == ending


def test_a_script_in_an_image_of_its_own_is_started_without_need_of_the_worker_package() -> None:
    containers = [{"name": "side", "image": "other:1"}, {"name": "worker", "image": "theirs:1"}]
    mpijob = rendered(
        model={"architecture": "GCN", "script": "train.py"},
        workers={"minReplicas": 1, "maxReplicas": 4, "template": {"spec": {"containers": containers}}},
    )
    assert pod_spec(mpijob, "Launcher")["containers"][0]["command"][-4:] == ["python3", "-c", UNKNOWN_IMAGE_PROGRAM, "train.py"]


SOURCES = [
    (
        {"persistentVolumeClaim": {"claimName": "graphs"}},
        "persistentVolumeClaim",
        "/data/papers",
        {"persistentVolumeClaim": {"claimName": "graphs", "readOnly": True}},
    ),
    ({"configMap": {"name": "small"}}, "configMap", "/data/papers", {"configMap": {"name": "small"}}),
    ({"s3": {"bucket": "graphs", "secretRef": {"name": "keys"}}}, "s3", "s3://graphs/papers", None),
]


@pytest.mark.parametrize(("source", "kind", "address", "volume"), SOURCES, ids=[entry[1] for entry in SOURCES])
def test_the_dataset_is_where_the_program_is_told(source: dict[str, Any], kind: str, address: str, volume: dict[str, Any] | None) -> None:
    dataset = {"source": source, "path": "papers", "vertices": 10, "edges": 20, "featureSize": 3, "classes": 2}
    mpijob = rendered(dataset=dataset)
    assert variables(mpijob)["HYPERSCALE_DATASET_SOURCE"] == kind
    assert variables(mpijob)["HYPERSCALE_DATASET_PATH"] == address
    assert variables(mpijob)["HYPERSCALE_DATASET_FEATURE_SIZE"] == "3"
    volumes = {entry["name"]: entry for entry in pod_spec(mpijob)["volumes"]}
    assert (volumes.get("hyperscale-dataset") or {}) == ({} if volume is None else {"name": "hyperscale-dataset", **volume})
    mounts = [entry for entry in pod_spec(mpijob)["containers"][0]["volumeMounts"] if entry["mountPath"] == "/data"]
    assert all(entry["readOnly"] for entry in mounts)
    assert len(mounts) == (volume is not None)


def test_credentials_of_a_bucket_are_referred_to_and_forwarded_by_name() -> None:
    source = {"s3": {"bucket": "graphs", "secretRef": {"name": "keys"}}}
    mpijob = rendered(dataset={"source": source, "vertices": 1, "edges": 1, "featureSize": 1, "classes": 1})
    for replica in ("Worker", "Launcher"):
        assert pod_spec(mpijob, replica)["containers"][0]["envFrom"] == [{"secretRef": {"name": "keys"}}]
    assert "AWS_SECRET_ACCESS_KEY" in pod_spec(mpijob, "Launcher")["containers"][0]["command"]


def test_checkpoints_are_mounted_in_the_workers() -> None:
    mpijob = rendered(checkpoint={"claimName": "saves", "everyEpochs": 5})
    assert variables(mpijob)["CHECKPOINT_DIR"] == "/checkpoints"
    assert variables(mpijob)["HYPERSCALE_CHECKPOINT_EVERY_EPOCHS"] == "5"
    assert {"name": "hyperscale-checkpoints", "mountPath": "/checkpoints"} in pod_spec(mpijob)["containers"][0]["volumeMounts"]
    assert [volume["name"] for volume in pod_spec(mpijob, "Launcher")["volumes"]] == ["hyperscale-plan"]


def test_shared_memory_is_there_for_nccl_and_the_data_loaders() -> None:
    spec = pod_spec(rendered())
    assert {"name": "hyperscale-shm", "emptyDir": {"medium": "Memory"}} in spec["volumes"]
    assert {"name": "hyperscale-shm", "mountPath": "/dev/shm"} in spec["containers"][0]["volumeMounts"]  # noqa: S108


def test_the_pods_for_a_dry_run_are_the_ones_that_mpi_operator_would_make() -> None:
    mpijob = rendered()
    before = msgspec.json.encode(mpijob)
    worker, launcher = worker_pod_for_dry_run(mpijob), launcher_pod_for_dry_run(mpijob)
    assert (worker["metadata"]["name"], worker["metadata"]["namespace"]) == ("cora-worker-0-dry-run", "team-a")
    assert (worker["spec"]["hostname"], worker["spec"]["subdomain"]) == ("cora-worker-0", "cora")
    assert worker["metadata"]["labels"]["training.kubeflow.org/replica-index"] == "0"
    assert worker["spec"]["schedulingGates"] == [{"name": constants.PLACEMENT_GATE}]
    assert launcher["metadata"]["labels"]["training.kubeflow.org/job-role"] == "launcher"
    assert (worker["spec"]["restartPolicy"], launcher["spec"]["restartPolicy"]) == ("OnFailure", "Never")
    assert msgspec.json.encode(mpijob) == before
