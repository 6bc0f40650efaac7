"""Measured tables as histories: some runs of one workload have ended, how well are later ones on any placement predicted.

As the operator does it: the curve of those runs where they show that it can be trusted and as far as it reaches, else one factor on a
cost model. The cost model is as good as it can be, a ring without overlap fitted to the very same runs: the product's own, from labels
and probes, is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from benchmarks import common
from benchmarks.common import Row
from benchmarks.peers import steptime as peers
from hyperscale.model.history.step_curves import Step
from hyperscale.planner.cost.steptime import predict
from hyperscale.planner.cost.steptime_fit import learn

RUNS: Final = 24
LEAST_ASKED: Final = 20
"""Rows of a batch beside the history's, below which the batch is left out."""


@dataclass(frozen=True)
class Outcome:
    """Of one history."""

    ours: float
    """Mean of |predicted / measured - 1| over the later runs."""
    factor: float
    """The same by the factor alone."""
    reached: float
    """Part of the later runs that the curve predicted; 0 where it was not trusted."""


def outcome(known: Sequence[Step], asked: Sequence[Step]) -> Outcome:
    """Later runs `asked` by what `known` teaches."""
    plain = peers.ring(known, [*known, *asked])
    past, later = plain[: len(known)], plain[len(known) :]
    measured = np.array([row.step_seconds for row in asked])
    by_factor = later * np.median([row.step_seconds for row in known] / past)
    curve = learn(known, past.tolist())
    reached = np.array([curve is not None and curve.reaches(row.gpus) for row in asked])
    predicted = np.where(reached, predict(curve, asked), by_factor) if curve is not None else by_factor
    return Outcome(
        float(np.mean(np.abs(predicted / measured - 1.0))), float(np.mean(np.abs(by_factor / measured - 1.0))), float(reached.mean())
    )


def outcomes_of(steps: Sequence[Step], seed: int) -> list[Outcome]:
    """Of each batch with enough rows: as many as `RUNS` say, drawn with the seed, teach, and the others are asked."""
    outcomes = []
    for batch in sorted({step.batch for step in steps}):
        same = [step for step in steps if step.batch == batch]
        if len(same) >= RUNS + LEAST_ASKED:
            drawn = [same[index] for index in np.random.default_rng(seed).permutation(len(same)).tolist()]
            outcomes.append(outcome(drawn[:RUNS], drawn[RUNS:]))
    return outcomes


def rows(benchmark: str, name: str, steps: Sequence[Step], seeds: Sequence[int]) -> list[Row]:
    """Means over the batches of a table, each a workload of its own; the goal is to be no worse than the factor."""
    case, found = f"{name}, after {RUNS} runs", []
    printed: list[Row] = []
    for seed in seeds:
        outcomes = outcomes_of(steps, seed)
        if not outcomes:
            continue
        ours, factor, reached = (float(np.mean([getattr(one, figure) for one in outcomes])) for figure in ("ours", "factor", "reached"))
        found.append(ours / factor)
        printed.append(Row(benchmark, case, "hyperscale, curve or factor", "error", ours, "part", seed))
        printed.append(Row(benchmark, case, "one factor", "error", factor, "part", seed))
        printed.append(Row(benchmark, case, "hyperscale, curve or factor", "by curve", reached, "part", seed))
    if found:
        printed.append(common.goal(benchmark, f"{case}: error / that of one factor", "hyperscale", float(np.mean(found)), 1.0, ""))
    return printed
