"""A finished run as it teaches the cost model, and which runs count how much. Without numpy: the operator itself reads this module."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from hyperscale.model.api.measured import LONGEST_SECONDS, SHORTEST_SECONDS
from hyperscale.model.history.corrections import MAX_PARTS, MAX_RATE, MIN_RATE, PartKind, PredictedPart

ABSURD: Final = math.log(20.0)
"""Of ln(measured / predicted): a larger one is no measurement."""
SAME_NAMESPACE: Final = 0.25
"""Correlation of runs of one namespace on one product: its runs count for no more than 4 independent ones (Kish 1965)."""
LEAST_CAPPED: Final = 1.0 / SAME_NAMESPACE
"""Independent runs that a namespace may count for, however few others have: as many as on one product. One run silences no tenant."""
LEAST_PART_SECONDS: Final = 1e-30
"""Of a part that is there at all."""
MOST_TIMED_PRODUCTS: Final = 8
"""Of one run, whose compute seconds count: no run makes the fit long."""
ROUNDED: Final = 1e-3
"""Relative: workers round the seconds of their ranks to 4 digits, so the slowest rank's may be above the epoch."""
PARTS_TOLERANCE: Final = 0.01
"""Relative difference of parts and prediction from which this cost model has not written both."""


class TaughtRun(NamedTuple):
    """What was predicted of a run without corrections, and what was measured."""

    namespace: str
    architecture: str
    parts: tuple[PredictedPart, ...]
    predicted_seconds: float
    """Of one epoch, uncorrected."""
    measured_seconds: float
    compute_seconds: float | None = None
    """As the run measured it, of an epoch on its slowest rank."""
    product_seconds: tuple[tuple[str, float], ...] = ()
    """The same of the slowest rank on each GPU product, where ranks were told apart."""

    @property
    def products(self) -> tuple[str, ...]:
        """The GPU products that it computed on, sorted."""
        return tuple(sorted(part.name for part in self.parts if part.kind is PartKind.COMPUTE))

    @property
    def parts_seconds(self) -> float:
        """Of the epoch by its parts: the slowest product with what it exchanges, and what is fixed."""
        slowest = max((part.seconds + part.exchange_seconds for part in self.parts if part.kind is PartKind.COMPUTE), default=0.0)
        return slowest + self.seconds(PartKind.OVERHEAD)

    def seconds(self, kind: PartKind) -> float:
        """Of all parts of one kind together; of Compute the slowest."""
        figures = [part.seconds for part in self.parts if part.kind is kind]
        return max(figures, default=0.0) if kind is PartKind.COMPUTE else math.fsum(figures)


def usable(run: TaughtRun) -> bool:
    """Return whether the figures of a run can be those of a run, and its parts those of its prediction."""
    if not 0 < len(run.parts) <= MAX_PARTS or not all(map(_plausible, run.parts)):
        return False
    if not all(SHORTEST_SECONDS <= seconds <= LONGEST_SECONDS for seconds in (run.predicted_seconds, run.measured_seconds)):
        return False
    whole = abs(run.parts_seconds - run.predicted_seconds) <= PARTS_TOLERANCE * run.predicted_seconds
    return whole and abs(math.log(run.measured_seconds / run.predicted_seconds)) <= ABSURD


def _plausible(part: PredictedPart) -> bool:
    """Whether seconds are none or those of a part, and a rate is none or that of a GPU: ratios of such figures stay finite."""
    seconds = (part.seconds, part.exchange_seconds)
    return (part.rate == 0.0 or MIN_RATE <= part.rate <= MAX_RATE) and all(
        figure == 0.0 or LEAST_PART_SECONDS <= figure <= LONGEST_SECONDS for figure in seconds
    )


def measured_computes(run: TaughtRun) -> list[tuple[str, float]]:
    """Return the compute seconds that a run measured by GPU product, where they can be right; the slowest rank's are under "".

    Above 0, no more than the epoch, and no further from the prediction than its epoch may be. What each product took says more than what
    the slowest rank did, so that alone counts where it is there.
    """
    overhead = run.seconds(PartKind.OVERHEAD)
    predicted = {part.name: part.seconds + overhead for part in run.parts if part.kind is PartKind.COMPUTE}
    by_product = [(name, seconds) for name, seconds in run.product_seconds if _can_be(run, seconds, predicted.get(name, 0.0))]
    if by_product or run.compute_seconds is None:
        return by_product[:MOST_TIMED_PRODUCTS]
    slowest = run.seconds(PartKind.COMPUTE) + overhead
    return [("", run.compute_seconds)] if _can_be(run, run.compute_seconds, slowest) else []


def _can_be(run: TaughtRun, seconds: float, predicted: float) -> bool:
    """Whether seconds can be compute seconds of a run."""
    possible = SHORTEST_SECONDS <= seconds <= run.measured_seconds * (1.0 + ROUNDED)
    return possible and predicted > 0.0 and abs(math.log(seconds / predicted)) <= ABSURD


def weights(runs: Sequence[TaughtRun]) -> list[float]:
    """Return how many independent runs each run counts for, at most 1.

    Where several namespaces have runs, n of one namespace on one product count n / (1 + (n - 1) SAME_NAMESPACE) together, in whatever
    mixes. No namespace counts for more than all others together, or for LEAST_CAPPED where that is more.
    """
    if len({run.namespace for run in runs}) <= 1:
        return [1.0] * len(runs)
    counts = Counter((run.namespace, product) for run in runs for product in set(run.products) or {""})
    most = [max(counts[run.namespace, product] for product in run.products or ("",)) for run in runs]
    alike = [1.0 / (1.0 + (count - 1) * SAME_NAMESPACE) for count in most]
    share = _shares(runs, alike)
    return [share[run.namespace] * weight for run, weight in zip(runs, alike, strict=True)]


def _shares(runs: Sequence[TaughtRun], counted: Sequence[float]) -> dict[str, float]:
    """By namespace, the part of its weight that it keeps beside the others'."""
    sums: dict[str, list[float]] = {}
    for run, weight in zip(runs, counted, strict=True):
        sums.setdefault(run.namespace, []).append(weight)
    totals = {namespace: math.fsum(weights) for namespace, weights in sums.items()}
    every = math.fsum(totals.values())
    return {namespace: min(1.0, max(LEAST_CAPPED, every - total) / total) for namespace, total in totals.items()}
