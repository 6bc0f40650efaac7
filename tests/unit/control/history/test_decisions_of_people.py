"""What people decide is a row in history, an answer where there was a choice, and weights within an administrator's bounds."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sql
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from hyperscale.control.cache.deciders import deciders
from hyperscale.control.cache.object_readers import read_job
from hyperscale.control.cache.records import JobRecord
from hyperscale.control.history.database import HistoryError
from hyperscale.control.history.decision_recorder import DecisionRecorder
from hyperscale.control.history.decision_store import DecisionStore
from hyperscale.control.history.decisions_table import DecisionKind, PersonDecision, decision, offers_of, offers_text
from hyperscale.control.history.preference_book import figures_of, preferences_of, revealed, weights_of, within
from hyperscale.control.specs.parsed_specs import JobReader
from hyperscale.control.telemetry.metrics import Telemetry
from hyperscale.evaluate.preferences.revealed_weights import WeightBounds
from hyperscale.model.api.policy import PolicySpec, PreferenceMode
from hyperscale.model.api.preference_policy import PreferenceBounds, PreferencePolicy, WeightRange
from hyperscale.model.meta import JobMetadata
from hyperscale.model.offers.plan_offers import PlanAlternative, PlanAlternatives
from hyperscale.model.status import JobStatus
from tests.builders.seen import UID, job_spec, last_step, plan, seen

FAST = PlanAlternative("a" * 16, 2, 2, 4, 1.0, 0.02, 2.0)
CHEAP = PlanAlternative("b" * 16, 2, 2, 4, 2.0, 0.04, 0.5)
SAFE = PlanAlternative("c" * 16, 1, 1, 2, 2.0, 0.01, 2.0)
OFFERS = (FAST, CHEAP, SAFE)
BOUNDS = WeightBounds()
APPLY = PolicySpec(preferences=PreferencePolicy(PreferenceMode.APPLY))
ADVISE = PolicySpec(preferences=PreferencePolicy(PreferenceMode.ADVISE))
TWO = plan("node-a", "node-b", plan_id=FAST.plan_id)
OFFERED = PlanAlternatives("0" * 16, OFFERS)


def chosen(name: str, at: float = 1.0, uid: str = "u1", kind: DecisionKind = DecisionKind.PREFERRED) -> PersonDecision:
    return decision(at, "team", kind, name, job="cora", uid=uid, offers=offers_text(OFFERS))


def test_a_choice_among_three_is_two_answers() -> None:
    answers = preferences_of([chosen(CHEAP.plan_id)]).answers
    assert [answer.identifier for answer in answers] == [f"u1:{CHEAP.plan_id}:{other}" for other in (FAST.plan_id, SAFE.plan_id)]
    assert {answer.preferred.cost for answer in answers} == {0.5}


def test_preferring_and_then_approving_a_plan_counts_once_and_the_later_choice_wins() -> None:
    twice = [chosen(CHEAP.plan_id), chosen(CHEAP.plan_id, 2.0, kind=DecisionKind.APPROVED)]
    assert len(preferences_of(twice).answers) == 2
    changed = preferences_of([*twice, chosen(FAST.plan_id, 3.0)]).answers
    assert {answer.identifier for answer in changed if "c" * 16 not in answer.identifier} == {f"u1:{FAST.plan_id}:{CHEAP.plan_id}"}


def test_a_rejection_is_kept_and_is_no_answer() -> None:
    assert preferences_of([chosen(FAST.plan_id, kind=DecisionKind.REJECTED)]).answers == ()


def test_a_forgotten_answer_is_as_if_it_had_not_been_given_and_can_be_recalled() -> None:
    rows = [chosen(CHEAP.plan_id, float(at), f"u{at}") for at in range(1, 6)]
    less = preferences_of(rows[:-1])
    forget = [
        decision(9.0 + at, "team", DecisionKind.FORGOTTEN, answer.identifier) for at, answer in enumerate(preferences_of(rows[-1:]).answers)
    ]
    without = preferences_of([*rows, *forget])
    assert without.answers == less.answers
    assert len(without.forgotten) == 2
    assert revealed(without, BOUNDS) == revealed(less, BOUNDS)
    recall = [replace(one, identifier=f"r{one.identifier[1:]}", at=one.at + 10.0, kind=str(DecisionKind.RECALLED)) for one in forget]
    assert preferences_of([*rows, *forget, *recall]).answers == preferences_of(rows).answers


def test_a_forgotten_answer_that_is_given_again_counts() -> None:
    rows = [chosen(CHEAP.plan_id), decision(2.0, "team", DecisionKind.FORGOTTEN, f"u1:{CHEAP.plan_id}:{FAST.plan_id}")]
    assert len(preferences_of(rows).answers) == 1
    again = preferences_of([*rows, chosen(CHEAP.plan_id, 3.0)])
    assert (len(again.answers), again.forgotten) == (2, ())
    later = decision(4.0, "team", DecisionKind.FORGOTTEN, f"u1:{CHEAP.plan_id}:{FAST.plan_id}")
    assert len(preferences_of([*rows, chosen(CHEAP.plan_id, 3.0), later]).answers) == 1


def test_people_who_choose_the_cheap_plan_weigh_cost() -> None:
    weights = revealed(preferences_of([chosen(CHEAP.plan_id, float(at), f"u{at}") for at in range(20)]), BOUNDS).weights
    assert weights[1] > max(weights[0], weights[2])
    bounded = WeightBounds((0.05, 0.05, 0.05), (0.9, 0.4, 0.9))
    assert revealed(preferences_of([chosen(CHEAP.plan_id, float(at), f"u{at}") for at in range(20)]), bounded).weights[1] <= 0.4 + 1e-9


def test_weights_that_an_administrator_sets_keep_the_bounds_and_can_be_cleared() -> None:
    rows = [chosen(CHEAP.plan_id), decision(2.0, "team", DecisionKind.WEIGHTS_SET, offers="[0.0,1.0,0.0]")]
    weights = revealed(preferences_of(rows), BOUNDS)
    assert weights.weights == pytest.approx((0.05, 0.9, 0.05))
    cleared = preferences_of([*rows, decision(3.0, "team", DecisionKind.WEIGHTS_CLEARED)])
    assert revealed(cleared, BOUNDS) == revealed(preferences_of(rows[:1]), BOUNDS)


@given(
    st.tuples(*(st.floats(0.0, 1.0) for _ in range(3))),
    st.tuples(*(st.floats(0.0, 0.33) for _ in range(3))),
    st.tuples(*(st.floats(0.34, 1.0) for _ in range(3))),
)
def test_weights_within_any_bounds_that_a_policy_can_hold_sum_to_one(
    weights: tuple[float, float, float], low: tuple[float, float, float], high: tuple[float, float, float]
) -> None:
    kept = within(weights, WeightBounds(low, high))
    assert sum(kept) == pytest.approx(1.0, abs=1e-9)
    assert all(least - 1e-12 <= each <= most + 1e-12 for each, least, most in zip(kept, low, high, strict=True))
    assert within(kept, WeightBounds(low, high)) == pytest.approx(kept, abs=1e-9)


def test_where_a_price_is_missing_gpu_seconds_stand_for_cost() -> None:
    figures = figures_of((FAST, replace(CHEAP, cost_per_epoch=None)))
    assert [figures[name].cost for name in sorted(figures)] == [4.0, 8.0]


@pytest.mark.parametrize("text", ["", "{", "[1]", '[{"id":1}]', "[0.1,0.2]", "[NaN,1,0]", "[2,0,0]", "[0,0,0]"])
def test_what_cannot_be_read_says_nothing(text: str) -> None:
    rows = [decision(1.0, "team", kind, FAST.plan_id, uid="u", offers=text) for kind in DecisionKind]
    assert preferences_of(rows).answers == ()
    assert offers_of(text) == ()
    assert weights_of(text) is None


@settings(max_examples=50)
@given(st.permutations(range(6)))
def test_the_order_in_which_rows_are_read_does_not_matter(order: list[int]) -> None:
    rows = [chosen(OFFERS[at % 3].plan_id, float(at), f"u{at // 2}") for at in range(6)]
    assert preferences_of([rows[at] for at in order]) == preferences_of(rows)


# The recorder


def url_of(folder: Path) -> str:
    return f"sqlite:///{folder / 'history.sqlite'}"


def state_with(reason: str = "Starting", **annotations: str) -> tuple[Any, JobStatus]:
    names = {f"hyperscale.dev/{name.replace('_', '-')}": value for name, value in annotations.items()}
    metadata = JobMetadata(namespace="team", name="cora", uid=UID, generation=1, annotations=names)
    status = JobStatus(plan=TWO, alternatives=OFFERED, conditions=(last_step(reason),))
    return seen(job_spec(startPolicy="Manual"), plan=TWO, metadata=metadata, status=status), status


class Desk:
    """A recorder whose clock counts its looks."""

    def __init__(self, folder: Path) -> None:
        self.now = 1_800_000_000.0
        self.reader = JobReader()
        self.url = url_of(folder)
        self.recorder = DecisionRecorder(self.reader, Telemetry(), self.url, lambda: self.now)

    def look(self, record: JobRecord | None = None, **annotations: str) -> None:
        self.now += 1.0
        self.recorder.note(record, *state_with(**annotations))

    async def written(self) -> tuple[PersonDecision, ...]:
        """All rows, once the recorder has worked for a moment."""
        working = asyncio.create_task(self.recorder.run())
        for _ in range(200):
            await asyncio.sleep(0.01)
            if not self.recorder._waiting:
                break
        await asyncio.sleep(0.2)
        working.cancel()
        store = DecisionStore(self.url, make=False)
        try:
            return store.decisions()
        finally:
            store.close()


async def test_each_decision_is_written_once_with_what_was_on_offer(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.look(preferred_plan=CHEAP.plan_id, preferred_because="cost\nmatters")
    desk.look(preferred_plan=CHEAP.plan_id, preferred_because="cost\nmatters")
    desk.look(preferred_plan=CHEAP.plan_id, preferred_because="cost\nmatters", approved_plan=FAST.plan_id)
    rows = await desk.written()
    assert [(row.kind, row.plan_id, row.because, row.outcome) for row in rows] == [
        ("Approved", FAST.plan_id, "", "Starting"),
        ("Preferred", CHEAP.plan_id, "cost matters", "Starting"),
    ]
    assert offers_of(rows[0].offers) == OFFERS


async def test_the_program_that_wrote_the_annotation_is_kept(tmp_path: Path) -> None:
    metadata = {"namespace": "team", "name": "cora", "uid": UID, "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}
    wire = {"metadata": {**metadata, "managedFields": [MANAGED]}, "spec": {"workers": {"maxReplicas": 2}}}
    desk = Desk(tmp_path)
    desk.look(read_job(wire, 1_800_000_000.0), approved_plan=FAST.plan_id)
    assert [row.manager for row in await desk.written()] == ["kubectl-annotate"]


async def test_a_restart_writes_nothing_twice_and_the_same_decision_again_takes_the_place_of_the_earlier(tmp_path: Path) -> None:
    first = Desk(tmp_path)
    first.look(approved_plan=FAST.plan_id)
    assert len(await first.written()) == 1
    again = Desk(tmp_path)
    again.look(approved_plan=FAST.plan_id)
    assert len(await again.written()) == 1
    again.look(rejected_plan=FAST.plan_id)
    again.look(approved_plan=FAST.plan_id)
    rows = await again.written()
    assert [(row.kind, row.at) for row in rows] == [("Approved", again.now), ("Rejected", again.now - 1.0)]


async def test_weights_follow_the_mode_of_the_policy(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.look(preferred_plan=CHEAP.plan_id)
    await desk.written()
    weights = desk.reader.weights_of("team", APPLY)
    assert weights is not None
    assert sum(weights) == pytest.approx(1.0)
    assert weights[1] > weights[0]
    assert desk.reader.applied_weights("team", APPLY) == weights
    assert desk.reader.weights_of("team", ADVISE) == weights
    assert desk.reader.applied_weights("team", ADVISE) is None
    assert desk.reader.weights_of("team", PolicySpec()) is None
    assert desk.reader.weights_of("another", APPLY) is None
    strict = PreferencePolicy(PreferenceMode.APPLY, bounds=PreferenceBounds(cost=WeightRange(0.0, 0.34)))
    bounded = desk.reader.weights_of("team", PolicySpec(preferences=strict))
    assert bounded is not None
    assert bounded[1] <= 0.34 + 1e-9


def test_without_history_nothing_is_kept_and_there_are_no_weights() -> None:
    reader = JobReader()
    recorder = DecisionRecorder(reader, Telemetry(), "", lambda: 0.0)
    recorder.note(None, *state_with(approved_plan=FAST.plan_id))
    asyncio.run(recorder.run())
    assert reader.weights_of("team", APPLY) is None


async def test_a_database_that_is_away_ends_no_operator(tmp_path: Path) -> None:
    recorder = DecisionRecorder(JobReader(), Telemetry(), f"sqlite:///{tmp_path}/absent/history.sqlite", lambda: 0.0)
    recorder.note(None, *state_with(approved_plan=FAST.plan_id))
    working = asyncio.create_task(recorder.run())
    await asyncio.sleep(0.3)
    assert not working.done()
    working.cancel()


@pytest.mark.parametrize("value", ["", "x", "0" * 15, "\x1b" * 16, "a" * 5000])
def test_an_annotation_that_names_no_plan_is_not_kept(tmp_path: Path, value: str) -> None:
    desk = Desk(tmp_path)
    desk.look(approved_plan=value, rejected_plan=value, preferred_plan=value)
    assert not desk.recorder._waiting


OWNED: dict[str, Any] = {"f:metadata": {"f:annotations": {"f:hyperscale.dev/approved-plan": {}}}}
MANAGED = {"manager": "kubectl-annotate", "time": "2026-01-01T00:00:00Z", "fieldsV1": OWNED}


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ([MANAGED], "kubectl-annotate"),
        ([MANAGED, {**MANAGED, "manager": "argocd", "time": "2026-02-01T00:00:00Z"}], "argocd"),
        ([{**MANAGED, "fieldsV1": {"f:spec": {}}}], ""),
        ([{**MANAGED, "manager": "\x1b[2J" + "x" * 500}], "?[2J" + "x" * 124),
        ([None, 3, {"fieldsV1": []}, {"fieldsV1": {"f:metadata": 3}}], ""),
        ("text", ""),
        (None, ""),
    ],
)
def test_the_manager_of_an_annotation_is_kept_as_given_and_bounded(fields: Any, name: str) -> None:
    by = deciders({"metadata": {"managedFields": fields}})
    assert by == ({"hyperscale.dev/approved-plan": name} if name else {})
    assert deciders({}) == {}


def test_old_decisions_about_jobs_are_deleted_and_set_weights_stay(tmp_path: Path) -> None:
    store = DecisionStore(url_of(tmp_path))
    store.record([chosen(CHEAP.plan_id, 1.0), decision(1.0, "team", DecisionKind.WEIGHTS_SET, offers="[0.2,0.6,0.2]")])
    assert store.record([chosen(CHEAP.plan_id, 1.0)]) == 0
    assert store.prune(2.0) == 1
    assert [row.kind for row in store.decisions()] == ["WeightsSet"]
    with store._database.engine.begin() as connection:
        connection.execute(sql.text("drop table hyperscale_decisions"))
    with pytest.raises(HistoryError):
        store.decisions()
    store.close()
