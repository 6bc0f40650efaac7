"""Decisions about pending jobs by any chooser: no GPU twice, no job forgotten, no deadlock, no starvation, the same answer each time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hyperscale.model.admission_query import AdmissionRequest, AdmissionResult, Chooser, Claim, QueuedJob, RunningShare
from hyperscale.model.api.container_resources import ResourceRequirements
from hyperscale.model.api.policy import PolicySpec, QueuePolicy
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.graph import ClusterGraph
from hyperscale.model.plan import Infeasible, Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.check.queue_check import unsound
from hyperscale.planner.choice.portfolio import make_plan
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.queue.joint import take_turns
from hyperscale.planner.queue.placement_oracle import Expired, PlacementOracle
from hyperscale.planner.queue.queue_policies import Choosers, choosers
from hyperscale.planner.queue.queue_types import ClusterState, PendingJob, QueueChoice, QueueRunningJob
from hyperscale.planner.workload.profile import profile
from hyperscale.util.quantity import parse_number
from tests.builders.clusters import gpu_node, snapshot, training

QUICK = settings(max_examples=25, deadline=None)
BOUND_SECONDS = 1000


def cluster(gpus: Sequence[int]) -> ClusterSnapshot:
    return snapshot(*(gpu_node(f"n{index}", free=count, domain=f"eu/{'ab'[index % 2]}") for index, count in enumerate(gpus)))


def place(policy: PolicySpec, request: PlanRequest, graph: ClusterGraph, expired: Expired) -> Plan | Infeasible:
    return make_plan(request, graph, profile(request.job), policy, expired=expired)


def decide(
    question: AdmissionRequest, seen: ClusterSnapshot, queue: QueuePolicy | None = None, ask: Choosers | None = None
) -> AdmissionResult:
    policy = PolicySpec(queue=queue or QueuePolicy())
    return take_turns(
        question, PlacementOracle(build(seen, policy), policy, partial(place, policy)), policy.queue, ask or choosers(policy.queue)
    )


def queued(number: int, least: int, gpus: int, epochs: int, waited: float = 1.0, weight: float = 1.0, **fields: Any) -> QueuedJob:
    model = {"architecture": "GraphSAGE", "layers": 2, "hiddenSize": 128, "epochs": epochs}
    job = training(
        model=model, workers={"minReplicas": least, "maxReplicas": least + 2, "resources": {"limits": {"nvidia.com/gpu": gpus}}}, **fields
    )
    return QueuedJob(PlanRequest(job_key=f"team/job-{number}", job=job), waited, weight)


jobs = st.lists(
    st.tuples(
        st.integers(1, 3),
        st.integers(1, 2),
        st.integers(1, 400),
        st.sampled_from([1.0, 10.0, 2 * BOUND_SECONDS]),
        st.sampled_from([1.0, 5.0]),
    ),
    min_size=1,
    max_size=5,
).map(lambda drawn: tuple(queued(number, *fields) for number, fields in enumerate(drawn)))
clusters = st.lists(st.integers(0, 4), min_size=2, max_size=5).map(cluster)
running = st.lists(st.tuples(st.integers(1, 4), st.floats(0.0, 1e4)), max_size=2).map(
    lambda drawn: tuple(RunningShare(f"team/running-{number}", gpus, seconds) for number, (gpus, seconds) in enumerate(drawn))
)
BOUNDED = QueuePolicy(starvation_seconds=BOUND_SECONDS)


def fits_alone(job: QueuedJob, seen: ClusterSnapshot) -> bool:
    return isinstance(place(PolicySpec(), job.request, build(seen, PolicySpec()), lambda: False), Plan)


@QUICK
@given(jobs, clusters, running)
def test_every_job_is_answered_once_and_every_plan_is_sound(waiting: tuple[QueuedJob, ...], seen: ClusterSnapshot, busy: Any) -> None:
    question = AdmissionRequest(jobs=waiting, running=busy)
    turns = decide(question, seen, BOUNDED)
    assert unsound(turns, question, seen) == ()
    taken = {node.name: 0 for node in seen.nodes}
    for start in turns.starts:
        for name, gpus in start.plan.gpus_by_node().items():
            taken[name] += gpus
    assert all(taken[node.name] <= node.free_gpus for node in seen.nodes)


@QUICK
@given(st.lists(st.tuples(st.integers(1, 2), st.sampled_from(["1", "3", "500m"])), min_size=2, max_size=4), st.integers(1, 3))
def test_no_core_is_given_twice_in_one_decision(asked: list[tuple[int, str]], members: int) -> None:
    """Every node has more GPUs than cores for them."""
    seen = snapshot(*(gpu_node(f"n{index}", free=8, allocatable_cpu_cores=4.0) for index in range(members)))
    waiting = []
    for number, (least, cpu) in enumerate(asked):
        job = queued(number, least, 1, 10)
        wanted = msgspec.structs.replace(job.request.job.workers, resources=ResourceRequirements(requests={"cpu": cpu}))
        request = msgspec.structs.replace(job.request, job=msgspec.structs.replace(job.request.job, workers=wanted))
        waiting.append(msgspec.structs.replace(job, request=request))
    question = AdmissionRequest(jobs=tuple(waiting), reserved_amounts={"n0": {"cpu": 1.0}})
    turns = decide(question, seen)
    assert unsound(turns, question, seen) == ()
    taken = {node.name: question.reserved_amounts.get(node.name, {}).get("cpu", 0.0) for node in seen.nodes}
    for start in turns.starts:
        cores = parse_number(asked[int(start.key.rpartition("-")[2])][1])
        for worker in start.plan.workers:
            taken[worker.node] += cores
    assert max(taken.values()) <= 4.0 + 1e-9


@QUICK
@given(jobs, clusters)
def test_on_an_idle_cluster_some_job_starts_if_any_fits(waiting: tuple[QueuedJob, ...], seen: ClusterSnapshot) -> None:
    turns = decide(AdmissionRequest(jobs=waiting), seen, BOUNDED)
    assert bool(turns.starts) == any(fits_alone(job, seen) for job in waiting)


@QUICK
@given(jobs, clusters, running)
def test_the_same_question_has_the_same_answer_in_any_order_of_its_jobs(
    waiting: tuple[QueuedJob, ...], seen: ClusterSnapshot, busy: Any
) -> None:
    first = decide(AdmissionRequest(jobs=waiting, running=busy), seen)
    again = decide(AdmissionRequest(jobs=waiting[::-1], running=busy), seen)
    assert msgspec.json.encode(first) == msgspec.json.encode(again)


@QUICK
@given(st.integers(2, 4), st.integers(1, 3), clusters, st.floats(0.0, 1e5))
def test_while_a_starving_job_does_not_fit_nobody_else_gets_nodes_that_it_could_use(
    least: int, others: int, seen: ClusterSnapshot, remaining: float
) -> None:
    """One node is held by a running job; the starving one needs it too."""
    largest = max(seen.nodes, key=lambda node: node.allocatable_gpus)
    assume(largest.allocatable_gpus > 0)
    free = {largest.name: 0}
    starving = queued(9, least, 1, 10, waited=2 * BOUND_SECONDS)
    busy = msgspec.structs.replace(seen, nodes=tuple(_held(node) if node.name == largest.name else node for node in seen.nodes))
    assume(fits_alone(starving, seen) and not fits_alone(starving, busy))
    question = AdmissionRequest(
        jobs=(*(queued(number, 1, 1, 5) for number in range(others)), starving),
        running=(RunningShare("team/running", largest.allocatable_gpus, remaining),),
        claims={largest.name: Claim(gpus=largest.allocatable_gpus)},
        free_gpus=free,
    )
    turns = decide(question, busy, BOUNDED)
    assert turns.starts == ()
    assert turns.holds[0].key == "team/job-9"


@QUICK
@given(jobs, clusters)
def test_a_job_beyond_the_bound_starts_before_all_others_where_it_would_start_alone(
    waiting: tuple[QueuedJob, ...], seen: ClusterSnapshot
) -> None:
    fresh = tuple(msgspec.structs.replace(job, waited_seconds=1.0) for job in waiting)
    late = queued(9, 2, 1, 100_000, waited=1.5 * BOUND_SECONDS, weight=0.01)
    for busy in ((), (RunningShare("team/running", 1, 1e3),)):
        alone = decide(AdmissionRequest(jobs=(late,), running=busy), seen, BOUNDED)
        turns = decide(AdmissionRequest(jobs=(*fresh, late), running=busy), seen, BOUNDED)
        assert [start.key for start in turns.starts[:1] if alone.starts] == [start.key for start in alone.starts]


@QUICK
@given(jobs, clusters)
def test_a_starving_job_that_fits_starts_before_all_others(waiting: tuple[QueuedJob, ...], seen: ClusterSnapshot) -> None:
    starving = queued(9, 1, 1, 100_000, waited=5 * BOUND_SECONDS, weight=0.01)
    assume(fits_alone(starving, seen))
    turns = decide(AdmissionRequest(jobs=(*waiting, starving)), seen, BOUNDED)
    assert turns.starts[0].key == "team/job-9"


class Whim:
    """Chooses anything that fits, or nothing, as drawn."""

    def __init__(self, draws: list[int]) -> None:
        self._draws = iter(draws)

    def __call__(self, pending: Sequence[PendingJob], running: Sequence[QueueRunningJob], cluster: ClusterState) -> QueueChoice:
        fitting = [QueueChoice(job.key, option.workers) for job in pending for option in job.options if option.fits]
        choices = [QueueChoice(None), *fitting]
        return choices[next(self._draws, 0) % len(choices)]


@QUICK
@given(jobs, clusters, running, st.lists(st.integers(0, 30), max_size=8))
def test_whatever_an_agent_chooses_is_sound_and_used_only_where_its_score_is_no_worse(
    waiting: tuple[QueuedJob, ...], seen: ClusterSnapshot, busy: Any, draws: list[int]
) -> None:
    question = AdmissionRequest(jobs=waiting, running=busy)
    by_rule = choosers(QueuePolicy()).rule
    turns = decide(question, seen, BOUNDED, Choosers(by_rule, Whim(draws)))
    assert unsound(turns, question, seen) == ()
    if turns.score is not None:
        assert turns.score.agent is not None
        assert (turns.score.used is Chooser.LEARNED) == (turns.score.agent <= turns.score.rule)
        if turns.score.used is Chooser.RULE:
            assert turns.starts == decide(question, seen, BOUNDED).starts
    if not busy:
        assert bool(turns.starts) == any(fits_alone(job, seen) for job in waiting)


def waits(pending: Sequence[PendingJob], running: Sequence[QueueRunningJob], cluster: ClusterState) -> QueueChoice:
    """A chooser that never starts anything."""
    return QueueChoice(None)


def decided(question: AdmissionRequest, seen: ClusterSnapshot, **fields: Any) -> AdmissionResult:
    return decide(question, seen, BOUNDED, Choosers(choosers(QueuePolicy()).rule, waits, **fields))


@QUICK
@given(jobs, clusters, st.floats(1.0, 1e4))
def test_a_chooser_that_always_waits_keeps_no_job_that_fits_beyond_the_bound(
    waiting: tuple[QueuedJob, ...], seen: ClusterSnapshot, remaining: float
) -> None:
    """Nothing runs longer than these jobs have waited."""
    late = tuple(msgspec.structs.replace(job, waited_seconds=1e9) for job in waiting)
    question = AdmissionRequest(jobs=late, running=(RunningShare("team/running", 1, remaining),))
    turns = decide(question, seen, QueuePolicy(starvation_seconds=0), Choosers(choosers(QueuePolicy()).rule, waits, decides=True))
    assert bool(turns.starts) == any(fits_alone(job, seen) for job in waiting)


@QUICK
@given(jobs, clusters)
def test_a_chooser_that_always_waits_is_scored_for_the_time_that_it_loses(waiting: tuple[QueuedJob, ...], seen: ClusterSnapshot) -> None:
    fresh = tuple(msgspec.structs.replace(job, waited_seconds=0.0) for job in waiting)
    question = AdmissionRequest(jobs=fresh, running=(RunningShare("team/running", 1, 1e7),))
    turns = decided(question, seen)
    assume(decide(question, seen, BOUNDED).starts != ())
    assert turns.score is not None
    assert turns.score.agent is not None
    assert turns.score.agent > turns.score.rule
    assert turns.score.used is Chooser.RULE
    assert turns.starts == decide(question, seen, BOUNDED).starts


@QUICK
@given(jobs, clusters, running, st.lists(st.integers(0, 30), max_size=8))
def test_an_agent_that_was_judged_on_such_streams_decides_whatever_its_score(
    waiting: tuple[QueuedJob, ...], seen: ClusterSnapshot, busy: Any, draws: list[int]
) -> None:
    question = AdmissionRequest(jobs=waiting, running=busy)
    turns = decide(question, seen, BOUNDED, Choosers(choosers(QueuePolicy()).rule, Whim(draws), decides=True))
    assert unsound(turns, question, seen) == ()
    assert turns.score is None or turns.score.used is Chooser.LEARNED


def _held(node: Any) -> Any:
    return msgspec.structs.replace(node, requested_gpus=node.allocatable_gpus)


def test_a_job_that_has_begun_with_a_worker_count_is_not_told_to_try_another() -> None:
    waiting = queued(0, 3, 1, 10)
    begun = msgspec.structs.replace(waiting, request=msgspec.structs.replace(waiting.request, workers_fixed=3))
    busy = (RunningShare("team/running", 3, 100.0),)
    told = {}
    for job in (waiting, begun):
        (hold,) = decide(AdmissionRequest(jobs=(job,), running=busy), cluster([2, 0, 0])).holds
        told[job.request.workers_fixed] = hold.message
    assert "spec.workers.minReplicas" in told[None]
    assert "spec.workers.minReplicas" not in told[3]
