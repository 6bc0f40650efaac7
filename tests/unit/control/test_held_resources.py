"""What planned ranks hold besides GPUs counts before their pods are bound: cores, memory, devices, places for pods."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hyperscale.control.cache.assumed_plans import Reservations
from hyperscale.control.cache.cluster_cache import ClusterCache
from hyperscale.control.cache.records import Key
from hyperscale.model import constants
from hyperscale.model.status import JobStatus, ObjectReference, to_wire
from tests.builders.seen import MPIJOB_UID, UID, plan

CORA = Key("team", "cora")
OTHER = Key("team", "other")
TWO = plan("node-a", "node-b")
RDMA = "rdma/hca"
TAKEN = {"cpu": 4.1, "memory": 8.0 * 2**30, RDMA: 1.0, "pods": 1.0}
TEMPLATE = {
    "schedulingGates": [{"name": constants.PLACEMENT_GATE}],
    "containers": [
        {"name": "worker", "resources": {"limits": {constants.GPU_RESOURCE: 1, RDMA: "1", "memory": "8Gi"}, "requests": {"cpu": "4"}}},
        {"name": "log", "resources": {"requests": {"cpu": "100m"}}},
    ],
}


def cache() -> ClusterCache:
    """The job is planned and its MPIJob exists; no pod is bound."""
    made = ClusterCache()
    status = JobStatus(plan=TWO, mpi_job_ref=ObjectReference("cora", MPIJOB_UID))
    metadata: dict[str, Any] = {"namespace": "team", "name": "cora", "resourceVersion": "1"}
    made.see_job({"metadata": {**metadata, "uid": UID, "generation": 1}, "spec": {}, "status": to_wire(status)})
    owner = {"apiVersion": constants.API_VERSION, "kind": constants.JOB_KIND, "name": "cora", "uid": UID, "controller": True}
    spec = {"runPolicy": {"suspend": False}, "mpiReplicaSpecs": {"Worker": {"replicas": 2, "template": {"spec": TEMPLATE}}}}
    made.see_mpijob({"metadata": {**metadata, "uid": MPIJOB_UID, "ownerReferences": [owner]}, "spec": spec})
    return made


def bound(rank: int, node: str) -> dict[str, Any]:
    labels = {
        constants.MPI_JOB_NAME_LABEL: "cora",
        constants.MPI_JOB_ROLE_LABEL: "worker",
        constants.MPI_REPLICA_INDEX_LABEL: str(rank),
    }
    owner = {"kind": "MPIJob", "name": "cora", "uid": MPIJOB_UID, "controller": True}
    metadata = {"namespace": "team", "name": f"cora-worker-{rank}", "uid": f"u{rank}", "labels": labels, "ownerReferences": [owner]}
    return {"metadata": {**metadata, "resourceVersion": "1"}, "spec": {**TEMPLATE, "nodeName": node}, "status": {"phase": "Running"}}


def test_what_planned_ranks_hold_is_taken_from_others_until_their_pods_show_it() -> None:
    seen = cache()
    assert seen.assumed_plans.reserved_amounts(OTHER) == {"node-a": TAKEN, "node-b": TAKEN}
    assert seen.assumed_plans.reserved_amounts(CORA) == {}, "a job does not stand in its own way"
    seen.see_pod(bound(0, "node-a"))
    assert seen.assumed_plans.reserved_amounts(OTHER) == {"node-b": TAKEN}
    seen.see_pod(bound(1, "node-b"))
    assert seen.assumed_plans.reserved_amounts(OTHER) == {}


def test_a_plan_without_mpijob_holds_what_its_question_asked_for() -> None:
    seen = ClusterCache()
    seen.assume(CORA, TWO, {"cpu": 0.1, "pods": 1.0})
    assert seen.assumed_plans.reserved_amounts(OTHER) == {"node-a": {"cpu": 0.1, "pods": 1.0}, "node-b": {"cpu": 0.1, "pods": 1.0}}
    seen.assume(CORA, TWO)
    assert seen.assumed_plans.reserved_amounts(OTHER)["node-a"]["cpu"] == 0.1
    seen.assume(CORA, None)
    assert seen.assumed_plans.reserved_amounts(OTHER) == {}


A, B, C = Key("ns", "a"), Key("ns", "b"), Key("ns", "c")
JOBS = st.sampled_from([A, B, C])
NODES = st.sampled_from(["n0", "n1", "n2"])
HOLDINGS = st.tuples(
    JOBS, st.dictionaries(NODES, st.integers(1, 4)), st.dictionaries(st.sampled_from(["cpu", RDMA]), st.sampled_from([0.1, 0.3, 2.0]))
)


Holding = tuple[dict[str, int], dict[str, float]]
"""Workers on each node, and what each worker holds."""


def summed(holdings: Iterable[Holding]) -> dict[str, dict[str, float]]:
    """What the holdings come to on each node, one worker after the other."""
    sums: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for workers, amounts in holdings:
        for node, name in product(workers, amounts):
            sums[node][name] += workers[node] * amounts[name]
    return rounded(sums)


def thousandths(workers: dict[str, int], amounts: dict[str, float]) -> dict[str, dict[str, int]]:
    return {node: {name: round(amount * 1000) * count for name, amount in amounts.items()} for node, count in workers.items()}


def rounded(held: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    return {node: {name: round(amount, 6) for name, amount in amounts.items()} for node, amounts in held.items()}


@given(st.lists(HOLDINGS, max_size=12))
def test_reservations_equal_the_sum_of_what_the_other_jobs_hold(steps: list[tuple[Key, dict[str, int], dict[str, float]]]) -> None:
    kept = Reservations()
    known: dict[Key, Holding] = {}
    for job, workers, amounts in steps:
        kept.set(job, thousandths(workers, amounts))
        known[job] = (workers, amounts)
    for asking in (A, B, None):
        held = kept.held_by_others(asking)
        assert rounded({node: {name: amount / 1000 for name, amount in amounts.items()} for node, amounts in held.items()}) == summed(
            holding for job, holding in known.items() if job != asking
        )
        assert kept.held_by_others(asking, ["n1"]) == {node: amounts for node, amounts in held.items() if node == "n1"}


@given(st.lists(HOLDINGS, max_size=12))
def test_nothing_is_reserved_once_every_job_holds_nothing(steps: list[tuple[Key, dict[str, int], dict[str, float]]]) -> None:
    kept = Reservations()
    for job, workers, amounts in steps:
        kept.set(job, thousandths(workers, amounts))
    for job, _, _ in steps:
        kept.set(job, {})
    assert kept.held_by_others(None) == {}


def test_what_others_hold_is_summed_again_only_where_the_asking_job_holds_something() -> None:
    reservations = Reservations()
    reservations.set(CORA, {"node-a": {"pods": 1}})
    reservations.set(OTHER, {"node-a": {"pods": 2}, "node-b": {"pods": 1}})
    first, second = reservations.held_by_others(CORA), reservations.held_by_others(CORA)
    assert first == second == {"node-a": {"pods": 2}, "node-b": {"pods": 1}}
    assert first["node-b"] is second["node-b"]
