"""Two policies on the same streams: ratios, their spread, and whether chance explains them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from scipy.stats import wilcoxon

from hyperscale.learn.streams.scenario import FAMILIES, Conditions
from hyperscale.learn.streams.simulator import Policy, Simulator, StreamOutcome
from hyperscale.model.graph import FloatArray

LOADS: Final = (0.5, 0.7, 0.9, 1.1, 1.3)
DRAWS: Final = 2000
"""Of the bootstrap."""


class Compared(NamedTuple):
    """One figure of one policy over the same figure of another, stream by stream."""

    ratio: float
    """Geometric mean; below 1 the first is better."""
    low: float
    """95 % confidence interval of the ratio, bootstrap over streams."""
    high: float
    p: float
    """Wilcoxon's signed ranks, two-sided."""
    wins: float
    """Part of the streams where the first is better."""
    worst: float
    """Largest ratio."""


def compare(first: Sequence[float], second: Sequence[float]) -> Compared:
    """Paired figures, less is better; at least two streams."""
    logs = np.log(np.asarray(first, dtype=np.float64) / np.asarray(second, dtype=np.float64))
    rng = np.random.default_rng(23)
    means = logs[rng.integers(len(logs), size=(DRAWS, len(logs)))].mean(axis=1)
    low, high = np.exp(np.percentile(means, (2.5, 97.5)))
    p = float(wilcoxon(logs).pvalue) if np.any(logs != 0.0) else 1.0
    return Compared(float(np.exp(logs.mean())), float(low), float(high), p, float((logs < 0.0).mean()), float(np.exp(logs.max())))


def cases(count: int, base: Conditions | None = None) -> list[Conditions]:
    """`count` conditions: all families, all loads, in turn; the rest as in `base`."""
    like = Conditions("geo", 0.9) if base is None else base
    return [
        Conditions(
            FAMILIES[number % len(FAMILIES)],
            LOADS[number // len(FAMILIES) % len(LOADS)],
            like.jobs,
            like.noise,
            like.contention,
            like.starvation_runs,
            like.communication_weight,
        )
        for number in range(count)
    ]


def outcomes(policies: dict[str, Policy], conditions: Sequence[Conditions], first_seed: int) -> dict[str, list[StreamOutcome]]:
    """Every policy on every stream; stream number i has seed first_seed + i."""
    by_policy: dict[str, list[StreamOutcome]] = {name: [] for name in policies}
    for number, condition in enumerate(conditions):
        simulator = Simulator(first_seed + number, condition)
        for name, policy in policies.items():
            by_policy[name].append(simulator.run(policy))
    return by_policy


def completions(runs: Sequence[StreamOutcome]) -> FloatArray:
    """(S,) weighted mean completion seconds."""
    return np.array([run.mean_completion for run in runs])
