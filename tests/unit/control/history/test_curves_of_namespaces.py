"""Step time curves where several namespaces have runs: none takes a curve from another, and each goes by its own first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import pytest

from hyperscale.control.history.calibration import MeasuredStep
from hyperscale.control.history.run_store import RunStore
from hyperscale.control.history.runs_table import FinishedRun
from hyperscale.control.history.workload_curves import Curves, shared_curve
from hyperscale.control.specs.parsed_specs import JobReader
from hyperscale.model.history.step_curves import Step, StepTime, workload_of
from hyperscale.model.plan import Calibration
from hyperscale.planner.cost import steptime_fit
from hyperscale.planner.cost.steptime import predict
from tests.unit.control.history.test_runs_that_teach_curves import TRUTH, history, job, known, measured, runs

__all__ = ["history", "known", "runs"]


def known_to_all(history: RunStore) -> Calibration:
    """Of the curve that all namespaces go by."""
    (known,) = (known for (namespace, _), known in Curves().learn(history, 5).items() if not namespace)
    return known


@pytest.mark.parametrize("ratio", [4.0, 0.1])
def test_a_namespace_that_contradicts_another_moves_no_curve_of_it(history: RunStore, runs: list[FinishedRun], ratio: float) -> None:
    history.record(runs)
    changes = [(run, {"uid": f"{run.uid} lie", "namespace": "liar", "measured_seconds": ratio * epoch}) for run, epoch in measured(runs)]
    lies = [msgspec.structs.replace(run, **change) for run, change in changes]
    before = Curves().learn(history, 5)
    history.record([*lies, *(msgspec.structs.replace(lie, uid=f"{lie.uid} again") for lie in lies)])
    curves = {namespace: known for (namespace, _), known in Curves().learn(history, 5).items()}
    assert set(curves) == {"team", "liar"}, "nothing says which of the two is right for others"
    assert [curves["team"]] == list(before.values())


@pytest.mark.parametrize("ratio", [19.0, 4.0, 1.0 / 19.0])
def test_one_of_three_namespaces_takes_the_curve_away_from_nobody(history: RunStore, runs: list[FinishedRun], ratio: float) -> None:
    for namespace in ("a", "b"):
        history.record([msgspec.structs.replace(run, uid=f"{run.uid} {namespace}", namespace=namespace) for run in runs[::2]])
    before = known_to_all(history)
    slower = {run.uid: (1.0 / ratio, ratio)[place % 2] for place, run in enumerate(runs)}
    changes = [(run, {"uid": f"{run.uid} lie", "measured_seconds": run.predicted_seconds * slower[run.uid]}) for run in runs]
    history.record([msgspec.structs.replace(run, namespace="liar", **change) for run, change in changes])
    after = known_to_all(history)
    assert before.curve is not None
    assert after.curve is not None
    assert after.spread <= 1.2 * before.spread


@pytest.mark.parametrize(("others", "stands"), [((), True), ((3.0,), False), ((1.0, 3.0), True), ((1.0, 3.0, 3.0), False)])
def test_a_curve_stands_only_where_it_predicts_the_runs_of_more_than_half_of_the_namespaces(
    others: tuple[float, ...], stands: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    curve = msgspec.structs.replace(TRUTH, links=tuple(msgspec.structs.replace(link, least_gpus=1, most_gpus=8) for link in TRUTH.links))
    monkeypatch.setattr("hyperscale.planner.cost.steptime_fit.learn", lambda *_: curve)
    monkeypatch.setattr("hyperscale.planner.cost.shared_reach.classes_decided_by", lambda *_: {})
    steps = []
    for namespace, times in zip("abcd", (1.0, *others), strict=False):
        plain = Step((2, 2), 1000.0, 1.0)
        seconds = times * float(predict(curve, [plain])[0])
        steps += [MeasuredStep(f"{namespace}-{number}", replace(plain, step_seconds=seconds), 1.0, namespace) for number in range(12)]
    assert (shared_curve(steps, 12) is not None) == stands


def test_one_run_of_another_namespace_takes_no_curve_from_a_tenant(history: RunStore, runs: list[FinishedRun]) -> None:
    """All of the tenant's runs teach its own curve, also where its 12 newest are on one placement."""
    latest = [msgspec.structs.replace(runs[0], uid=f"latest-{number}", finished_at=5000.0 + number) for number in range(12)]
    history.record([*runs, *latest])
    (before,) = Curves().learn(history, 5).values()
    history.record([msgspec.structs.replace(runs[0], uid="one", namespace="other")])
    taught = Curves().learn(history, 5)
    assert [known for (namespace, _), known in taught.items() if namespace == "team"] == [before]


def test_a_job_goes_by_the_curve_of_its_own_namespace_first(known: Calibration) -> None:
    reader, own = JobReader(), msgspec.structs.replace(known, factor=9.0)
    workload = workload_of(job(4), known.products)
    reader.calibrations = {"GraphSAGE": (Calibration(known.products, 2.0, 0.5, 200),)}
    reader.taught = {("", workload): known, ("team", workload): own}
    assert reader.calibration(job(4), "team") == (own,)
    assert reader.calibration(job(4), "other") == reader.calibration(job(4)) == (known,)


def test_curves_fitted_before_a_fault_are_not_fitted_again(
    history: RunStore, runs: list[FinishedRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    history.record(runs)
    history.record([msgspec.structs.replace(run, uid=f"{run.uid} small", hidden_size=64) for run in runs])
    fits: list[int] = []

    def learn(rows: list[Step], *_: object) -> StepTime:
        fits.append(len(rows))
        if len(fits) == 2:
            raise TimeoutError
        return TRUTH

    monkeypatch.setattr("hyperscale.planner.cost.steptime_fit.learn", learn)
    curves = Curves()
    with pytest.raises(TimeoutError):
        curves.learn(history, 5)
    curves.learn(history, 5)
    assert len(fits) == 3


def test_a_run_of_one_namespace_fits_no_curve_of_another_again(
    history: RunStore, runs: list[FinishedRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    for namespace in ("a", "b"):
        history.record([msgspec.structs.replace(run, uid=f"{run.uid} {namespace}", namespace=namespace) for run in runs])
    curves = Curves()
    curves.learn(history, 5)
    history.record([msgspec.structs.replace(runs[0], uid="one more", namespace="b", finished_at=9000.0)])
    afresh, fits, learn = Curves().learn(history, 5), list[int](), steptime_fit.learn

    def counted(rows: Sequence[Step], plain: Sequence[float], owners: Sequence[str] = ()) -> StepTime | None:
        fits.append(len(rows))
        return learn(rows, plain, owners)

    monkeypatch.setattr(steptime_fit, "learn", counted)
    assert curves.learn(history, 5) == afresh
    assert fits == [len(runs) + 1, 2 * len(runs)], "the namespace's own, and that of all"
