"""Finished runs of the history as the evaluation takes them."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import NamedTuple

from hyperscale.cli.exit_codes import InputError
from hyperscale.control.history.run_store import HistoryError, RunStore
from hyperscale.control.history.runs_table import SUCCEEDED, FinishedRun
from hyperscale.evaluate.forecast.forecast_types import ForecastQuestion, ForecastRun, RunFeatures
from hyperscale.evaluate.forecast.run_facts import RunFacts, facts_of

MOST_RUNS = 10_000
"""Newest ones that a forecast looks at."""


class PastRuns(NamedTuple):
    """Of one history, oldest first."""

    taught: tuple[ForecastRun, ...]
    """Ended well on the plan that they began with."""
    facts: tuple[RunFacts, ...]
    """Of all, failed ones too."""


def read_runs(url: str) -> PastRuns:
    """Return the newest finished runs. Raises InputError."""
    try:
        history = RunStore(url, make=False)
        try:
            runs = history.runs(MOST_RUNS)[::-1]
        finally:
            history.close()
    except HistoryError as error:
        raise InputError(f"--history: {error}") from None
    taught = [_forecast_run(run) for run in runs if _teaches(run)]
    return PastRuns(tuple(run for run in taught if run is not None), tuple(_facts(run) for run in runs))


def _facts(run: FinishedRun) -> RunFacts:
    """History keeps no cause of a failure, only whether the plan had changed before."""
    features, failed = _features(run), run.phase != SUCCEEDED
    asked = ForecastQuestion(features, max(1, run.gpus), 1, run.predicted_seconds)
    cause = f"after {run.replans} {'change' if run.replans == 1 else 'changes'} of its plan" if failed and run.replans > 0 else ""
    return replace(facts_of(asked, _nodes(run.plan)), run=_run_id(run), failed=failed, cause=cause)


def _run_id(run: FinishedRun) -> str:
    return f"{run.namespace}/{run.name} ({run.uid[:8]})"


def _teaches(run: FinishedRun) -> bool:
    """As runs_table.TEACHES: ended well on the plan that it began with, on the graph and the way that were predicted."""
    stand_in = '"generated":true' in run.measured or '"hostStaging":true' in run.measured
    return run.phase == SUCCEEDED and run.replans == 0 and run.ratio is not None and not stand_in


def _forecast_run(run: FinishedRun) -> ForecastRun | None:
    """None where the row's figures cannot be those of a run."""
    if run.measured_seconds is None or run.gpus < 1:
        return None
    return ForecastRun(
        run=_run_id(run),
        features=_features(run),
        ranks=run.gpus,
        hosts=min(max(1, len(_nodes(run.plan))), run.gpus),
        measured_seconds=run.measured_seconds,
        physical_seconds=run.predicted_seconds,
    )


def _features(run: FinishedRun) -> RunFeatures:
    return RunFeatures(
        architecture=run.architecture,
        gpu_product=run.products,
        vertices=float(run.vertices),
        edges=float(run.edges),
        feature_size=float(run.feature_size),
        hidden_size=float(run.hidden_size),
        layers=float(run.layers),
        batch_size=math.nan if run.batch_size is None else float(run.batch_size),
    )


def _nodes(plan: str) -> tuple[str, ...]:
    """Names of the nodes in a plan's JSON; empty where it names none."""
    try:
        return tuple(sorted(map(str, json.loads(plan)["ranksByNode"])))
    except (ValueError, LookupError, TypeError):
        return ()
