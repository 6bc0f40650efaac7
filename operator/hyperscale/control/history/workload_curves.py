"""Step time curves of the workloads in history: of all namespaces' runs where they agree, and of a namespace's own."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from hyperscale.control.history.calibration import MeasuredStep, calibrate, heard_steps
from hyperscale.model.history.step_curves import CurveKey, StepTime, Workload
from hyperscale.model.plan import Calibration

if TYPE_CHECKING:
    from hyperscale.control.history.run_store import RunStore

LARGE_PART: Final = 0.25
"""Of the runs, from which a namespace alone may bend a curve so that it predicts none of them."""
MOST_LEFT_OUT: Final = 4
"""Namespaces that are left out in turn: a curve takes the time of some fits."""


class _OwnCurve(NamedTuple):
    """What a namespace's own runs of a workload taught."""

    runs: tuple[MeasuredStep, ...]
    curve: StepTime | None
    """None where they teach none."""


class _Fitted(NamedTuple):
    """What the runs of one workload taught."""

    runs: tuple[MeasuredStep, ...]
    """All, newest first."""
    own: dict[str, _OwnCurve]
    """By namespace, of those with enough runs."""
    calibrations: dict[str, Calibration]
    """By namespace, "" for that of all; with a curve each."""


class Curves:
    """Step time curves of the workloads in history; one is fitted again only where its runs have changed. Blocking: call it in a thread."""

    def __init__(self) -> None:
        self._known: dict[Workload, _Fitted] = {}

    def learn(self, history: RunStore, least: int, wanted: Collection[Workload] | None = None) -> dict[CurveKey, Calibration]:
        """Of those that taught a curve which can be trusted, with the factor of its runs for what it does not reach.

        wanted: as in `RunStore.steps`. Raises HistoryError.
        """
        from hyperscale.planner.cost.steptime_fit import LEAST_ROWS  # numpy, in an operator whose planners have a process of their own

        fitted, least = {}, max(least, LEAST_ROWS)
        for workload, runs in history.steps(least, wanted).items():
            last_fit = self._known.get(workload)
            if last_fit is None or last_fit.runs != runs:
                own = _own_curves(runs, least, last_fit.own if last_fit is not None else {})
                last_fit = _Fitted(runs, own, _calibrations(workload, runs, least, own))
                self._known[workload] = last_fit  # at once: after a deadline the next try continues from here
            fitted[workload] = last_fit
        self._known = fitted
        return {
            (namespace, workload): calibration for workload, each in fitted.items() for namespace, calibration in each.calibrations.items()
        }


def _calibrations(workload: Workload, runs: Sequence[MeasuredStep], least: int, own: Mapping[str, _OwnCurve]) -> dict[str, Calibration]:
    curves = {namespace: (each.runs, each.curve) for namespace, each in own.items() if each.curve is not None}
    if len({run.namespace for run in runs}) > 1 and (curve := shared_curve(runs, least)) is not None:
        curves[""] = heard_steps(runs, least), curve
    return {
        namespace: replace(
            calibrate(workload.products, [run.ratio for run in reversed(steps)], [run.namespace for run in reversed(steps)]), curve=curve
        )
        for namespace, (steps, curve) in curves.items()
    }


def shared_curve(runs: Sequence[MeasuredStep], least: int) -> StepTime | None:
    """Return the curve of a workload's runs, newest first, which no single namespace of several decides; None where there is none.

    Two namespaces measured what it reaches, and each shape and placement whose effect it has. It predicts the runs of more than half of
    the namespaces. Where all runs together teach none, each namespace with a large part of them is left out in its turn, as long as two
    others remain; where a namespace decides a part, each that does so. Else the curve does not reach that part.
    """
    curve, deciding = _attempt(heard_steps(runs, least), runs)
    if curve is not None and not deciding:
        return curve
    shrunk = [curve]
    for rest in _rests(runs, deciding):
        curve, deciding = _attempt(heard_steps(rest, least), runs)
        if curve is not None and not deciding:
            return curve
        shrunk.append(curve)
    return next(filter(None, shrunk), None)


def _rests(runs: Sequence[MeasuredStep], deciding: Sequence[str]) -> list[list[MeasuredStep]]:
    """The runs without one of the namespaces that decide, or else of those with a large part; none where fewer than two would remain."""
    counts = Counter(run.namespace for run in runs)
    large = [namespace for namespace, count in counts.most_common() if count >= LARGE_PART * len(runs)]
    left_out = (deciding or large)[:MOST_LEFT_OUT] if len(counts) > 2 else []
    return [[run for run in runs if run.namespace != namespace] for namespace in left_out]


def _attempt(steps: Sequence[MeasuredStep], runs: Sequence[MeasuredStep]) -> tuple[StepTime | None, list[str]]:
    """The curve of these steps without the parts that one namespace decides, and the namespaces that decide any; None without a curve."""
    from hyperscale.planner.cost.shared_reach import classes_decided_by, without_classes
    from hyperscale.planner.cost.steptime_fit import learn  # numpy, in an operator whose planners have a process of their own

    rows, namespaces = [run.step for run in steps], [run.namespace for run in steps]
    curve = learn(rows, [run.predicted_seconds for run in steps], namespaces)
    if curve is None:
        return None, []
    decided = classes_decided_by(curve, rows, namespaces) if len(set(namespaces)) > 1 else {}
    curve = without_classes(curve, frozenset().union(*decided.values()))
    return (curve if _agree(curve, runs) else None), list(decided)


def _own_curves(runs: Sequence[MeasuredStep], least: int, before: Mapping[str, _OwnCurve]) -> dict[str, _OwnCurve]:
    """Return by namespace, of those with `least` runs, what its own runs teach; `before` is kept where these are the same.

    With many namespaces these fits take most of the time, and a new run is one of a single namespace.
    """
    from hyperscale.planner.cost.steptime_fit import learn

    counts = Counter(run.namespace for run in runs)
    curves = {}
    for namespace, count in sorted(counts.items()):
        if count >= least:
            own = tuple(run for run in runs if run.namespace == namespace)
            fitted = before.get(namespace)
            if fitted is None or fitted.runs != own:
                fitted = _OwnCurve(own, learn([run.step for run in own], [run.predicted_seconds for run in own]))
            curves[namespace] = fitted
    return curves


def _agree(curve: StepTime, runs: Sequence[MeasuredStep]) -> bool:
    """Whether it predicts the runs of more than half of the namespaces within its reach."""
    import numpy as np

    from hyperscale.planner.cost.steptime import predict
    from hyperscale.planner.cost.steptime_fit import LARGEST_ERROR

    errors: dict[str, list[float]] = {}
    within = [run for run in runs if curve.reaches(run.step.gpus)]
    if not within:
        return False
    measured = np.log([run.step.step_seconds for run in within])
    for run, error in zip(within, np.abs(np.log(predict(curve, [run.step for run in within])) - measured).tolist(), strict=True):
        errors.setdefault(run.namespace, []).append(error)
    return 2 * sum(statistics.median(each) <= LARGEST_ERROR for each in errors.values()) > len(errors)
