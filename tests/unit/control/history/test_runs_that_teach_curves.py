"""From finished runs in a real database to a step time curve, and from there to the prediction of a plan."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest

from hyperscale.control.history.calibration import placement
from hyperscale.control.history.recorder import RunRecorder
from hyperscale.control.history.run_record import finished_run
from hyperscale.control.history.run_store import RunStore
from hyperscale.control.history.runs_table import FinishedRun
from hyperscale.control.history.workload_curves import Curves
from hyperscale.control.specs.parsed_specs import JobReader
from hyperscale.control.telemetry.metrics import Telemetry
from hyperscale.model.api.job import JobSpec
from hyperscale.model.api.measured import Measured
from hyperscale.model.history.step_curves import LinkClass, StepTime, placed, workload_of
from hyperscale.model.meta import JobMetadata
from hyperscale.model.plan import Calibration, Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.model.status import StateWord
from hyperscale.planner.choice.trust import held_fast
from hyperscale.planner.cost.steptime import predict
from tests.builders.clusters import PRODUCTS, both_ways, gpu_node, planned, snapshot, training
from tests.builders.seen import status

NODES = ["a", "b", "c", "d"]
SEEN = snapshot(*(gpu_node(name, free=4) for name in NODES), links=both_ways(NODES, latency_seconds=1e-4, bandwidth_bytes_per_second=1e10))
TRUTH = StepTime(
    base_seconds=0.02,
    sample_seconds=8e-7,
    straggle=0.03,
    exponent=1.5,
    links=(LinkClass(0.02, 0.0, 0.08), LinkClass(0.2, 0.02, 0.8), LinkClass(0.1, 0.01, 0.4)),
    node_seconds=0.04,
    log_error=0.0,
)
"""Two nodes are slower than three here, which no cost model of ours says."""
FREE = [(4,), (3,), (2,), (1,), (2, 2), (3, 1), (3, 3), (4, 2), (1, 1), (4, 4), (2, 1, 1), (2, 2, 2), (1, 1, 1), (3, 2, 1), (2, 2, 1, 1)]
UNMEASURED = [(4, 3), (4, 1), (3, 2), (1, 4, 1), (2, 2, 1), (3, 1, 1, 1)]
"""Placements that no run had."""


def job(count: int) -> JobSpec:
    return training(workers={"minReplicas": count, "maxReplicas": count})


def plan_on(free: Sequence[int], known: tuple[Calibration, ...] = (), first: int = 0) -> Plan:
    """As many workers as there are GPUs: the placement is given."""
    room = dict.fromkeys(NODES, 0) | {NODES[(first + number) % 4]: gpus for number, gpus in enumerate(free)}
    return planned(SEEN, job(sum(free)), free_gpus=room, calibration=known)


def epoch_seconds(plan: Plan) -> float:
    """As it truly is."""
    step, steps = placed(plan.gpus_by_node(), 2_449_029, None)
    return steps * float(predict(TRUTH, [step])[0])


def finished(number: int, plan: Plan, seconds: float) -> FinishedRun:
    metadata = JobMetadata(namespace="team", name=f"gnn-{number}", uid=str(number), labels={}, annotations={}, generation=1)
    told = status(StateWord.SUCCEEDED, measured=Measured(epoch=9, epochs=9, loss=0.1, accuracy=0.9, epoch_seconds=seconds))
    return finished_run(metadata, job(len(plan.workers)), plan, told, 1000.0 + number)


def measured(runs: Sequence[FinishedRun]) -> list[tuple[FinishedRun, float]]:
    """Runs with their measured epochs."""
    return [(run, run.measured_seconds) for run in runs if run.measured_seconds is not None]


@pytest.fixture(scope="module")
def runs() -> list[FinishedRun]:
    rng = np.random.default_rng(1)
    plans = [plan_on(free, first=first) for first in (0, 2) for free in FREE]
    return [finished(number, plan, epoch_seconds(plan) * float(np.exp(rng.normal(0.0, 0.03)))) for number, plan in enumerate(plans)]


@pytest.fixture
def history(tmp_path: Path) -> Iterator[RunStore]:
    made = RunStore(f"sqlite:///{tmp_path}/history.sqlite")
    yield made
    made.close()


def taught(history: RunStore) -> tuple[Calibration, ...]:
    """What the operator would put into a request."""
    reader = JobReader()
    reader.calibrations, reader.taught = history.calibrations(5), Curves().learn(history, 5)
    return reader.calibration(job(4), "team")


@pytest.fixture(scope="module")
def known(runs: list[FinishedRun], tmp_path_factory: pytest.TempPathFactory) -> Calibration:
    """What all runs taught."""
    history = RunStore(f"sqlite:///{tmp_path_factory.mktemp('history')}/history.sqlite")
    history.record(runs)
    (found,) = taught(history)
    history.close()
    return found


def test_the_curve_is_learnt_from_all_runs_of_the_workload(known: Calibration) -> None:
    assert known.curve is not None
    assert (known.products, known.runs, known.curve.runs) == (PRODUCTS[0], len(FREE) * 2, len(FREE) * 2)


@pytest.mark.parametrize("free", UNMEASURED)
def test_a_plan_that_the_curve_predicts_says_so_and_is_the_same_plan(known: Calibration, free: tuple[int, ...]) -> None:
    by_curve, by_factor = plan_on(free, (known,), 1), plan_on(free, (msgspec.structs.replace(known, curve=None),), 1)
    assert by_curve.workers == by_factor.workers
    assert by_curve.optimality_gap == by_factor.optimality_gap
    assert by_curve.predicted.calibration is not None
    assert by_curve.predicted.calibration.by_curve
    assert any("finished runs of this workload" in reason for reason in by_curve.reasons)
    low, high = by_curve.predicted.low_seconds, by_curve.predicted.high_seconds
    assert low is not None
    assert high is not None
    assert low < by_curve.predicted.epoch_seconds < high


def test_plans_are_predicted_better_by_the_curve_of_their_workload_than_by_one_factor(known: Calibration) -> None:
    factor_alone = msgspec.structs.replace(known, curve=None)
    errors = []
    for free in UNMEASURED:
        by_curve, by_factor = plan_on(free, (known,), 1), plan_on(free, (factor_alone,), 1)
        truth = epoch_seconds(by_curve)
        errors.append([abs(plan.predicted.epoch_seconds / truth - 1.0) for plan in (by_curve, by_factor)])
    ours, factor = np.mean(errors, axis=0)
    assert ours < 0.08
    assert ours < 0.5 * factor


def test_a_placement_beyond_those_measured_is_left_to_the_factor_of_the_workloads_own_runs(
    history: RunStore, runs: list[FinishedRun]
) -> None:
    history.record([run for run in runs if run.gpus <= 6])
    history.record(
        [msgspec.structs.replace(run, uid=f"{run.uid} other", hidden_size=8, measured_seconds=18.0 * run.predicted_seconds) for run in runs]
    )
    (known,) = taught(history)
    plan = plan_on((4, 4, 4), (known,))
    assert plan.predicted.calibration is not None
    assert not plan.predicted.calibration.by_curve
    assert plan.predicted.calibration.factor == known.factor < 0.5 * history.calibrations(5)["GraphSAGE"][0].factor
    assert not any("of this workload" in reason for reason in plan.reasons)


def test_busy_gpus_are_left_to_the_factor_because_the_curve_was_learnt_on_idle_ones(known: Calibration) -> None:
    seen = snapshot(*(gpu_node(name, free=4, load=0.5) for name in NODES), links=both_ways(NODES, latency_seconds=1e-4))
    plan = planned(seen, job(4), calibration=(known,))
    assert plan.predicted.calibration is not None
    assert not plan.predicted.calibration.by_curve


@pytest.mark.parametrize("times", [1e4, 1e-4])
def test_a_curve_that_is_absurdly_far_from_the_cost_model_predicts_no_plan(known: Calibration, times: float) -> None:
    curve = known.curve
    assert curve is not None
    links = tuple(LinkClass(0.0, 0.0, 0.0, link.least_gpus, link.most_gpus) for link in curve.links)
    absurd = msgspec.structs.replace(curve, links=links, base_seconds=curve.base_seconds * times, sample_seconds=0.0, effects={})
    plan = plan_on((2,), (msgspec.structs.replace(known, curve=absurd),))
    assert plan.predicted.calibration is not None
    assert not plan.predicted.calibration.by_curve


def test_another_workload_is_left_to_the_factor(known: Calibration) -> None:
    reader = JobReader()
    others = Calibration(known.products, 2.0, 0.5, 200)
    reader.calibrations, reader.taught = {"GraphSAGE": (others,)}, {("", workload_of(job(4), known.products)): known}
    narrower = training(model={"architecture": "GraphSAGE", "layers": 3, "hiddenSize": 128})
    assert reader.calibration(job(2)) == (known,)
    assert reader.calibration(narrower) == (others,)


def test_runs_that_say_nothing_of_placement_teach_no_curve(history: RunStore, runs: list[FinishedRun]) -> None:
    history.record([msgspec.structs.replace(runs[0], uid=f"again-{number}") for number in range(20)])
    assert Curves().learn(history, 5) == {}


def test_runs_that_follow_no_curve_teach_none(history: RunStore, runs: list[FinishedRun]) -> None:
    rng = np.random.default_rng(5)
    history.record(
        [msgspec.structs.replace(run, measured_seconds=run.predicted_seconds * float(np.exp(rng.normal(0.0, 0.1)))) for run in runs]
    )
    assert Curves().learn(history, 5) == {}


def test_a_mix_of_gpus_and_a_plan_that_cannot_be_read_teach_no_curve(history: RunStore, runs: list[FinishedRun]) -> None:
    history.record([msgspec.structs.replace(run, products="A100+T4") for run in runs])
    assert history.steps(12) == {}
    history.record([msgspec.structs.replace(run, uid=f"{run.uid} broken", plan="{}") for run in runs])
    assert history.steps(12) == {}


def test_only_a_workload_whose_runs_have_changed_is_fitted_anew(
    history: RunStore, runs: list[FinishedRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    history.record(runs)
    curves = Curves()
    first = curves.learn(history, 5)
    monkeypatch.setattr("hyperscale.planner.cost.steptime_fit.learn", lambda *_: pytest.fail("fitted again"))
    assert curves.learn(history, 5) == first
    monkeypatch.undo()
    history.record([msgspec.structs.replace(runs[0], uid="one more", measured_seconds=runs[0].measured_seconds)])
    assert curves.learn(history, 5) != first


def test_an_operator_that_starts_learns_what_is_in_the_database(history: RunStore, runs: list[FinishedRun], tmp_path: Path) -> None:
    history.record(runs)
    reader = JobReader()

    async def start() -> None:
        recorder = RunRecorder(reader, Telemetry(), f"sqlite:///{tmp_path}/history.sqlite", 5, lambda: 0.0)
        running = asyncio.create_task(recorder.run())
        async with asyncio.timeout(30):
            while not reader.taught:  # noqa: ASYNC110 - it sends no notification
                await asyncio.sleep(0.02)
        running.cancel()

    asyncio.run(start())
    assert reader.calibration(job(4), "team")[0].curve is not None
    assert reader.calibration(job(4), "other")[0].curve is None, "it is the word of one namespace"


def test_a_run_predicted_by_a_curve_teaches_the_uncorrected_prediction(known: Calibration) -> None:
    by_curve, plain = plan_on((3, 2), (known,), 1), plan_on((3, 2), (), 1)
    run = finished(0, by_curve, 9.0)
    assert run.predicted_seconds == pytest.approx(plain.predicted.epoch_seconds, rel=1e-6)
    assert run.predicted_seconds * run.correction == pytest.approx(by_curve.predicted.epoch_seconds)


def test_a_plan_of_an_earlier_version_still_reads(known: Calibration) -> None:
    by_curve = plan_on((3, 2), (known,), 1)
    old = json.loads(msgspec.json.encode(by_curve))
    del old["predicted"]["calibration"]["byCurve"]
    read = msgspec.convert(old, Plan)
    assert read.predicted.calibration is not None
    assert not read.predicted.calibration.by_curve


def test_moves_are_judged_with_the_factor_that_the_curve_made_of_the_plan_in_force(known: Calibration) -> None:
    by_curve = plan_on((3, 2), (known,), 1)
    used = by_curve.predicted.calibration
    assert used is not None
    asked = held_fast(PlanRequest(job_key="team/gnn", job=job(5), calibration=(known,)), by_curve)
    assert asked.calibration == (Calibration(used.products, used.factor, used.spread, used.runs),)
    by_factor = plan_on((3, 2), (msgspec.structs.replace(known, curve=None),), 1)
    assert held_fast(asked, by_factor).calibration == asked.calibration


def test_what_a_plan_takes_on_each_node_is_read_from_its_json(runs: list[FinishedRun]) -> None:
    assert sorted(placement(runs[4].plan).values()) == [2, 2]
    assert placement("no JSON") == placement('{"workers":[{"node":"a","gpus":-1}]}') == {}


def test_a_question_with_a_curve_reaches_the_planner_process_as_it_was_asked(known: Calibration) -> None:
    request = PlanRequest(job_key="team/gnn", job=job(5), calibration=(known,))
    assert msgspec.json.decode(msgspec.json.encode(request), type=PlanRequest) == request


@pytest.mark.parametrize("broken", [{"exponent": 0.5}, {"baseSeconds": -1.0}, {"links": []}, {"straggle": None}], ids=str)
def test_a_curve_with_figures_out_of_range_is_refused(known: Calibration, broken: dict[str, object]) -> None:
    wire = msgspec.to_builtins(known.curve) | broken
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wire, StepTime)


def test_a_plan_beyond_what_two_namespaces_measured_says_so_and_has_the_range_of_the_model(known: Calibration) -> None:
    assert known.curve is not None
    shared = msgspec.structs.replace(known, curve=msgspec.structs.replace(known.curve, most_nodes=2))
    narrow = plan_on((2, 2, 1), (msgspec.structs.replace(known, curve=None, spread=0.01),))
    beyond = plan_on((2, 2, 1), (msgspec.structs.replace(shared, spread=0.01),))
    said = "No two namespaces that agree have run this workload on such a placement"
    assert any(reason.startswith(said) for reason in beyond.reasons)
    assert not any(reason.startswith(said) for plan in (narrow, plan_on((2, 2), (shared,))) for reason in plan.reasons)
    assert beyond.predicted.epoch_seconds == narrow.predicted.epoch_seconds
    bounds = [(plan.predicted.low_seconds, plan.predicted.high_seconds) for plan in (beyond, narrow, plan_on((2, 2, 1)))]
    (low, high), (narrow_low, narrow_high), (model_low, model_high) = [(one or 0.0, other or 0.0) for one, other in bounds]
    assert low < narrow_low < narrow_high < high
    assert high / low >= model_high / model_low * (1.0 - 1e-9)
