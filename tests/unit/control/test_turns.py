"""Pending jobs in the operator: asked about together, granted one by one, told their place, never given the same GPU."""

from __future__ import annotations

from typing import Any

import pytest

from hyperscale.control.cache.records import Key
from hyperscale.control.scheduler.admission import settled
from hyperscale.model import constants
from hyperscale.model.admission_query import AdmissionRequest, AdmissionResult, Deferral
from hyperscale.model.api.condition import Condition
from hyperscale.model.api.policy import PolicySpec, QueueOrder, QueuePolicy
from hyperscale.model.observed.reconcile_input import AdmissionAnswer
from hyperscale.model.plan import Infeasible, Plan
from hyperscale.model.status import JobStatus, QueueDecision
from hyperscale.planner.queue.deferrals import unseen
from tests.corpus.queue_stage import CREATED, POLICY, Stage, gpu_node, taken


async def test_a_job_that_is_alone_on_an_idle_cluster_is_planned_as_if_there_were_no_queue() -> None:
    stage = Stage()
    key = stage.add("alone")
    answer = await stage.ask(key)
    assert isinstance(answer.outcome, Plan)
    assert answer.turn is None
    assert stage.planner.questions == []


@pytest.mark.parametrize(
    ("labels", "spec"),
    [
        ({constants.KUEUE_QUEUE_LABEL: "batch"}, {}),
        ({}, {"startPolicy": "Never"}),
        ({}, {"startPolicy": "Manual"}),
    ],
    ids=["in a queue", "plan only", "approved by a person"],
)
async def test_who_is_decided_on_by_others_neither_asks_nor_counts(labels: dict[str, str], spec: dict[str, Any]) -> None:
    stage = Stage()
    other = stage.add("other", labels=labels, **spec)
    key = stage.add("cora")
    assert isinstance((await stage.ask(other)).outcome, Plan)
    stage.planning.end_reconcile(other)
    assert isinstance((await stage.ask(key)).outcome, Plan)
    assert stage.planner.questions == []


async def test_a_waiting_job_that_is_given_to_kueue_is_the_queues_no_more_and_comes_back_without_the_label() -> None:
    stage = Stage(nodes=1, gpus=2)
    assert await stage.run(stage.add("first"))
    second = stage.add("second")
    assert not await stage.run(second)
    for labels, decided in (({constants.KUEUE_QUEUE_LABEL: "batch"}, False), ({}, True)):
        record = stage.cache.jobs[second]
        metadata = {**record.resource["metadata"], "labels": labels, "resourceVersion": str(int(record.version) + 1)}
        stage.cache.see_job({"metadata": metadata, "spec": record.resource["spec"], "status": {}})
        stage.now += 60.0
        assert ((await stage.ask(second)).turn is not None) is decided
        stage.planning.end_reconcile(second)
        assert (second in [entry.key for entry in stage.planning.pending.others(None, POLICY)]) is decided


async def test_order_of_arrival_asks_for_each_job_on_its_own() -> None:
    stage = Stage()
    policy = PolicySpec(queue=QueuePolicy(order=QueueOrder.ARRIVAL))
    keys = [stage.add(f"job-{number}") for number in range(3)]
    answers = [await stage.ask(key, policy) for key in keys]
    assert all(isinstance(answer.outcome, Plan) and answer.turn is None for answer in answers)
    assert stage.planner.questions == []


async def test_one_question_decides_for_all_and_wakes_those_that_start() -> None:
    stage = Stage()
    keys = [stage.add(f"job-{number}", epochs=100 * (5 - number)) for number in range(5)]
    first = await stage.ask(keys[0])
    assert len(stage.planner.questions) == 1
    assert stage.woken
    assert keys[4] in stage.woken, "the shortest starts"
    assert isinstance(first.outcome, Infeasible), "the longest is left over"
    plans = await stage.run(*stage.woken)
    assert set(plans) == set(stage.woken)
    assert len(stage.planner.questions) == 1
    assert all(gpus <= 2 for gpus in taken(plans).values())


async def test_shorter_and_more_urgent_jobs_go_first_and_no_two_share_a_gpu() -> None:
    stage = Stage(nodes=2, gpus=2)
    slow = stage.add("slow", epochs=1000)
    urgent = stage.add("urgent", epochs=900, queueWeight=100)
    quick = stage.add("quick", epochs=100)
    medium = stage.add("medium", epochs=500)
    plans = await stage.run(slow, urgent, quick, medium)
    plans |= await stage.run(*(key for key in stage.woken if key not in plans))
    assert {urgent, quick} <= set(plans)
    assert slow not in plans
    assert all(gpus <= 2 for gpus in taken(plans).values())


async def test_two_jobs_planned_in_a_row_share_no_core_though_no_pod_is_bound_yet() -> None:
    """A node has 32 cores and GPUs for all; workers of 20 cores take a node each."""
    stage = Stage(nodes=2, gpus=8)
    workers = {"minReplicas": 1, "maxReplicas": 1, "resources": {"requests": {"cpu": "20"}}}
    keys = [stage.add(name, workers=workers) for name in ("a", "b", "c")]
    plans = await stage.run(*keys)
    plans |= await stage.run(*(key for key in keys if key not in plans))
    assert len(plans) == 2
    assert len({plan.node_of(0) for plan in plans.values()}) == 2


async def test_a_job_on_its_way_to_its_mpijob_is_not_granted_twice() -> None:
    stage = Stage(nodes=2, gpus=4)
    first, second, third = (stage.add(name, epochs=epochs) for name, epochs in (("a", 10), ("b", 20), ("c", 1000)))
    answer = await stage.ask(first)
    assert isinstance(answer.outcome, Plan)  # its pass continues: no MPIJob yet
    await stage.ask(second)
    await stage.ask(third)
    stage.add("d", epochs=5)
    await stage.ask(Key("team", "d"))
    assert all(str(first) not in [job.request.job_key for job in question.jobs] for question in stage.planner.questions[1:])


async def test_a_job_that_waits_is_told_its_place_and_asks_nothing_while_nothing_changes() -> None:
    stage = Stage(nodes=1, gpus=2)
    keys = [stage.add(f"job-{number}", epochs=100 * (number + 1)) for number in range(4)]
    plans = await stage.run(*keys)
    assert set(plans) == {keys[0]}
    asked = len(stage.planner.questions)
    answers = {key: await stage.ask(key) for key in keys[1:]}
    assert len(stage.planner.questions) <= asked + 1
    turns = {key: answer.turn for key, answer in answers.items()}
    assert [turn.decision.position for turn in turns.values() if turn is not None] == [1, 2, 3]
    head, behind = answers[keys[1]], turns[keys[3]]
    assert isinstance(head.outcome, Infeasible)
    assert head.outcome.reason == "InsufficientGPUs"
    assert behind is not None
    assert behind.reason == "WaitingForAdmission"
    assert "team/job-1 goes first" in behind.message


async def test_a_job_that_there_was_no_time_for_is_told_so_and_keeps_what_is_known_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(nodes=1, gpus=2)
    first, second, third = (stage.add(f"job-{number}", epochs=100 * (number + 1)) for number in range(3))
    await stage.run(first, second)
    stage.add("new", epochs=5)
    entry = stage.planning.pending.entry(third, POLICY)
    assert entry is not None
    seconds = entry.run_seconds
    assert seconds is not None

    async def hurried(question: AdmissionRequest, *_: object) -> AdmissionResult:
        stage.planner.questions.append(question)
        return AdmissionResult(holds=tuple(unseen(job.request.job_key) for job in question.jobs), arrivals=question.arrivals)

    monkeypatch.setattr(stage.planner, "turns", hurried)
    stage.now += 60.0
    turn = (await stage.ask(second)).turn
    assert turn is not None
    assert turn.message.startswith("there was no time to look at it yet, it is asked about again in 1 s")
    assert "goes first" not in turn.message
    assert (stage.planner.questions[-1].asking, turn.retry_after_seconds) == (str(second), 1.0)
    assert (entry.run_seconds, entry.asked) == (seconds, True)


async def test_a_job_that_does_not_fit_even_the_empty_cluster_hears_the_planners_own_reason() -> None:
    stage = Stage(nodes=2, gpus=2)
    huge = stage.add("huge", workers={"minReplicas": 9, "maxReplicas": 9})
    stage.add("small")
    answer = await stage.ask(huge)
    assert isinstance(answer.outcome, Infeasible)
    assert answer.outcome.reason == "NeverFits"
    assert "9 workers" in answer.outcome.message


async def test_a_job_that_fits_nowhere_does_not_make_others_queue() -> None:
    stage = Stage(nodes=2, gpus=2)
    huge = stage.add("huge", workers={"minReplicas": 9, "maxReplicas": 9})
    stage.add("small")
    await stage.ask(huge)
    stage.woken.clear()
    asked = len(stage.planner.questions)
    stage.cache.replace("GNNTrainingJob", [stage.cache.jobs[huge].resource], version=5)
    stage.planning.drop(Key("team", "small"))
    answer = await stage.ask(stage.add("late", version=6))
    assert isinstance(answer.outcome, Plan)
    assert answer.turn is None
    assert len(stage.planner.questions) == asked


async def test_a_grant_is_void_when_the_spec_changed_and_its_gpus_are_free_again() -> None:
    stage = Stage(nodes=1, gpus=8)
    first, second = stage.add("a", epochs=10), stage.add("b", epochs=20)
    await stage.ask(first)
    assert stage.woken == [second]
    stage.add("b", epochs=20, version=2, workers={"minReplicas": 1, "maxReplicas": 1})
    answer = await stage.ask(second)
    assert isinstance(answer.outcome, Plan)
    assert len(answer.outcome.workers) == 1


async def test_a_grant_of_a_job_that_is_deleted_or_never_takes_it_lapses() -> None:
    stage = Stage(nodes=1, gpus=8)
    first, second = stage.add("a", epochs=10), stage.add("b", epochs=20)
    await stage.ask(first)
    assert second in stage.cache.assumed_plans
    stage.planning.end_reconcile(second)  # a pass that was under way
    assert second in stage.cache.assumed_plans
    stage.planning.end_reconcile(second)  # the pass that was asked for, and did not take it
    assert second not in stage.cache.assumed_plans


async def test_when_a_decision_fails_jobs_start_in_order_of_arrival_and_say_so() -> None:
    stage = Stage(nodes=1, gpus=4)
    stage.planner.broken = True
    first, second = stage.add("a", epochs=1000), stage.add("b", epochs=10)
    plans = await stage.run(first, second)
    assert first in plans
    assert plans[first].fallbacks[0] == "QueueRuleFailed"
    assert len(stage.planner.questions) == 1, "not asked again at once"
    stage.now += 60
    stage.planner.broken = False
    stage.add("c")
    await stage.ask(Key("team", "c"))
    assert len(stage.planner.questions) == 2


async def test_running_jobs_count_with_what_is_left_of_their_predicted_time() -> None:
    stage = Stage(nodes=2, gpus=2)
    first = stage.add("a", epochs=1_000_000)
    plans = await stage.run(first)
    second = stage.add("b")
    stage.now = CREATED + 100.0
    await stage.ask(second)
    (share,) = stage.planner.questions[-1].running
    total = plans[first].predicted.epoch_seconds * 1_000_000
    assert share.key == "team/a"
    assert share.remaining_seconds == pytest.approx(total - 100.0)
    assert share.gpus == len(plans[first].workers)


async def test_more_waiting_jobs_than_a_question_holds_are_asked_about_in_a_few_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(nodes=2, gpus=2)
    assert await stage.run(stage.add("running", epochs=10**6, workers={"minReplicas": 1, "maxReplicas": 1}))
    questions: list[set[str]] = []

    async def all_wait(question: AdmissionRequest, *_: object) -> AdmissionResult:
        questions.append({job.request.job_key for job in question.jobs})
        holds = (Deferral(job.request.job_key, "WaitingForBetterNodes", "", 10.0) for job in question.jobs)
        return AdmissionResult(holds=tuple(holds), arrivals=question.arrivals)

    monkeypatch.setattr(stage.planner, "turns", all_wait)
    one = {"minReplicas": 1, "maxReplicas": 1}
    keys = [stage.add(f"job-{number:03}", epochs=10 + number, workers=one, created=CREATED + number / 10) for number in range(200)]
    for _ in range(3):
        stage.now += 60.0
        questions.clear()
        for key in keys:
            await stage.ask(key)
        assert len(questions) <= 8
        assert set.union(*questions) == {str(key) for key in keys}


async def test_a_burst_of_alike_jobs_costs_few_questions() -> None:
    stage = Stage(nodes=16, gpus=32)
    keys = [stage.add(f"job-{number:03d}") for number in range(120)]
    plans = await stage.run(*keys)
    plans |= await stage.run(*(key for key in keys if key not in plans))
    assert len(plans) == 120
    assert len(stage.planner.questions) <= 4
    assert all(gpus <= 32 for gpus in taken(plans).values())


def told(position: int, pending: int = 20, run: float = 10.0, reason: str = "WaitingForAdmission") -> tuple[AdmissionAnswer, JobStatus]:
    decision = QueueDecision(position=position, pending=pending, chosen_by="Rule", run_seconds=run)
    planned = Condition(type="Planned", status="False", reason=reason, message="as told")
    return AdmissionAnswer(decision, reason, "again"), JobStatus(queue_decision=decision, conditions=(planned,))


@pytest.mark.parametrize(
    ("position", "pending", "run", "again"),
    [(11, 19, 10.0, False), (4, 19, 10.0, False), (3, 19, 10.0, True), (1, 5, 10.0, True), (12, 20, 13.0, True), (12, 20, 11.0, False)],
)
def test_a_waiting_job_is_told_again_only_when_it_matters(position: int, pending: int, run: float, again: bool) -> None:
    _, status = told(12)
    turn, _ = told(position, pending, run)
    assert (settled(turn, status).message == "again") is again


def test_another_reason_is_always_told() -> None:
    _, status = told(12)
    turn, _ = told(12, reason="WaitingForBetterNodes")
    assert settled(turn, status).message == "again"


async def test_older_jobs_that_wait_for_other_nodes_do_not_hide_one_that_starves() -> None:
    """Many kinds of short and heavy jobs fill a question; nodes are kept for the starving job only where it is in the question."""
    stage = Stage(nodes=1)
    pools = [_pooled(gpu_node(f"{pool}{number}", 2), pool) for pool, count in (("a", 1), ("b", 4)) for number in range(count)]
    stage.cache.replace("Node", pools)
    held = stage.add("held", epochs=10**6, placement={"nodeSelector": {"pool": "a"}}, workers={"minReplicas": 2, "maxReplicas": 2})
    first = stage.add("first", epochs=1000, placement={"nodeSelector": {"pool": "b"}}, workers={"minReplicas": 1, "maxReplicas": 1})
    assert len(await stage.run(held, first)) == 2
    for number in range(2):
        _kind(stage, f"old{number}", "a", 2, hidden=100 + number)
    starving = _kind(stage, "starving", "b", 8, hidden=64, epochs=100_000, created=CREATED + 10.0)
    stage.now = CREATED + 2.5 * POLICY.queue.starvation_seconds
    for number in range(8):
        _kind(stage, f"short{number}", "b", 1, hidden=200 + number, weight=1000, created=stage.now - 100.0)
    plans = await stage.run(starving, *(key for key in stage.cache.jobs if key.name.startswith("short")))
    assert any(job.request.job_key == str(starving) for question in stage.planner.questions for job in question.jobs)
    assert plans == {}, "the nodes that it could use are kept for it"


def _pooled(node: dict[str, Any], pool: str) -> dict[str, Any]:
    node["metadata"]["labels"]["pool"] = pool
    return node


def _kind(
    stage: Stage, name: str, pool: str, workers: int, *, hidden: int, epochs: int = 10, weight: int = 1, created: float = CREATED
) -> Key:
    return stage.add(
        name,
        created=created,
        model={"architecture": "GCN", "epochs": epochs, "hiddenSize": hidden},
        queueWeight=weight,
        placement={"nodeSelector": {"pool": pool}},
        workers={"minReplicas": workers, "maxReplicas": workers},
    )
