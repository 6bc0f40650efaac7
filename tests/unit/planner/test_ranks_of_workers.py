"""A worker with several GPUs runs several MPI ranks: partitions, traffic and the plan's own words follow ranks."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from hyperscale.model.plan import Plan, plan_of
from hyperscale.model.planning import PlanRequest
from hyperscale.model.status import JobStatus, read_status, to_wire
from hyperscale.planner.check.artifact import to_json
from hyperscale.planner.cost.costs import volumes
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.problem.placement_problem import pose
from hyperscale.planner.workload.profile import profile
from tests.builders.clusters import POLICY, both_ways, gpu_node, planned, refused, snapshot, training

NAMES = ["n0", "n1", "n2", "n3"]
SEEN = snapshot(*(gpu_node(name, free=4) for name in NAMES), links=both_ways(NAMES))
FOUR_BY_FOUR = {"minReplicas": 4, "maxReplicas": 4, "resources": {"limits": {"nvidia.com/gpu": 4}}}


def test_four_workers_of_four_gpus_cut_sixteen_parts() -> None:
    plan = planned(SEEN, training(workers=FOUR_BY_FOUR))
    assert (len(plan.workers), plan.ranks, plan.partitions) == (4, 16, 16)


def test_a_plan_says_which_ranks_a_worker_runs_and_how_many_a_node_holds() -> None:
    two_on_one = snapshot(gpu_node("n0", free=4), gpu_node("n1", free=8), links=both_ways(["n0", "n1"]))
    plan = planned(two_on_one, training(workers={"minReplicas": 3, "maxReplicas": 3, "resources": {"limits": {"nvidia.com/gpu": 4}}}))
    assert [list(worker.ranks) for worker in plan.workers] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert [worker.index for worker in plan.workers] == [0, 1, 2]
    assert plan.ranks_by_node == {"n0": 4, "n1": 8}


def test_sixteen_ranks_exchange_what_sixteen_parts_do_not_what_four_do() -> None:
    job = training(workers=FOUR_BY_FOUR)
    costs = pose(PlanRequest(job_key="a/b", job=job), build(SEEN, POLICY), profile(job), POLICY).costs(np.arange(4))
    workload = profile(job)
    assert volumes(costs, 4).halo_bytes == pytest.approx(workload.replication(16) * workload.vertices * workload.halo_bytes_per_copy)
    assert volumes(costs, 4).halo_bytes > 2.5 * workload.replication(4) * workload.vertices * workload.halo_bytes_per_copy


def test_one_worker_of_several_gpus_exchanges_boundaries_inside_its_node() -> None:
    whole, parted = (
        training(workers={"minReplicas": 1, "maxReplicas": 1, "resources": {"limits": {"nvidia.com/gpu": gpus}}}) for gpus in (1, 4)
    )
    assert planned(SEEN, whole).predicted.communication_seconds == 0.0
    assert planned(SEEN, parted).predicted.communication_seconds > 0.0


def test_stated_partitions_are_dealt_out_evenly_to_ranks() -> None:
    job = training(workers={"minReplicas": 1, "maxReplicas": 4, "resources": {"limits": {"nvidia.com/gpu": 4}}}, partitioning={"count": 8})
    plan = planned(SEEN, job)
    assert len(plan.workers) in (1, 2)
    assert plan.partitions == 8
    answer = refused(SEEN, training(workers=FOUR_BY_FOUR, partitioning={"count": 8}))
    assert answer.reason == "PartitionCountMismatch"
    assert "multiple of workers times their GPUs" in answer.message


def test_a_plan_of_an_earlier_version_is_read_with_its_ranks() -> None:
    plan = planned(SEEN, training(workers=FOUR_BY_FOUR))
    wire = msgspec.to_builtins(plan)
    older = {name: value for name, value in wire.items() if name != "ranksByNode"}
    older["workers"] = [
        {name: index if name == "rank" else value for name, value in worker.items() if name != "index"}
        for index, worker in enumerate(wire["workers"])
    ]
    assert plan_of(older) == plan
    status = JobStatus(plan=plan)
    assert read_status({**to_wire(status), "plan": older}) == status


def test_the_document_says_it_too() -> None:
    plan = planned(SEEN, training(workers=FOUR_BY_FOUR))
    assert msgspec.json.decode(to_json(plan), type=Plan) == plan
    document = msgspec.json.decode(to_json(plan))
    assert document["ranksByNode"] == dict.fromkeys(NAMES, 4)
    assert [worker["rank"] for worker in document["workers"]] == [0, 4, 8, 12]
