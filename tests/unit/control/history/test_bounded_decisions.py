"""What one tenant decides, however often, takes a bounded part of history and pushes out nothing of another's."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sql
from msgspec.structs import asdict, replace

from hyperscale.control.history.decision_store import MAX_EACH, DecisionStore
from hyperscale.control.history.decisions_table import DECISIONS, DecisionKind, PersonDecision, decision, offers_text
from hyperscale.control.history.preference_book import preferences_of
from hyperscale.model.offers.plan_offers import PriorPlan
from tests.unit.control.history.test_decisions_of_people import CHEAP, FAST, OFFERS, SAFE, Desk, chosen, state_with
from tests.unit.control.history.test_finished_runs import server  # noqa: F401 - a fixture


@pytest.fixture(params=["SQLite", "PostgreSQL"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[DecisionStore]:
    url = f"sqlite:///{tmp_path}/history.sqlite" if request.param == "SQLite" else request.getfixturevalue("server")
    made = DecisionStore(url)
    with made._database.engine.begin() as connection:
        connection.execute(sql.delete(DECISIONS))
    yield made
    made.close()


def about(namespace: str, number: int) -> PersonDecision:
    return decision(2.0 + number, namespace, DecisionKind.REJECTED, f"{number:016x}", job="j", uid=f"{namespace}-{number % 3}")


def test_another_reason_for_the_same_decision_replaces_it(store: DecisionStore) -> None:
    for number in range(50):
        why = decision(
            float(number), "team", DecisionKind.PREFERRED, CHEAP.plan_id, uid="u1", because=str(number), offers=offers_text(OFFERS)
        )
        assert store.record([why]) == 1
    assert [(row.at, row.because) for row in store.newest(100)] == [(49.0, "49")]
    assert store.record([chosen(FAST.plan_id, 60.0), chosen(CHEAP.plan_id, 61.0, "u2"), about("team", 1)]) == 3
    assert len(store.newest(100)) == 4


def test_a_decision_that_is_repeated_without_offers_stays_the_answer_that_it_was(store: DecisionStore) -> None:
    store.record([chosen(CHEAP.plan_id)])
    store.record([decision(5.0, "team", DecisionKind.PREFERRED, CHEAP.plan_id, job="cora", uid="u1", because="later")])
    (row,) = store.newest(10)
    assert (row.because, len(preferences_of([row]).answers)) == ("later", 2)


def test_the_newest_of_a_namespace_are_kept_and_another_loses_nothing(store: DecisionStore) -> None:
    fixed = decision(1.0, "attacker", DecisionKind.WEIGHTS_SET, offers="[0.1,0.1,0.8]")
    forgotten = decision(1.5, "attacker", DecisionKind.FORGOTTEN, "u1:x:y")
    store.record([chosen(CHEAP.plan_id), fixed, forgotten])
    store.record([about("attacker", number) for number in range(MAX_EACH + 30)])
    rows = store.newest(10 * MAX_EACH)
    assert len(rows) == MAX_EACH + 3
    assert {fixed.identifier, forgotten.identifier, chosen(CHEAP.plan_id).identifier} <= {row.identifier for row in rows}
    assert min(row.at for row in rows if row.kind == "Rejected") == 32.0


def test_rows_of_an_earlier_version_are_cut_to_the_newest_though_none_comes(store: DecisionStore) -> None:
    rows = [about("attacker", number) for number in range(MAX_EACH + 30)] + [decision(1.0, "team", DecisionKind.WEIGHTS_CLEARED)]
    with store._database.engine.begin() as connection:
        connection.execute(sql.insert(DECISIONS), [asdict(row) for row in rows])
    assert store.prune(-math.inf) == 30
    assert store.prune(-math.inf) == 0
    assert min(row.at for row in store.newest(9999) if row.uid) == 32.0
    assert store.prune(math.inf) == MAX_EACH
    assert [row.kind for row in store.newest(9999)] == ["WeightsCleared"]


def test_each_namespace_is_read_to_its_own_limit_and_set_weights_without_one(store: DecisionStore) -> None:
    fixed = decision(1.0, "victim", DecisionKind.WEIGHTS_SET, offers="[0.1,0.1,0.8]")
    store.record([fixed, about("victim", 0), *(about("attacker", number) for number in range(9))])
    assert [(row.namespace, row.at) for row in store.decisions(2)] == [
        ("attacker", 10.0),
        ("attacker", 9.0),
        ("victim", 2.0),
        ("victim", 1.0),
    ]
    assert [row.at for row in store.decisions(2, "attacker")] == [10.0, 9.0]
    assert preferences_of(store.decisions(1, "victim")).fixed == (0.1, 0.1, 0.8)


@pytest.mark.parametrize("kind", ["approved", "rejected", "preferred"])
def test_a_plan_that_the_job_never_had_is_no_decision(tmp_path: Path, kind: str) -> None:
    desk = Desk(tmp_path)
    for number in range(100):
        desk.look(None, **{f"{kind}_plan": f"{number:016x}", f"{kind}_because": str(number)})
    assert not desk.recorder._waiting
    assert not desk.recorder._noted
    desk.look(None, **{f"{kind}_plan": SAFE.plan_id})
    assert len(desk.recorder._waiting) == 1


def test_a_plan_in_force_or_before_it_can_be_decided_on_without_offers(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    prior = PriorPlan("d" * 16, (), 1, 1.0)
    for plan_id in (FAST.plan_id, prior.plan_id, CHEAP.plan_id):
        state, status = state_with(rejected_plan=plan_id)
        bare = replace(status, alternatives=None, prior_plan=prior)
        desk.recorder.note(None, replace(state, job=replace(state.job, status=bare)), bare)
    assert [plan_id for _, _, plan_id in desk.recorder._waiting] == [FAST.plan_id, prior.plan_id]


def test_a_decision_that_precedes_its_plan_is_noted_once_the_plan_is_there(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    state, status = state_with(approved_plan=CHEAP.plan_id)
    bare = replace(status, alternatives=None)
    desk.recorder.note(None, replace(state, job=replace(state.job, status=bare)), bare)
    assert not desk.recorder._waiting
    desk.look(approved_plan=CHEAP.plan_id)
    desk.look(approved_plan=CHEAP.plan_id)
    assert len(desk.recorder._waiting) == 1


async def test_a_reason_that_changes_often_waits_once_and_is_one_row(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    for number in range(30):
        desk.look(preferred_plan=CHEAP.plan_id, preferred_because=str(number))
    assert len(desk.recorder._waiting) == 1
    assert [row.because for row in await desk.written()] == ["29"]


async def test_a_row_that_comes_while_another_is_written_is_written_too(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.look(preferred_plan=CHEAP.plan_id, preferred_because="first")
    working = asyncio.create_task(desk.recorder.run())
    for number in range(20):
        desk.look(preferred_plan=OFFERS[number % 3].plan_id, preferred_because=str(number))
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.05)
    working.cancel()
    rows = await desk.written()
    assert [(row.plan_id, row.because) for row in rows] == [(OFFERS[number % 3].plan_id, str(number)) for number in (19, 18, 17)]


async def test_rows_that_tenants_write_do_not_make_the_operator_read_all_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk, reads = Desk(tmp_path), list[float]()

    async def read(store: DecisionStore) -> None:
        reads.append(desk.now)

    monkeypatch.setattr(desk.recorder, "read", read)
    working = asyncio.create_task(desk.recorder.run())
    for number in range(20):
        desk.look(preferred_plan=CHEAP.plan_id, preferred_because=str(number))
        for _ in range(200):
            await asyncio.sleep(0.005)
            if not desk.recorder._waiting:
                break
    working.cancel()
    assert len(reads) == 1


def test_a_decision_dated_by_a_clock_that_was_ahead_is_taken_back_by_the_next(store: DecisionStore) -> None:
    store.record([decision(86_500.0, "team", DecisionKind.WEIGHTS_SET, offers="[0.1,0.8,0.1]")])
    cleared = decision(200.0, "team", DecisionKind.WEIGHTS_CLEARED)
    assert store.record([cleared, about("other", 1)]) == 2
    assert store.record([cleared]) == 0
    assert preferences_of(store.decisions(namespace="team")).fixed is None
    assert [row.at for row in store.decisions(namespace="other")] == [3.0]


def test_of_two_answers_the_one_written_last_counts_whatever_its_date(store: DecisionStore) -> None:
    store.record([chosen(CHEAP.plan_id, 500.0)])
    store.record([chosen(FAST.plan_id, 100.0)])
    answers = preferences_of(store.decisions()).answers
    assert {answer.identifier for answer in answers if "c" * 16 not in answer.identifier} == {f"u1:{FAST.plan_id}:{CHEAP.plan_id}"}
