"""The main job: apply a GNNTrainingJob, get every rank on its planned node."""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from e2e.cluster import audit
from e2e.cluster.binaries import ensure_all
from e2e.cluster.cluster import Cluster
from e2e.cluster.operator import USER, OperatorProcess
from e2e.jobs import GATE, Job, namespace


@pytest.fixture
def space(calm: Cluster, operator: OperatorProcess, request: pytest.FixtureRequest) -> Iterator[str]:
    with namespace(calm.api(), "main-" + str(abs(hash(request.node.name)))[:8]) as name:
        yield name


def job_in(calm: Cluster, space: str, name: str = "cora") -> Job:
    return Job(calm.api(), space, name)


def kubectl(calm: Cluster, *arguments: str) -> str:
    """What the real kubectl prints; raises where it fails."""
    program = ensure_all()["kubectl"]
    return subprocess.run([program, "--kubeconfig", calm.kubeconfig, *arguments], capture_output=True, text=True, check=True).stdout


def row(calm: Cluster, job: Job) -> dict[str, str]:
    """The first columns of the job in `kubectl get`; later ones may be empty."""
    header, line = kubectl(calm, "get", "gnntj", job.name, "-n", job.namespace).splitlines()
    return dict(zip(header.split()[:4], line.split()[:4], strict=True))


def test_every_rank_of_a_job_gets_to_its_planned_node(calm: Cluster, space: str) -> None:
    job = job_in(calm, space)
    started = time.monotonic()
    job.create(workers={"minReplicas": 3, "maxReplicas": 6, "resources": {"limits": {"nvidia.com/gpu": 2}}})
    job.wait_bound()
    print(f"all ranks are on their nodes after {time.monotonic() - started:.1f} s")
    assert job.pod_nodes() == job.nodes()
    assert 3 <= len(job.nodes()) <= 6
    job.wait_state("Running")
    assert row(calm, job)["STATUS"] == "Running"
    status = job.status()
    assert status["columns"]["ready"] == f"{len(job.nodes())}/{len(job.nodes())}"
    assert status["plan"]["reasons"]
    assert "Planned" in {event["reason"] for event in job.events()}


def test_the_launcher_starts_only_when_every_worker_is_ready(calm: Cluster, space: str) -> None:
    job = job_in(calm, space)
    template = {"minReplicas": 2, "maxReplicas": 2, "template": {"metadata": {"annotations": {"hyperscale.dev/simulated-start": "10s"}}}}

    def held_back() -> bool:
        nodes, launchers = job.pod_nodes(), job.pods("launcher")
        gates = [gate["name"] for pod in launchers for gate in pod["spec"].get("schedulingGates", ())]
        return len(nodes) == 2 and all(nodes) and len(launchers) == 1 and gates == ["hyperscale.dev/launcher"]

    job.create(workers=template)
    job.wait(held_back, "workers are on their nodes, and the launcher is not held back")
    job.wait_state("Running")
    ready = [next(c for c in pod["status"]["conditions"] if c["type"] == "Ready") for pod in job.pods()]
    (launcher,) = job.pods("launcher")
    scheduled = next(c for c in launcher["status"]["conditions"] if c["type"] == "PodScheduled")
    assert all(one["status"] == "True" and one["lastTransitionTime"] <= scheduled["lastTransitionTime"] for one in ready)


def test_a_finished_run_says_so_and_keeps_its_plan(calm: Cluster, space: str) -> None:
    job = job_in(calm, space)
    job.create(launcher={"template": {"metadata": {"annotations": {"hyperscale.dev/simulated-runtime": "1s"}}}})
    assert kubectl(calm, "wait", "--for=condition=Succeeded", "--timeout=120s", f"gnntj/{job.name}", "-n", space).endswith(
        "condition met\n"
    )
    status = job.status()
    assert status["completionTime"]
    assert len(status["plan"]["workers"]) == 2
    assert row(calm, job)["STATUS"] == "Succeeded"
    assert not {"phase", "reason"} & status.keys()


def test_kubectl_waits_for_a_failed_run_as_for_an_mpijob(calm: Cluster, space: str) -> None:
    job = job_in(calm, space)
    annotations = {"hyperscale.dev/simulated-failure": "1s"}
    job.create(launcher={"template": {"metadata": {"annotations": annotations}}}, runPolicy={"backoffLimit": 0})
    assert kubectl(calm, "wait", "--for=condition=Failed", "--timeout=120s", f"gnntj/{job.name}", "-n", space).endswith("condition met\n")
    assert row(calm, job)["STATUS"] == "Failed"
    told = {one["type"]: (one["status"], one["reason"]) for one in job.status()["conditions"]}
    assert told["Succeeded"] == ("False", "Failed")
    assert {told[kind] for kind in ("Running", "Placed", "Suspended")} == {("False", "Finished")}
    assert told["Stalled"] == ("True", "Failed")


def test_deleting_a_job_takes_everything_along(calm: Cluster, space: str) -> None:
    job = job_in(calm, space)
    job.create()
    job.wait_state("Running")
    job.delete()
    job.wait(job.is_gone, "something is left", seconds=180)  # the collector learns of a new CRD only after 30 s, then backs off


def writes_by_resource(cluster: Cluster, since: int) -> Counter[str]:
    """Number of the operator's writes."""
    return Counter(entry.resource for entry in cluster.requests(since) if entry.user == USER and entry.verb in audit.WRITES)


def test_a_job_costs_few_writes_and_an_idle_one_none(calm: Cluster, space: str) -> None:
    since = calm.position()
    job = job_in(calm, space)
    began = time.monotonic()
    job.create()
    job.wait_state("Running")
    seconds = int(time.monotonic() - began)
    job.wait(lambda: bool(job.condition("Evaluated")), "its plan is not evaluated")
    time.sleep(3)
    writes = writes_by_resource(calm, since)
    assert writes["pods"] == 3, "one patch for each of two workers and one launcher"
    assert writes["mpijobs"] == 1
    assert writes["gnntrainingjobs/status"] <= 4 + seconds, "created, placed, running, evaluated; counts of pods once a second before"
    since = calm.position()
    time.sleep(5)
    # The ClusterTopology is not the job's: it tells how sure of each link the operator has become.
    assert set(writes_by_resource(calm, since)) <= {"leases", "clustertopologies", "clustertopologies/status"}


def test_the_cluster_as_last_measured_can_be_looked_up(calm: Cluster, space: str) -> None:
    job = job_in(calm, space)
    job.create(startPolicy="Never")
    job.wait_reason("StartPolicyNever")
    path = "/apis/hyperscale.dev/v1alpha1/clustertopologies/default"

    def links() -> int:
        return int(((calm.api().find(path) or {}).get("status") or {}).get("linkCount", 0))

    job.wait(lambda: links() == 132, "no ClusterTopology with all links was written")
    seen = calm.api().get(path)["status"]
    assert seen["nodeCount"] == 12
    assert seen["linkCount"] == 132
    assert "MetricsAvailable" in [one["reason"] for one in seen["conditions"]]
    assert {link["quality"] for link in seen["links"]} == {"Measured"}


@pytest.mark.parametrize("mode", ["Preferred", "Advisory"])
def test_softer_modes_run_without_pinning(calm: Cluster, space: str, mode: str) -> None:
    job = job_in(calm, space)
    job.create(placement={"mode": mode})
    job.wait_state("Running")
    assert len(job.nodes()) == 2
    for pod in job.pods():
        assert "kubernetes.io/hostname" not in pod["spec"].get("nodeSelector", {})
    if mode == "Preferred":
        assert job.pod_nodes() == job.nodes(), "nothing speaks against the preferred nodes on an empty cluster"


def test_without_a_planner_it_is_a_plain_mpijob(calm: Cluster, space: str) -> None:
    job = job_in(calm, space)
    job.create(planner="None", workers={"minReplicas": 1, "maxReplicas": 3})
    job.wait_state("Running")
    assert "plan" not in job.status()
    assert len(job.pods()) == 3
    assert not any(gate["name"] == GATE for pod in job.pods() for gate in pod["spec"].get("schedulingGates", ()))


def test_a_job_that_never_starts_reports_and_creates_nothing_until_it_may(calm: Cluster, space: str) -> None:
    job = job_in(calm, space)
    job.create(startPolicy="Never")
    job.wait_reason("StartPolicyNever")
    planned = job.plan()["id"]
    assert job.mpijob() is None
    job.patch(spec={"startPolicy": "Automatic"})
    job.wait_bound()
    assert job.state() in ("Starting", "Running")
    assert planned


def test_manual_approval_waits_for_the_annotation_with_the_plans_id(calm: Cluster, space: str) -> None:
    job = job_in(calm, space)
    job.create(startPolicy="Manual")
    job.wait_reason("AwaitingApproval")
    assert job.plan()["id"] in job.condition("Approved")["message"]
    job.patch(metadata={"annotations": {"hyperscale.dev/approved-plan": "0000000000000000"}})
    assert job.mpijob() is None
    planned = job.plan()["id"]
    job.patch(metadata={"annotations": {"hyperscale.dev/approved-plan": planned}})
    job.wait_bound()
    assert job.plan()["id"] == planned
    assert job.pod_nodes() == job.nodes()


def test_a_plan_that_waits_for_a_person_is_evaluated_before_they_decide(calm: Cluster, space: str) -> None:
    job = job_in(calm, space)
    job.create(startPolicy="Manual", runPolicy={"activeDeadlineSeconds": 86_400})
    job.wait(lambda: job.condition("Evaluated").get("status") == "True", "the plan is not evaluated")
    found, planned = job.status()["evaluation"], job.plan()["id"]
    assert found["planId"] == planned
    assert found["endsByDeadline"]["middle"] > 0.99
    assert {stage["stage"]: stage["state"] for stage in found["stages"]}["proof"] == "Passed"
    job.patch(metadata={"annotations": {"hyperscale.dev/approved-plan": planned}})
    job.wait_bound()
    assert job.status()["evaluation"]["planId"] == planned, "what was known before the start stays to be read"


def test_a_job_that_starts_by_itself_is_evaluated_while_it_runs(calm: Cluster, space: str) -> None:
    job = job_in(calm, space)
    job.create()
    job.wait_state("Running")
    job.wait(lambda: job.condition("Evaluated").get("status") == "True", "the plan of a running job is not evaluated")
    found = job.status()["evaluation"]
    assert found["planId"] == job.plan()["id"]
    assert {stage["stage"]: stage["state"] for stage in found["stages"]}["proof"] == "Passed", "its own pods take nothing from it"


def test_suspend_takes_the_pods_away_and_resume_plans_anew(calm: Cluster, space: str) -> None:
    job = job_in(calm, space)
    job.create()
    job.wait_state("Running")
    job.patch(spec={"runPolicy": {"suspend": True}})
    job.wait_state("Queued")
    job.wait(lambda: not job.pods(), "the pods stay")
    job.patch(spec={"runPolicy": {"suspend": False}})
    job.wait_state("Running")
    job.wait_bound()
    assert job.pod_nodes() == job.nodes()
    assert job.condition("Failed") == {}


def test_a_job_suspended_from_the_start_is_planned_only_when_resumed(calm: Cluster, space: str) -> None:
    job = job_in(calm, space)
    job.create(runPolicy={"suspend": True})
    job.wait_reason("Suspended")
    assert job.mpijob() is None
    job.patch(spec={"runPolicy": {"suspend": False}})
    job.wait_bound()


def test_a_queues_label_goes_to_the_mpijob_which_is_created_suspended(calm: Cluster, space: str) -> None:
    job = job_in(calm, space)
    job.create(metadata={"labels": {"kueue.x-k8s.io/queue-name": "gpu", "kueue.x-k8s.io/priority-class": "high"}})
    job.wait_state("Queued")
    mpijob = job.mpijob()
    assert mpijob is not None
    assert mpijob["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "gpu"
    assert mpijob["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] == "high"
    assert mpijob["spec"]["runPolicy"]["suspend"] is True
    assert job.status()["queue"] == "gpu"
    job.api.patch(job.mpijob_path, {"spec": {"runPolicy": {"suspend": False}}})  # what the queue does on admission
    job.wait_bound()
    assert job.pod_nodes() == job.nodes()
    generation = (job.mpijob() or {})["metadata"]["generation"]
    job.api.patch(job.mpijob_path, {"spec": {"runPolicy": {"suspend": True}}})  # and on eviction
    job.wait_state("Queued")
    assert (job.mpijob() or {})["metadata"]["generation"] == generation + 1, "the operator must not write a queue's MPIJob"
