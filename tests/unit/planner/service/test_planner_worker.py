from __future__ import annotations

import io

import pytest

from hyperscale.model.admission_query import AdmissionRequest, QueuedJob
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.graph import ClusterGraph
from hyperscale.model.plan import Plan
from hyperscale.planner.choice.portfolio import make_plan
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.service import frames, worker
from hyperscale.planner.service.frames import (
    Answer,
    Ask,
    AskTurns,
    ClusterFrame,
    FrameError,
    NotPlanned,
    Planned,
    PlannerTrouble,
    Ready,
)
from hyperscale.planner.service.worker import PlannerService, serve
from tests.builders.placement import cluster, job, node, request

SNAPSHOT = cluster(node("node-a"), node("node-b"))


def stopped() -> float:
    """A clock that stands still: no search ever runs out of time."""
    return 0.0


def world(name: str = "w", snapshot: ClusterSnapshot = SNAPSHOT) -> ClusterFrame:
    return ClusterFrame(name=name, snapshot=snapshot, policy=PolicySpec())


def talk(*questions: ClusterFrame | Ask, ending: bytes = b"") -> list[Answer]:
    """What a planner says to these questions."""
    sink = io.BytesIO()
    serve(io.BytesIO(b"".join(frames.pack(question) for question in questions) + ending), sink, PlannerService(stopped))
    said, answers = sink.getvalue(), []
    while said:
        length = frames.body_length(said[:4])
        answers.append(frames.unpack_answer(said[4 : 4 + length]))
        said = said[4 + length :]
    return answers


def test_it_says_that_it_is_ready_and_answers_in_order() -> None:
    ready, first, second = talk(world(), Ask(1, "w", request()), Ask(2, "w", request()))
    assert ready == Ready()
    assert isinstance(first, Planned)
    assert isinstance(second, Planned)
    assert (first.number, second.number) == (1, 2)
    assert first.plan == second.plan


def test_a_job_that_cannot_be_placed_is_answered_with_the_reason() -> None:
    _, answer = talk(world(snapshot=cluster()), Ask(1, "w", request()))
    assert isinstance(answer, NotPlanned)
    assert answer.infeasible.message


def test_an_error_is_answered_and_the_next_question_too() -> None:
    custom = job(model={"architecture": "Custom"})
    _, failed, planned = talk(world(), Ask(1, "w", request(custom)), Ask(2, "w", request()))
    assert isinstance(failed, PlannerTrouble)
    assert "parameters" in failed.message
    assert isinstance(planned, Planned)


def test_a_decision_without_time_is_answered_as_such() -> None:
    now = iter(range(0, 10_000, 100))
    planner = PlannerService(lambda: float(next(now)))
    planner.learn(world())
    answer = planner.answer(AskTurns(1, "w", AdmissionRequest(jobs=(QueuedJob(request()),))))
    assert answer == PlannerTrouble(1, "time ran out before any job was looked at", late=True)


def test_a_question_about_an_unknown_world_is_trouble() -> None:
    assert isinstance(talk(Ask(1, "nowhere", request()))[1], PlannerTrouble)


def test_the_newest_worlds_are_kept_and_the_oldest_forgotten() -> None:
    worlds = [world(str(index)) for index in range(frames.KEPT_WORLDS + 1)]
    answers = talk(world("0"), Ask(0, "0", request()), *worlds[1:], *(Ask(index, str(index), request()) for index in range(len(worlds))))
    assert [type(answer) for answer in answers[2:]] == [PlannerTrouble, *[Planned] * frames.KEPT_WORLDS]


def test_a_graph_is_built_once_for_all_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[str] = []

    def counted(snapshot: ClusterSnapshot, policy: PolicySpec) -> ClusterGraph:
        built.append("once")
        return build(snapshot, policy)

    monkeypatch.setattr(worker, "build", counted)
    talk(world(), *(Ask(number, "w", request()) for number in range(5)))
    assert built == ["once"]


def test_running_out_of_memory_ends_the_planner_with_what_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    def greedy(*arguments: object, **options: object) -> Plan:
        raise MemoryError

    monkeypatch.setattr(worker, "make_plan", greedy)
    with pytest.raises(MemoryError):
        talk(world(), Ask(1, "w", request()))


def test_the_search_is_told_to_end_before_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    now = [0.0]

    def patient(*arguments: object, expired: object, **options: object) -> object:
        assert callable(expired)
        for now[0] in (0.0, 3.9, 4.1):
            seen.append(expired())
        return make_plan(*arguments, **options)  # type: ignore[arg-type] # keywords of the type, passed on as they come

    monkeypatch.setattr(worker, "make_plan", patient)
    planner = PlannerService(lambda: now[0])
    planner.learn(world())
    assert isinstance(planner.answer(Ask(1, "w", request(deadline_seconds=5.0))), Planned)
    assert seen == [False, False, True]


@pytest.mark.parametrize(
    "ending", [b"\x00", b"\x00\x00\x00\x09{", b"\xff\xff\xff\xff", b"\x00\x00\x00\x02{}"], ids=["header", "body", "length", "content"]
)
def test_input_that_breaks_off_or_is_nonsense_ends_the_planner(ending: bytes) -> None:
    with pytest.raises(FrameError):
        talk(ending=ending)
