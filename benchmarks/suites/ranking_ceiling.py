"""How well true values would rank a table's new placements: tables with the table's own noise around a truth that is given.

A pair counts as clear by its measured times, which have noise. Where placements differ little, many clear pairs are noise in which no
prediction can be right but by chance. So the true values themselves rank clear pairs at less than 1, and how far is simulated:

  smooth   the truth is the product's curve with what shapes say, fitted to the whole table
  rough    besides, each shape is off by as much as the table lets shapes differ at all: their differences less what noise explains

The noise of a placement is drawn whole, over all batches, from the placements with permutations: slow hosts stay slow at every batch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec
import numpy as np

from hyperscale.model.history.step_curves import Step
from hyperscale.planner.cost.steptime import predict
from hyperscale.planner.cost.steptime_fit import fit

TRUTHS: Final = ("smooth", "rough")
DRAWS: Final = 3
"""Tables drawn for each seed, over which figures are averaged: one draw is off by 0.05."""

FloatArray = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Simulation:
    """A table's shapes (m), batches (b) and the figures that tables like it are drawn from."""

    steps: tuple[Step, ...]
    truth: dict[tuple[tuple[int, ...], float], float]
    """ln(seconds) by shape and batch."""
    noise: FloatArray
    """(v, b) ln(seconds) of placements with permutations, less the mean of their shape; NaN where not measured."""
    batches: tuple[float, ...]

    def true_seconds(self, rows: Sequence[Step]) -> FloatArray:
        """(n,) what rows would take without noise."""
        return np.exp([self.truth[row.counts, row.batch] for row in rows])

    def drawn(self, seed: int) -> list[Step]:
        """The table, measured again."""
        rng = np.random.default_rng(seed)
        column = {batch: index for index, batch in enumerate(self.batches)}
        own: dict[tuple[int, ...], FloatArray] = {}
        for gpus in sorted({step.gpus for step in self.steps}):
            noise = self.noise[rng.integers(len(self.noise))]
            spare = self.noise[rng.integers(len(self.noise), size=len(self.noise))]
            first = np.argmax(np.isfinite(spare), axis=0)
            own[gpus] = np.where(np.isfinite(noise), noise, np.nan_to_num(spare[first, np.arange(len(self.batches))]))
        off = [own[step.gpus][column[step.batch]] for step in self.steps]
        seconds = self.true_seconds(self.steps) * np.exp(off)
        return [replace(step, step_seconds=float(value)) for step, value in zip(self.steps, seconds, strict=True)]


def simulation(steps: Sequence[Step], truth: str) -> Simulation | None:
    """Return what tables like `steps` are drawn from, the truth one of TRUTHS; None where no placement has permutations."""
    batches = tuple(sorted({step.batch for step in steps}))
    curve = msgspec.structs.replace(fit(steps), effects={})
    base = dict(zip([(step.counts, step.batch) for step in steps], np.log(predict(curve, steps)).tolist(), strict=True))
    shapes, groups = _errors(steps, base, batches)
    several = [group for group in groups if len(group) > 1]
    if not several:
        return None
    noise = np.concatenate([(group - _mean(group)) * np.sqrt(len(group) / (len(group) - 1)) for group in several])
    if truth == TRUTHS[1]:
        means = np.array([_mean(group) for group in groups])
        kept = means * np.sqrt(_real_part(means, noise, groups))
        number = {shape: index for index, shape in enumerate(shapes)}
        base = {(shape, batch): value + kept[number[shape], batches.index(batch)] for (shape, batch), value in base.items()}
    return Simulation(tuple(steps), base, noise, batches)


def _errors(
    steps: Sequence[Step], base: dict[tuple[tuple[int, ...], float], float], batches: Sequence[float]
) -> tuple[list[tuple[int, ...]], list[FloatArray]]:
    """Shapes, and for each (p, b) ln(measured / base) of its placements; NaN where not measured."""
    off: dict[tuple[int, ...], dict[tuple[int, ...], FloatArray]] = defaultdict(dict)
    for step in steps:
        errors = off[step.counts].setdefault(step.gpus, np.full(len(batches), np.nan))
        errors[batches.index(step.batch)] = np.log(step.step_seconds) - base[step.counts, step.batch]
    return list(off), [np.array(list(placements.values())) for placements in off.values()]


def _mean(group: FloatArray) -> FloatArray:
    """(b,) over a shape's placements (p, b); 0 where none was measured."""
    measured = np.isfinite(group)
    mean: FloatArray = np.nan_to_num(group).sum(axis=0) / np.maximum(measured.sum(axis=0), 1)
    return mean


def _real_part(means: FloatArray, noise: FloatArray, groups: Sequence[FloatArray]) -> FloatArray:
    """(b,) share of the variance between shapes (m, b) that noise does not explain."""
    chance = np.nan_to_num(noise**2).sum(axis=0) / np.maximum(np.isfinite(noise).sum(axis=0), 1)
    explained = chance * np.mean([1.0 / len(group) for group in groups])
    share: FloatArray = (1.0 - explained / np.maximum((means**2).mean(axis=0), 1e-12)).clip(0.0, 1.0)
    return share
