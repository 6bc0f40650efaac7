"""Finished runs on their way to the cost model: through the database, shared among namespaces, into every question."""

from __future__ import annotations

from collections.abc import Callable, Sized
from pathlib import Path

import msgspec
import pytest
import sqlalchemy as sql

from hyperscale.control.history.run_store import TEXTS_SEARCHED, RunStore
from hyperscale.control.history.runs_table import RUNS, FinishedRun
from hyperscale.control.history.taught_speeds import Speeds, stated_of
from hyperscale.control.specs.parsed_specs import JobReader
from hyperscale.control.specs.plan_question import question_about
from hyperscale.model.api.policy import HistoryPlacement, HistoryPolicy, PolicySpec
from hyperscale.model.history.corrections import UNLABELLED, Corrections, Factor, PartKind, PredictedPart
from hyperscale.model.plan import Plan
from tests.builders.clusters import POLICY, PRODUCTS, gpu_node, planned, snapshot, training
from tests.unit.control.history.test_finished_runs import history, run, server  # noqa: F401 - fixtures

PLAN = planned(snapshot(*(gpu_node(name) for name in "ab")), training(workers={"minReplicas": 2, "maxReplicas": 2}))
SECONDS = PLAN.predicted.epoch_seconds


def runs_of(namespace: str, count: int, begin: int, plan: Plan = PLAN, slower: float = 2.0) -> list[FinishedRun]:
    return [
        run(
            begin + number,
            uid=f"{namespace}-{begin + number}",
            namespace=namespace,
            architecture="GraphSAGE",
            plan=msgspec.json.encode(plan).decode(),
            predicted_seconds=SECONDS,
            measured_seconds=slower * SECONDS,
            compute_seconds=None,
        )
        for number in range(count)
    ]


def test_what_runs_took_comes_back_in_the_next_question(history: RunStore) -> None:  # noqa: F811
    history.record(runs_of("team", 8, 0))
    reader = JobReader()
    reader.corrections = Speeds().learn(history, 5)
    corrections = reader.placement_corrections(training(), POLICY)
    assert corrections is not None
    assert corrections.runs == 8
    again = planned(
        snapshot(*(gpu_node(name) for name in "ab")), training(workers={"minReplicas": 2, "maxReplicas": 2}), corrections=corrections
    )
    assert again.predicted.epoch_seconds == pytest.approx(2.0 * SECONDS, rel=0.1)
    asked = question_about("team/gnn", training(), POLICY, corrections=corrections)
    assert asked.corrections == corrections


def test_a_policy_that_reports_sends_none(history: RunStore) -> None:  # noqa: F811
    history.record(runs_of("team", 8, 0))
    reader = JobReader()
    reader.corrections = Speeds().learn(history, 5)
    report = PolicySpec(history=HistoryPolicy(placement=HistoryPlacement.REPORT))
    assert reader.placement_corrections(training(), report) is None
    assert JobReader().placement_corrections(training(), POLICY) is None


def test_the_same_runs_are_fitted_once(history: RunStore) -> None:  # noqa: F811
    history.record(runs_of("team", 6, 0))
    speeds = Speeds()
    first = speeds.learn(history, 5)
    assert speeds.learn(history, 5) is first
    history.record(runs_of("team", 1, 50, slower=1.0))
    assert speeds.learn(history, 5) != first


def test_too_few_runs_and_runs_of_earlier_versions_teach_nothing(history: RunStore) -> None:  # noqa: F811
    older = msgspec.structs.replace(PLAN, predicted=msgspec.structs.replace(PLAN.predicted, parts=()))
    history.record([*runs_of("team", 4, 0), *runs_of("team", 9, 20, older)])
    assert Speeds().learn(history, 5) == {}
    assert len(history.taught_runs(400)) == 4


def test_no_namespace_pushes_out_the_newest_quarter_of_another(history: RunStore) -> None:  # noqa: F811
    history.record([*runs_of("victim", 5, 0), *runs_of("attacker", 40, 100)])
    taught = history.taught_runs(8)
    assert [one.namespace for one in taught] == ["victim"] * 2 + ["attacker"] * 6
    assert len(history.taught_runs(100)) == 45


def test_a_failed_or_moved_run_teaches_nothing(history: RunStore) -> None:  # noqa: F811
    moved = [msgspec.structs.replace(one, replans=1) for one in runs_of("team", 3, 0)]
    failed = [msgspec.structs.replace(one, phase="Failed") for one in runs_of("team", 3, 10)]
    history.record([*moved, *failed])
    assert history.taught_runs(400) == ()


def test_runs_that_an_earlier_cost_model_predicted_teach_nothing(history: RunStore) -> None:  # noqa: F811
    earlier = msgspec.structs.replace(PLAN, predicted=msgspec.structs.replace(PLAN.predicted, cost_model=None))
    history.record([*runs_of("team", 8, 0, earlier), *runs_of("team", 6, 100, slower=3.0)])
    assert len(history.taught_runs(400)) == 6
    assert [taught for _, taught in history.brief_runs(20)] == [True] * 6 + [False] * 8
    assert history.calibrations(5)["GraphSAGE"][0].factor == pytest.approx(3.0)
    assert len(history.runs(20)) == 14, "they are kept and shown"


@pytest.mark.parametrize("plan", ["", "{}", "[]", '{"predicted":{"parts":[{"kind":"Magic","seconds":1}]}}', '{"predicted":{"parts":7}}'])
def test_a_plan_that_cannot_be_read_has_no_parts(plan: str) -> None:
    assert stated_of(plan, "").parts == ()


def test_parts_of_a_plan_are_read_as_they_were_written() -> None:
    assert stated_of(msgspec.json.encode(PLAN).decode(), "").parts == PLAN.predicted.parts
    assert PredictedPart(PartKind.OVERHEAD, 0.0036) in PLAN.predicted.parts
    assert PRODUCTS[0] in {part.name for part in PLAN.predicted.parts}


def test_compute_seconds_by_rank_become_those_of_the_slowest_rank_on_each_product() -> None:
    workers = [{"rank": 0, "gpus": 2, "product": "A"}, {"rank": 2, "gpus": 1}, {"rank": 3, "gpus": 1, "product": "A"}]
    plan = msgspec.json.encode({"workers": workers}).decode()
    assert stated_of(plan, '{"rankComputeSeconds":[1.0,3.0,7.5,2.0]}').product_seconds == (("A", 3.0), (UNLABELLED, 7.5))


@pytest.mark.parametrize("seconds", ["[1.0]", "[1.0,2.0,3.0]", "[]", '["1"]', "7"])
def test_figures_of_other_ranks_than_the_plans_teach_nothing_of_products(seconds: str) -> None:
    plan = '{"workers":[{"rank":0,"gpus":1,"product":"A"},{"rank":1,"gpus":1,"product":"B"}]}'
    assert stated_of(plan, f'{{"rankComputeSeconds":{seconds}}}').product_seconds == ()


@pytest.mark.parametrize("workers", ['[{"rank":5,"gpus":1}]', '[{"rank":-1,"gpus":1}]', '[{"rank":0,"gpus":1e9}]', "7", '[{"product":7}]'])
def test_workers_that_can_be_none_cost_no_parts(workers: str) -> None:
    plan = f'{{"predicted":{{"parts":[{{"kind":"Compute","seconds":1,"name":"A"}}]}},"workers":{workers}}}'
    stated = stated_of(plan, '{"rankComputeSeconds":[1.0]}')
    assert (len(stated.parts), stated.product_seconds) == (1, ())


def test_a_run_that_timed_its_ranks_teaches_each_product(history: RunStore) -> None:  # noqa: F811
    seconds = [0.25 if worker.product == PRODUCTS[0] else 0.5 for worker in PLAN.workers for _ in worker.ranks]
    measured = f'{{"epoch":1,"rankComputeSeconds":{seconds}}}'
    history.record([msgspec.structs.replace(one, measured=measured) for one in runs_of("team", 3, 0)])
    assert dict(history.taught_runs(9)[0].product_seconds)[PRODUCTS[0]] == 0.25
    assert {name for name, _ in history.taught_runs(9)[0].product_seconds} == {worker.product for worker in PLAN.workers}


@pytest.mark.parametrize("kind", ["products", "tiers", "spread"])
def test_a_question_never_carries_a_figure_that_is_no_number(kind: str) -> None:
    broken = float("nan") if kind == "spread" else (Factor("A", float("nan"), 0.1, 5),)
    corrections = msgspec.structs.replace(Corrections(untried=Factor("", 1.0, 0.1, 5)), **{kind: broken})
    assert question_about("team/gnn", training(), POLICY, corrections=corrections).corrections is None


@pytest.mark.parametrize("read", [lambda store: store.taught_runs(400), lambda store: store.steps(1)], ids=["speeds", "steps"])
def test_runs_that_go_away_between_two_reads_are_left_out(tmp_path: Path, read: Callable[[RunStore], Sized]) -> None:
    store, other = (RunStore(f"sqlite:///{tmp_path}/runs.sqlite") for _ in range(2))
    store.record(runs_of("team", 6, 0))
    gone = {run.uid for run in runs_of("team", 3, 0)}

    @sql.event.listens_for(store._engine, "before_cursor_execute")
    def before(connection: object, cursor: object, statement: str, *further: object) -> None:
        if 'hyperscale_runs."plan"' in statement.partition("FROM")[0]:
            with other._engine.begin() as another:
                another.execute(sql.delete(RUNS).where(RUNS.c.uid.in_(gone)))

    left = read(store)
    assert len(left if not isinstance(left, dict) else next(iter(left.values()))) == 3
    store.close()
    other.close()


def test_texts_are_searched_in_the_newest_runs_only(history: RunStore) -> None:  # noqa: F811
    older = msgspec.structs.replace(PLAN, predicted=msgspec.structs.replace(PLAN.predicted, parts=()))
    history.record([*runs_of("team", 3, 0), *runs_of("team", 2 * TEXTS_SEARCHED - 1, 20, older)])
    assert [one.namespace for one in history.taught_runs(2)] == ["team"]
    history.record(runs_of("team", 1, 90, older))
    assert history.taught_runs(2) == ()
    history.record([*runs_of("other", 1, 5), *runs_of("third", 9, 100, older)])
    assert [one.namespace for one in history.taught_runs(2)] == ["other"]
