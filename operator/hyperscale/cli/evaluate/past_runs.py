"""Finished runs of the history as the forecast takes them."""

from __future__ import annotations

import json
import math

from hyperscale.cli.exit_codes import InputError
from hyperscale.control.history.run_store import HistoryError, RunStore
from hyperscale.control.history.runs_table import SUCCEEDED, FinishedRun
from hyperscale.evaluate.forecast.forecast_types import ForecastRun, RunFeatures

MOST_RUNS = 10_000
"""Newest ones that a forecast looks at."""


def read_runs(url: str) -> tuple[ForecastRun, ...]:
    """Return the runs that teach: ended well on the plan that they began with, oldest first. Raises InputError."""
    try:
        history = RunStore(url, make=False)
        try:
            runs = history.runs(MOST_RUNS)
        finally:
            history.close()
    except HistoryError as error:
        raise InputError(f"--history: {error}") from None
    taught = [_forecast_run(run) for run in reversed(runs) if _teaches(run)]
    return tuple(run for run in taught if run is not None)


def _teaches(run: FinishedRun) -> bool:
    """As runs_table.TEACHES: ended well on the plan that it began with, on the graph and the way that were predicted."""
    stand_in = '"generated":true' in run.measured or '"hostStaging":true' in run.measured
    return run.phase == SUCCEEDED and run.replans == 0 and run.ratio is not None and not stand_in


def _forecast_run(run: FinishedRun) -> ForecastRun | None:
    """None where the row's figures cannot be those of a run."""
    if run.measured_seconds is None or run.gpus < 1:
        return None
    features = RunFeatures(
        architecture=run.architecture,
        gpu_product=run.products,
        vertices=float(run.vertices),
        edges=float(run.edges),
        feature_size=float(run.feature_size),
        hidden_size=float(run.hidden_size),
        layers=float(run.layers),
        batch_size=math.nan if run.batch_size is None else float(run.batch_size),
    )
    return ForecastRun(
        run=f"{run.namespace}/{run.name} ({run.uid[:8]})",
        features=features,
        ranks=run.gpus,
        hosts=min(_hosts(run.plan), run.gpus),
        measured_seconds=run.measured_seconds,
        physical_seconds=run.predicted_seconds,
    )


def _hosts(plan: str) -> int:
    """Nodes of a plan's JSON; 1 where it names none."""
    try:
        return max(1, len(json.loads(plan)["ranksByNode"]))
    except (ValueError, LookupError, TypeError):
        return 1
