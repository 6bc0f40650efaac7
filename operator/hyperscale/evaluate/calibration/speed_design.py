"""Finished runs as arrays for the fit of factors: seconds by part, and the logarithms that they should have had."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from hyperscale.evaluate.calibration.predicted_rates import middle_rates, rate_ratio
from hyperscale.evaluate.calibration.slower_card import slower_cards
from hyperscale.evaluate.calibration.taught_run import TaughtRun, measured_computes, weights
from hyperscale.model.graph import FloatArray, IntArray
from hyperscale.model.history.corrections import MAX_FACTOR, MAX_NAMED, PartKind, PredictedPart

PRIORS: Final = {
    PartKind.OVERHEAD: 0.7,
    PartKind.COMPUTE: 0.4,
    PartKind.LINK: 0.4,
    PartKind.INSIDE: 0.4,
    PartKind.CARD: 0.25,
}
"""Standard deviations of ln(factor) before any run. Overhead stands for the architecture's own factor of its arithmetic.

A level that all products share is an architecture's before it is theirs, so that it does not correct other architectures.
"""
CORRELATION: Final = 0.8
"""Of the errors of an epoch and of the compute seconds that the same run measured: what disturbs a run delays both."""
OWN_ERROR: Final = math.sqrt(1.0 - CORRELATION**2)
"""Standard deviation of what is left of the latter error once the former is known."""

TINY: Final = 1e-12
"""Seconds: no logarithm is taken of less."""

Key = tuple[PartKind, str]


class SlopesBeside(NamedTuple):
    """How observations depend on the factors beside a faster product."""

    at: int
    """The product's place."""
    observations: IntArray
    """(k,) those of runs with the product."""
    slopes: FloatArray
    """(k, f)"""


@dataclass(frozen=True)
class Design:
    """r runs, f factors, o observations: the epochs of all runs, then the compute seconds that they measured."""

    runs: int
    keys: tuple[Key, ...]
    """(f,)"""
    prior: FloatArray
    """(f,) standard deviations."""
    counts: IntArray
    """(f,) runs with such a part."""
    rates: dict[str, float]
    """FLOP/s that products' factors refer to."""
    arithmetic: FloatArray
    """(r, f) compute seconds of products."""
    network: FloatArray
    """(r, f) seconds of tiers and insides."""
    uncorrected: FloatArray
    """(r,) exchange that no factor corrects."""
    exchanged: FloatArray
    """(r, f) what a product's slowest worker exchanges, over all seconds of tiers, insides and what no factor corrects."""
    carried: FloatArray
    """(r, f) part of the links' seconds that would grow if only this card were slower."""
    architecture: IntArray
    """(r,) place of its own factor."""
    overhead: FloatArray
    """(r,)"""
    observed: IntArray
    """(o,) run of each observation."""
    timed: IntArray
    """(o - r,) place of the product whose compute seconds each later observation is; -1 for the slowest one."""
    logarithms: FloatArray
    """(o,) ln(measured seconds)."""
    weight: FloatArray
    """(o,)"""

    @property
    def limit(self) -> FloatArray:
        """(f,) largest size of ln(factor): what the planner applies. Of arithmetic it bounds the sum of two, so that none is here."""
        exchange = (PartKind.LINK, PartKind.INSIDE, PartKind.CARD)
        return np.array([math.log(MAX_FACTOR) if kind in exchange else math.inf for kind, _ in self.keys])

    @property
    def levels(self) -> IntArray:
        """Places of the architectures' own factors."""
        return np.array([at for _, at in self.places(PartKind.OVERHEAD)], dtype=np.int64)

    def place(self, kind: PartKind, name: str) -> int | None:
        """Where a factor stands; None where no run has it."""
        return self.keys.index((kind, name)) if (kind, name) in self.keys else None

    def places(self, kind: PartKind) -> list[tuple[str, int]]:
        """Names of one kind and where their factors stand."""
        return [(name, at) for at, (each, name) in enumerate(self.keys) if each is kind]

    def prior_of(self, kind: PartKind) -> float:
        """Standard deviation of ln(factor) where no run has it."""
        return PRIORS[kind]

    def residuals(self, mean: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(o,) ln(measured / predicted) at `mean` (f,), and (o, f) how the logarithm predicted depends on each factor.

        Of compute seconds what the error of their run's epoch does not tell, so that all observations err independently.
        """
        return self._observed(self._by_product(mean), *self._exchange(mean))

    def _by_product(self, mean: FloatArray) -> FloatArray:
        """(r, f) compute seconds of products with their factors."""
        return self.arithmetic * np.exp(mean)[None, :] * np.exp(mean[self.architecture])[:, None]

    def _exchange(self, mean: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(r,) seconds of all exchange of a run, and (r, f) how they depend on the logarithm of each factor."""
        links = np.array([kind is PartKind.LINK for kind, _ in self.keys])
        by_card, of_cards = self._card_waits(mean)
        exchange = self.network * np.exp(mean)[None, :] * np.where(links[None, :], by_card[:, None], 1.0)
        return exchange.sum(axis=1) + self.uncorrected, exchange + of_cards * exchange[:, links].sum(axis=1)[:, None]

    def _observed(self, by_product: FloatArray, exchange: FloatArray, exchange_slope: FloatArray) -> tuple[FloatArray, FloatArray]:
        """What `residuals` returns, from (r, f) compute seconds of products and from all exchange."""
        runs = np.arange(self.runs)
        waits = self.exchanged * exchange[:, None]
        slowest = np.where(self.arithmetic > 0.0, by_product + waits, -1.0).argmax(axis=1)
        slope = exchange_slope * self.exchanged[runs, slowest][:, None]
        slope += self._arithmetic_slope(by_product, runs, slowest)
        epoch = np.maximum(by_product[runs, slowest] + waits[runs, slowest] + self.overhead, TINY)
        measured = self.observed[self.runs :]
        timed = np.where(self.timed >= 0, self.timed, by_product.argmax(axis=1)[measured])
        alone = np.maximum(by_product[measured, timed] + self.overhead[measured], TINY)
        predicted = np.concatenate([epoch, alone])
        slopes = np.concatenate([slope, self._arithmetic_slope(by_product, measured, timed)]) / predicted[:, None]
        return self._independent(self.logarithms - np.log(predicted)), self._independent(slopes)

    def _card_waits(self, mean: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(r,) what cards multiply the links' seconds with, and (r, f) its relative derivatives."""
        cards = [at for _, at in self.places(PartKind.CARD)]
        slope = np.zeros_like(self.carried)
        if not cards:
            return np.ones(self.runs), slope
        wait, slope[:, cards] = slower_cards(self.carried[:, cards], mean[cards])
        return wait, slope

    def slopes_beside(self, mean: FloatArray, step: float) -> Iterator[SlopesBeside]:
        """Slopes where each product's factor is e^`step` smaller; its own is the secant to there.

        A product that keeps pace with another one is no more than a bound: a faster one would have waited. Its slope is 0 then, while
        the derivative at equal seconds is 1. Where it set the pace, another one does then, so that slightly slower ones make up for a
        much faster one. Only the observations of runs with the product differ from `residuals`.
        """
        by_product, (exchange, exchange_slope) = self._by_product(mean), self._exchange(mean)
        residual = self._observed(by_product, exchange, exchange_slope)[0]
        for _, at in self.places(PartKind.COMPUTE):
            rows = np.flatnonzero(self.arithmetic[:, at] > 0.0)
            part, observations = self.with_runs(rows)
            faster = by_product[rows]
            faster[:, at] *= math.exp(-step)
            waiting, slopes = part._observed(faster, exchange[rows], exchange_slope[rows])
            slopes[:, at] = (waiting - residual[observations]) / step
            yield SlopesBeside(at, observations, slopes)

    def with_runs(self, rows: IntArray) -> tuple[Design, IntArray]:
        """The design of these runs only (k,), rising, and their observations among all."""
        observations = np.flatnonzero(np.isin(self.observed, rows))
        arrays = {name: getattr(self, name)[rows] for name in ("arithmetic", "network", "uncorrected", "exchanged", "carried", "overhead")}
        part = replace(
            self,
            runs=len(rows),
            **arrays,
            architecture=self.architecture[rows],
            observed=np.searchsorted(rows, self.observed[observations]),
            timed=self.timed[observations[len(rows) :] - self.runs],
            logarithms=self.logarithms[observations],
            weight=self.weight[observations],
        )
        return part, observations

    def _independent(self, figures: FloatArray) -> FloatArray:
        """Of observations (o,) or (o, f), those of compute seconds less what those of the epochs tell about them."""
        epochs = figures[self.observed[self.runs :]]
        independent: FloatArray = np.concatenate([figures[: self.runs], (figures[self.runs :] - CORRELATION * epochs) / OWN_ERROR])
        return independent

    def _arithmetic_slope(self, by_product: FloatArray, runs: IntArray, products: IntArray) -> FloatArray:
        """(n, f) how seconds of `products` (n,) in `runs` (n,) depend on the logarithms of their factors and the architectures'."""
        at, slope = np.arange(len(runs)), np.zeros((len(runs), by_product.shape[1]))
        seconds = by_product[runs, products]
        slope[at, products] += seconds
        slope[at, self.architecture[runs]] += seconds
        return slope


def design_of(runs: Sequence[TaughtRun]) -> Design:
    """Return the arrays of usable runs, oldest first."""
    keys, counts, having = _keys(runs), weights(runs), _counts(runs)
    place = {key: at for at, key in enumerate(keys)}
    rates = middle_rates(runs, counts)
    seconds = _seconds(runs, place, rates)
    timed = _timed(runs, place)
    return Design(
        runs=len(runs),
        keys=keys,
        prior=np.array([PRIORS[kind] for kind, _ in keys]),
        counts=np.array([having[key] for key in keys], dtype=np.int64),
        rates=rates,
        arithmetic=seconds.arithmetic,
        network=seconds.network,
        uncorrected=_seconds_of(PartKind.UNCORRECTED, runs),
        exchanged=seconds.exchanged,
        carried=seconds.carried,
        architecture=np.array([place[PartKind.OVERHEAD, run.architecture] for run in runs], dtype=np.int64),
        overhead=_seconds_of(PartKind.OVERHEAD, runs),
        observed=np.array([*range(len(runs)), *(row for row, _, _ in timed)], dtype=np.int64),
        timed=np.array([product for _, product, _ in timed], dtype=np.int64),
        logarithms=np.log([*(run.measured_seconds for run in runs), *(measured for _, _, measured in timed)]),
        weight=np.array([*counts, *(counts[row] for row, _, _ in timed)]),
    )


def _timed(runs: Sequence[TaughtRun], place: Mapping[Key, int]) -> list[tuple[int, int, float]]:
    """Run, place of the product (-1 for the slowest one) and measured seconds of each figure of compute seconds."""
    return [
        (row, place[PartKind.COMPUTE, product] if product else -1, measured)
        for row, run in enumerate(runs)
        for product, measured in measured_computes(run)
        if not product or (PartKind.COMPUTE, product) in place
    ]


def _seconds_of(kind: PartKind, runs: Sequence[TaughtRun]) -> FloatArray:
    """(r,) seconds of all parts of one kind."""
    return np.array([run.seconds(kind) for run in runs], dtype=np.float64)


class _Seconds(NamedTuple):
    """Arrays of `Design` while they are filled, each (r, f)."""

    arithmetic: FloatArray
    exchanged: FloatArray
    network: FloatArray
    carried: FloatArray

    def take(self, row: int, at: int, part: PredictedPart, rate: float, of_links: float, whole: float) -> None:
        """Enter a part of a run; rate: that its product's factor refers to; of_links, whole: seconds of its links, of all exchange."""
        if part.kind is PartKind.COMPUTE:
            self.arithmetic[row, at] = part.seconds * rate_ratio(part.rate, rate)
            self.exchanged[row, at] = part.exchange_seconds / whole if whole > 0.0 else 0.0
        elif part.kind is PartKind.CARD:
            self.carried[row, at] = min(1.0, part.seconds / of_links) if of_links > 0.0 else 0.0
        else:
            self.network[row, at] = part.seconds


def _seconds(runs: Sequence[TaughtRun], place: Mapping[Key, int], rates: Mapping[str, float]) -> _Seconds:
    seconds = _Seconds(*(np.zeros((len(runs), len(place))) for _ in range(4)))
    for row, run in enumerate(runs):
        of_links = run.seconds(PartKind.LINK)
        whole = of_links + run.seconds(PartKind.INSIDE) + run.seconds(PartKind.UNCORRECTED)
        for part in run.parts:
            if part.kind is not PartKind.OVERHEAD and (part.kind, part.name) in place:
                seconds.take(row, place[part.kind, part.name], part, rates.get(part.name, 0.0), of_links, whole)
    return seconds


def _keys(runs: Sequence[TaughtRun]) -> tuple[Key, ...]:
    """Factors of the runs, sorted; of each kind those with most runs."""
    by_kind: dict[PartKind, Counter[str]] = {kind: Counter() for kind in PRIORS}
    for run in runs:
        by_kind[PartKind.OVERHEAD][run.architecture] += 1
        for part in run.parts:
            if part.kind not in (PartKind.OVERHEAD, PartKind.UNCORRECTED):
                by_kind[part.kind][part.name] += 1
    kept = {kind: sorted(names, key=lambda name: (-names[name], name))[:MAX_NAMED] for kind, names in by_kind.items()}
    return tuple((kind, name) for kind, names in kept.items() for name in sorted(names))


def _counts(runs: Sequence[TaughtRun]) -> Counter[Key]:
    """Runs with each part; of Overhead those of each architecture."""
    counts = Counter((PartKind.OVERHEAD, run.architecture) for run in runs)
    for run in runs:
        counts.update({(part.kind, part.name) for part in run.parts if part.kind is not PartKind.OVERHEAD})
    return counts
