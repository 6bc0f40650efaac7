"""A genetic algorithm of the kind that DT-FM uses (Yuan et al., arXiv 2206.01288, section 3.3), on the same compiled cost as ours.

A population of partitions into equal groups; a child takes whole groups of one parent, fills the rest in the order of the other, is
improved by exchanges that lower the sum of gradient costs inside groups (the cheap stand-in that DT-FM improves, too), and replaces the
worst of the population where it is better. It is weaker than DT-FM's own program, whose result is in `peer_ga.csv` of the data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

POPULATION: Final = 100
OFFSPRING: Final = 4900
TRIES: Final = 60
"""Exchanges proposed to improve one child."""


def genetic(
    gradient: Floats,
    groups: int,
    cost: Callable[[Ints], float],
    seed: int,
    expired: Callable[[], bool],
    offspring: int = OFFSPRING,
) -> tuple[Ints, float, int]:
    """The best partition, its cost and how many candidates were costed, after `offspring` children or when `expired` says so."""
    rng = np.random.default_rng(seed)
    devices = len(gradient)
    people = [rng.permutation(np.arange(devices) % groups) for _ in range(POPULATION)]
    costs = [cost(person) for person in people]
    made = 0
    while made < offspring and not expired():
        made += 1
        first, second = (people[int(place)] for place in rng.choice(POPULATION, size=2, replace=False))
        child = _improved(gradient, _child(first, second, groups, rng), rng)
        value, worst = cost(child), int(np.argmax(costs))
        if value < costs[worst]:
            people[worst], costs[worst] = child, value
    best = int(np.argmin(costs))
    return people[best], costs[best], made + POPULATION


def _child(first: Ints, second: Ints, groups: int, rng: np.random.Generator) -> Ints:
    """Half the groups of one parent; the others hold who is left in the order of the other parent's groups."""
    size = len(first) // groups
    kept = rng.choice(groups, size=groups // 2, replace=False)
    child = np.where(np.isin(first, kept), first, -1)
    left = np.flatnonzero(child < 0)
    child[left[np.argsort(second[left], kind="stable")]] = np.repeat(np.setdiff1d(np.arange(groups), kept), size)
    return np.asarray(child, dtype=np.int64)


def _improved(gradient: Floats, group: Ints, rng: np.random.Generator) -> Ints:
    """First-improvement exchanges under the sum of gradient costs inside groups."""
    for _ in range(TRIES):
        i, j = (int(place) for place in rng.integers(len(group), size=2))
        if group[i] == group[j]:
            continue
        a, b = group == group[i], group == group[j]
        gain = gradient[j, a].sum() - gradient[i, a].sum() + gradient[i, b].sum() - gradient[j, b].sum() - 2.0 * gradient[i, j]
        if gain < 0:
            group[[i, j]] = group[[j, i]]
    return group
