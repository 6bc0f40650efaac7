"""Stops from real placements: none too soon, none that was not asked about. The queue's next decision starts the job promised it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from hyperscale.model.admission_query import AdmissionRequest, Claim, QueuedJob, RunningShare
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.graph import ClusterGraph
from hyperscale.model.plan import Infeasible, Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.model.running_query import PreemptibleJob, PreemptionAnswer, PreemptionQuestion, RunningJob
from hyperscale.planner.check.drained_snapshot import added
from hyperscale.planner.check.queue_check import unsound_stops
from hyperscale.planner.choice.portfolio import make_plan
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.preempt import preemption_question
from hyperscale.planner.preempt.preemption_problem import Terms
from hyperscale.planner.preempt.preemption_question import evaluate_preemptions
from hyperscale.planner.queue.gpu_kinds import MOST_KINDS, kinds_of
from hyperscale.planner.queue.joint import take_turns
from hyperscale.planner.queue.placement_oracle import Expired, PlacementOracle
from hyperscale.planner.queue.queue_policies import choosers
from hyperscale.planner.workload.profile import profile
from tests.builders.clusters import PRODUCTS, gpu_node, snapshot, training

POLICY = PolicySpec()
TERMS = Terms(min_gain_ratio=0.1, hold_down_seconds=600.0, restart_seconds=60.0)
A100, V100, T4, H100 = PRODUCTS


def place(request: PlanRequest, graph: ClusterGraph, expired: Expired) -> Plan | Infeasible:
    return make_plan(request, graph, profile(request.job), POLICY, expired=expired)


def asked(name: str, epochs: int, workers: int = 1, gpus: int = 1) -> PlanRequest:
    model = {"architecture": "GraphSAGE", "layers": 2, "hiddenSize": 128, "epochs": epochs}
    return PlanRequest(
        job_key=f"team/{name}",
        job=training(
            model=model, workers={"minReplicas": workers, "maxReplicas": workers, "resources": {"limits": {"nvidia.com/gpu": gpus}}}
        ),
    )


class World:
    """A cluster on which jobs are started one after the other, and the question about them."""

    def __init__(self, *nodes: tuple[int, str]) -> None:
        self.nodes = {f"n{index}": (gpus, product) for index, (gpus, product) in enumerate(nodes)}
        self.running: list[PreemptibleJob] = []
        self.others: list[tuple[RunningShare, dict[str, Claim]]] = []
        self.pending: list[QueuedJob] = []

    @property
    def claims(self) -> dict[str, Claim]:
        return added([*(job.running.claims for job in self.running), *(claims for _, claims in self.others)])

    def snapshot(self) -> ClusterSnapshot:
        held = {name: claim.gpus for name, claim in self.claims.items()}
        return snapshot(
            *(gpu_node(name, free=gpus, product=product, requested_gpus=held.get(name, 0)) for name, (gpus, product) in self.nodes.items())
        )

    def desk(self) -> PlacementOracle:
        return PlacementOracle(build(self.snapshot(), POLICY), POLICY, place)

    def run(self, request: PlanRequest, *, on: Sequence[str] = (), held_seconds: float = 1e4, may_stop: bool = True) -> bool:
        """Start a job on the best free nodes, or on those named; whether it fits."""
        shut = {name: 0 for name in self.nodes if on and name not in on}
        found = self.desk().now(replace(request, free_gpus=shut))
        if isinstance(found, Infeasible):
            return False
        claims = {name: Claim(gpus=gpus) for name, gpus in found.gpus_by_node().items()}
        epochs = float(request.job.model.epochs)
        if may_stop:
            running = RunningJob(replace(request, workers_fixed=len(found.workers)), found, claims, epochs, 0.01 * epochs)
            self.running.append(PreemptibleJob(running, held_seconds=held_seconds))
        else:
            left = found.predicted.epoch_seconds * epochs
            self.others.append((RunningShare(request.job_key, sum(found.gpus_by_node().values()), left), claims))
        return True

    def wait(self, request: PlanRequest, weight: float = 1.0) -> None:
        self.pending.append(QueuedJob(request, 60.0, weight))

    def question(self) -> PreemptionQuestion:
        return PreemptionQuestion(tuple(self.pending), tuple(self.running), tuple(share for share, _ in self.others), {}, self.claims)

    def stops(self, terms: Terms = TERMS) -> PreemptionAnswer:
        return evaluate_preemptions(self.question(), self.desk(), POLICY.queue, terms, choosers(POLICY.queue))


def told(stops: PreemptionAnswer) -> dict[str, tuple[str, ...]]:
    return {stop.key: stop.beneficiaries for stop in stops.stops}


def test_a_long_job_gives_the_only_gpu_to_a_short_one_and_a_protected_one_does_not() -> None:
    for may_stop in (True, False):
        cache = World((1, A100))
        assert cache.run(asked("long", 100_000), may_stop=may_stop)
        cache.wait(asked("short", 1000))
        assert told(cache.stops()) == ({"team/long": ("team/short",)} if may_stop else {})


def test_a_job_is_not_stopped_where_the_pending_one_cannot_use_its_node() -> None:
    cache = World((1, T4), (1, A100))
    assert cache.run(asked("long", 100_000), on=["n0"])
    assert cache.run(asked("protected", 100_000), on=["n1"], may_stop=False)
    cache.wait(replace(asked("short", 1000), excluded_nodes=("n0",)))
    assert told(cache.stops()) == {}


def test_a_wide_job_has_two_narrow_ones_stopped_and_the_third_goes_on() -> None:
    cache = World((1, A100), (1, A100), (1, A100))
    for number in range(3):
        assert cache.run(asked(f"narrow-{number}", 100_000))
    cache.wait(asked("wide", 500, workers=2), weight=10.0)
    found = told(cache.stops())
    assert len(found) == 2
    assert set(found.values()) == {("team/wide",)}


def test_a_job_that_no_kind_alone_can_hold_has_both_kinds_freed_for_it() -> None:
    cache = World((1, T4), (1, A100))
    for number in range(2):
        assert cache.run(asked(f"narrow-{number}", 100_000))
    cache.wait(asked("wide", 200, workers=2), weight=10.0)
    assert told(cache.stops()) == {"team/narrow-0": ("team/wide",), "team/narrow-1": ("team/wide",)}


def test_a_long_job_leaves_the_fast_gpus_to_a_short_one_and_goes_on_at_once_on_slow_ones_that_are_free() -> None:
    cache = World((1, V100), (1, A100))
    assert cache.run(asked("long", 100_000), on=["n1"])
    cache.wait(replace(asked("short", 20_000), excluded_nodes=("n0",)))
    assert told(cache.stops()) == {"team/long": ("team/short", "team/long")}


def test_a_long_job_waits_for_the_fast_gpus_where_the_free_ones_are_much_slower() -> None:
    cache = World((1, T4), (1, H100))
    assert cache.run(asked("long", 100_000), on=["n1"])
    cache.wait(asked("short", 40_000))
    assert told(cache.stops()) == {"team/long": ("team/short",)}


def test_nobody_is_stopped_when_there_is_no_time_to_be_sure() -> None:
    cache = World((1, A100))
    assert cache.run(asked("long", 100_000))
    cache.wait(asked("short", 1000))
    desk = cache.desk()
    desk.expired = desk.hurried = lambda: True
    assert evaluate_preemptions(cache.question(), desk, POLICY.queue, TERMS, choosers(POLICY.queue)) == PreemptionAnswer()


def test_on_large_clusters_first_placements_decide_and_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = World(*[(1, A100)] * 6, *[(1, T4)] * 2)
    for number in range(6):
        assert cache.run(asked(f"long-{number}", 100_000), on=[f"n{number}"])
    cache.wait(asked("wide", 500, workers=4), weight=10.0)
    found = told(cache.stops())
    monkeypatch.setattr(preemption_question, "LARGE_NODES", 4)
    assert len(found) == 4
    assert told(cache.stops()).keys() == found.keys()


def test_more_products_than_are_compared_are_merged_the_most_alike_first() -> None:
    nodes = [gpu_node(f"n{n}", product=name) for n, name in enumerate([*PRODUCTS, "NVIDIA-A10", "NVIDIA-L4"])]
    graph = build(snapshot(*nodes, gpu_node("none", free=0)), POLICY)
    kinds = kinds_of(graph, POLICY).nodes
    assert len(kinds) == MOST_KINDS
    assert sorted(name for names in kinds for name in names) == [f"n{n}" for n in range(6)]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Nodes that are full of mostly long jobs, and shorter ones that wait."""
    cache = World(*draw(st.lists(st.tuples(st.integers(1, 3), st.sampled_from([A100, T4, H100])), min_size=1, max_size=3)))
    for number in range(draw(st.integers(1, 5))):
        request = asked(
            f"running-{number}", draw(st.sampled_from([90_000, 50_000, 3000])), draw(st.integers(1, 2)), draw(st.integers(1, 2))
        )
        cache.run(request, held_seconds=draw(st.sampled_from([5000.0, 1e5, 1.0])), may_stop=draw(st.integers(0, 5)) < 5)
    for number in range(draw(st.integers(1, 3))):
        request = asked(f"pending-{number}", draw(st.sampled_from([50, 2000, 50_000])), draw(st.integers(1, 2)))
        cache.wait(request, draw(st.sampled_from([1.0, 9.0])))
    return cache


@settings(max_examples=30, deadline=None)
@given(worlds())
def test_stops_are_sound_repeatable_and_of_jobs_beyond_their_hold_down(cache: World) -> None:
    question, stops = cache.question(), cache.stops()
    assert unsound_stops(stops, question) == ()
    held = {job.running.request.job_key: job.held_seconds for job in question.running}
    assert all(held[stop.key] >= TERMS.hold_down_seconds for stop in stops.stops)
    assert cache.stops() == stops


def after_the_stops(cache: World, question: PreemptionQuestion, stops: PreemptionAnswer) -> dict[str, Plan]:
    """Plans that the queue starts once the stopped jobs have released their GPUs and wait again, by job."""
    running = {job.running.request.job_key: job for job in question.running}
    released = added(running[stop.key].running.claims for stop in stops.stops)
    again = [QueuedJob(running[stop.key].running.request, 0.0) for stop in stops.stops]
    left = {name: Claim(max(0, claim.gpus - released.get(name, Claim()).gpus)) for name, claim in question.claims.items()}
    shares = [RunningShare(key, len(job.running.plan.workers), 1e5) for key, job in running.items() if key not in told(stops)]
    request = AdmissionRequest((*question.pending, *again), (*shares, *question.others), {}, left)
    turns = take_turns(request, cache.desk().vacated(released), POLICY.queue, choosers(POLICY.queue))
    return {start.key: start.plan for start in turns.starts}


@settings(max_examples=30, deadline=None)
@given(worlds())
def test_the_next_decision_starts_the_beneficiaries_and_no_stopped_job_where_it_was(cache: World) -> None:
    question, stops = cache.question(), cache.stops()
    claims = {job.running.request.job_key: job.running.claims for job in question.running}
    started = after_the_stops(cache, question, stops) if stops.stops else {}
    for stop in stops.stops:
        assert stop.beneficiaries[0] in started
        if stop.key in started:
            assert not started[stop.key].gpus_by_node().keys() <= claims[stop.key].keys()
