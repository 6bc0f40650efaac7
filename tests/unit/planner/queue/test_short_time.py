"""Searches that end only when they are told to: one of them makes no decision fail, and takes no job its place."""

from __future__ import annotations

from typing import Any

import pytest

from hyperscale.model.admission_query import AdmissionRequest, AdmissionResult, QueuedJob, RunningShare
from hyperscale.model.api.policy import PolicySpec, QueueOrder, QueuePolicy
from hyperscale.model.graph import ClusterGraph
from hyperscale.model.plan import Infeasible, Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.choice.portfolio import make_plan
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.queue import placement_oracle
from hyperscale.planner.queue.joint import OutOfTimeError, take_turns
from hyperscale.planner.queue.placement_oracle import Expired, PlacementOracle
from hyperscale.planner.queue.queue_policies import choosers
from hyperscale.planner.workload.profile import profile
from tests.builders.clusters import both_ways, gpu_node, snapshot, training

BOUND_SECONDS = 1000
POLICY = PolicySpec(queue=QueuePolicy(order=QueueOrder.RULE, starvation_seconds=BOUND_SECONDS, max_start_slowdown=1000.0))
NODES = [f"n{index}" for index in range(12)]
SEEN = snapshot(*(gpu_node(name, free=1) for name in NODES), links=both_ways(NODES, latency_seconds=1e-5, bandwidth_bytes_per_second=2e10))
BUSY = (RunningShare("team/running", 1, 1e6),)
HURRY_SECONDS, END_SECONDS = 2.0, 4.0


class Scene:
    """One planner process: its clock moves while it searches, and a search for a job of a range of workers ends only when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0
        self.searched: list[tuple[str, bool]] = []
        """Jobs that were placed, and whether there was no time for that."""
        self.desk = PlacementOracle(build(SEEN, POLICY), POLICY, self.place)
        self.desk.hurried = lambda: self.now >= HURRY_SECONDS
        self.desk.expired = lambda: self.now >= END_SECONDS

    def place(self, request: PlanRequest, graph: ClusterGraph, expired: Expired) -> Plan | Infeasible:
        self.searched.append((request.job_key, expired()))
        workers = request.job.workers
        while workers.max_replicas > workers.min_replicas and not expired():
            self.now += 0.1
        self.now += 0.01
        return make_plan(request, graph, profile(request.job), POLICY)

    def decide(self, *jobs: QueuedJob, at: float = 0.0, free: int = 12, **question: Any) -> AdmissionResult:
        self.now = at
        taken = dict.fromkeys(NODES[free:], 0)
        asked = AdmissionRequest(jobs=jobs, running=BUSY, free_gpus=taken, **question)
        return take_turns(asked, self.desk, POLICY.queue, choosers(POLICY.queue))


def job(name: str, least: int, most: int, *, waited: float = 1.0, size: int = 1024) -> QueuedJob:
    model = {"architecture": "GraphSAGE", "layers": 3, "hiddenSize": size, "epochs": 1000}
    workers = {"minReplicas": least, "maxReplicas": most, "resources": {"limits": {"nvidia.com/gpu": 1}}}
    return QueuedJob(PlanRequest(job_key=f"team/{name}", job=training(model=model, workers=workers)), waited)


def test_a_job_whose_search_does_not_end_starts_within_its_first_question() -> None:
    (start,) = Scene().decide(job("wide", 2, 12)).starts
    assert start.key == "team/wide"


def test_a_job_whose_search_does_not_end_is_placed_with_its_fewest_workers_too_since_no_more_may_be_free() -> None:
    (start,) = Scene().decide(job("wide", 2, 12), free=3).starts
    assert len(start.plan.workers) <= 3


def test_a_late_job_whose_search_does_not_end_keeps_its_nodes_from_small_jobs() -> None:
    late, small = job("late", 8, 12, waited=3.0 * BOUND_SECONDS), job("small", 1, 1)
    scene = Scene()
    for _ in range(3):
        turns = scene.decide(late, small, free=6)
        assert not turns.starts
        assert [hold.key for hold in turns.holds] == ["team/late", "team/small"]


def test_what_a_search_had_found_when_it_was_cut_need_not_be_found_again() -> None:
    scene = Scene()
    wide, small = job("wide", 8, 12), job("small", 1, 1)
    scene.decide(wide, small, free=6)
    begun = len(scene.searched)
    scene.decide(wide, small, free=6)
    assert ("team/wide", False) in scene.searched[:begun]
    assert [key for key, _ in scene.searched[begun:] if key == "team/small"], "there is time for it now"


def test_jobs_of_very_many_workers_are_compared_by_first_placements_and_start_after_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement_oracle, "LARGE_WORKERS", 8)
    scene = Scene()
    assert scene.decide(job("wide", 2, 12)).starts
    *compared, final = [hurried for _, hurried in scene.searched]
    assert all(compared)
    assert not final


def test_the_job_that_asks_is_looked_at_first_so_that_costly_older_ones_never_hide_it() -> None:
    costly = [job(f"costly{number}", 8, 12, waited=100.0 + number, size=256 + number) for number in range(4)]
    turns = Scene().decide(*costly, job("small", 1, 1), free=6, asking="team/small")
    assert [start.key for start in turns.starts] == ["team/small"]
    unseen = [hold for hold in turns.holds if hold.unseen]
    assert {hold.key for hold in unseen} == {"team/costly0", "team/costly1", "team/costly2"}
    assert {hold.message for hold in unseen} == {"there was no time to look at it yet, it is asked about again in 1 s"}


@pytest.mark.parametrize(("bounds", "free", "starts"), [(3.0, 6, False), (3.0, 8, False), (1.5, 8, True), (1.5, 6, True), (0.5, 8, True)])
def test_a_job_that_there_was_no_time_to_look_at_keeps_its_nodes_from_twice_the_bound_on(bounds: float, free: int, starts: bool) -> None:
    late, asking = job("late", 8, 12, waited=bounds * BOUND_SECONDS), job("costly", 2, 12, size=256)
    turns = Scene().decide(late, asking, free=free, asking="team/costly")
    assert [hold.key for hold in turns.holds if hold.unseen] == ["team/late"]
    assert [start.key for start in turns.starts] == (["team/costly"] if starts else [])


def test_without_time_to_look_at_any_job_there_is_no_decision() -> None:
    with pytest.raises(OutOfTimeError, match="before any job was looked at"):
        Scene().decide(job("small", 1, 1), at=END_SECONDS)
