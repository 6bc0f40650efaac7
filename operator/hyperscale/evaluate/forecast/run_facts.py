"""What is known of a finished run beside its figures: model, graph, nodes, outcome, and how wrong its forecast would have been."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hyperscale.evaluate.forecast.epoch_forecast import Forecaster
from hyperscale.evaluate.forecast.forecast_types import ForecastQuestion, ForecastRun
from hyperscale.evaluate.forecast.residual_kernel import rows_of


@dataclass(frozen=True, slots=True)
class RunFacts:
    """One run, finished or planned. Names are compared as text; empty ones are unknown."""

    run: str
    """Its id, as in `ForecastRun`."""
    architecture: str
    model: str
    """Architecture with its layers and widths."""
    data: str
    """The graph, by name or by its sizes."""
    nodes: tuple[str, ...] = ()
    products: tuple[str, ...] = ()
    """Of its GPUs."""
    failed: bool = False
    cause: str = ""
    """Why it failed."""
    ratio: float = math.nan
    """Measured epoch / forecast by all other runs; NaN where it does not teach."""
    missed: bool | None = None
    """Whether the epoch lay outside the 95 % interval of that forecast."""
    new_data_error: float = math.nan
    """|ln(measured / forecast)|, forecast by the runs on other graphs alone."""


def facts_of(run: ForecastRun | ForecastQuestion, nodes: Sequence[str] = ()) -> RunFacts:
    """Return the facts that a run of the forecast holds; a planned one has an empty id."""
    features = run.features
    layers, hidden = _whole(features.layers), _whole(features.hidden_size)
    model = ", ".join(part for part in (features.architecture, layers and f"{layers} layers", hidden and f"{hidden} wide") if part)
    sizes = (_whole(features.vertices), _whole(features.edges), _whole(features.feature_size))
    data = features.dataset or (" ".join(size or "?" for size in sizes) if any(sizes) else "")
    name = run.run if isinstance(run, ForecastRun) else ""
    products = tuple(part for part in features.gpu_product.split("+") if part)
    return RunFacts(name, features.architecture, model, data, tuple(nodes), products)


def judged(facts: Sequence[RunFacts], forecaster: Forecaster) -> list[RunFacts]:
    """Return `facts` with the errors of the forecast at the runs that taught `forecaster`; the others stay as they are."""
    learned = forecaster.learned
    mean, variance = learned.left_out()
    spread = np.sqrt(variance) * forecaster.spread.spread(rows_of(learned.runs, learned.standard).figures)
    errors = learned.residuals - mean
    low, high = forecaster.halves[-1]
    outside = (errors / spread < low) | (errors / spread > high)
    place = {run.run: index for index, run in enumerate(learned.runs)}
    apart = _new_data_errors(forecaster)
    return [
        replace(each, ratio=math.exp(errors[at]), missed=bool(outside[at]), new_data_error=float(apart[at]))
        if (at := place.get(each.run)) is not None
        else each
        for each in facts
    ]


def _new_data_errors(forecaster: Forecaster) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """(n,) of each run, all runs on its graph forgotten; NaN where no other graph is left."""
    learned = forecaster.learned
    graphs = np.array([facts_of(run).data for run in learned.runs])
    errors = np.full(len(graphs), math.nan)
    names = np.unique(graphs)
    for name in names.tolist() if len(names) > 1 else []:
        members = np.flatnonzero(graphs == name)
        errors[members] = np.abs(learned.residuals[members] - learned.group_left_out(members)[0])
    return errors


def _whole(figure: float) -> str:
    """A number as a name; empty where it is unknown."""
    return f"{figure:.0f}" if math.isfinite(figure) else ""
