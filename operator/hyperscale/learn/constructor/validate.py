"""How good a constructor is on clusters that no training has seen, beside greedy in three forms."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from hyperscale.learn.constructor.labels import finished, grown
from hyperscale.learn.topologies import FAMILIES, VALIDATION_SEEDS, ClusterInstance, instance
from hyperscale.model.graph import FloatArray
from hyperscale.planner.learned.learned_features import View
from hyperscale.planner.learned.learned_network import ConstructorNetwork
from hyperscale.planner.learned.learned_state import LARGEST, Surroundings

SHAPES: Final = ((32, 8), (64, 12))
"""Nodes and workers of the cases that decide."""
CASES: Final = 12
"""Per family and shape."""

Score = dict[str, float]
"""Objective by method."""


class Validation(NamedTuple):
    """Geometric mean of the constructor's cost over that of others, on the same cases."""

    over_fastest: float
    over_nearest: float
    over_every: float
    """Greedy from every node, the best of all."""
    cases: int
    costs: FloatArray
    """(cases,) objectives of the constructor."""


def validate(network: ConstructorNetwork, seed: int, cases: int = CASES) -> Validation:
    """Judge a network on clusters of the seeds kept for validation; the same seed gives the same clusters."""
    scores = [score for drawn in drawn_cases(seed, cases) if (score := scores_of(drawn, network)) is not None]
    return Validation(
        ratio(scores, "learned", "fastest"),
        ratio(scores, "learned", "nearest"),
        ratio(scores, "learned", "every"),
        len(scores),
        np.array([score["learned"] for score in scores]),
    )


def drawn_cases(seed: int, cases: int) -> list[ClusterInstance]:
    """The validation's instances."""
    return [
        instance(family, nodes, workers, VALIDATION_SEEDS + seed * cases + place)
        for nodes, workers in SHAPES
        for family in sorted(FAMILIES)
        for place in range(cases)
    ]


def scores_of(drawn: ClusterInstance, network: ConstructorNetwork) -> Score | None:
    """Objectives of the constructor and of greedy from the fastest node, from the node with the nearest partners, from every node."""
    around = Surroundings(drawn.costs, drawn.topology.slots, drawn.workers)
    view = View(around)
    usable = np.flatnonzero(drawn.topology.slots > 0)
    every, stuck = grown(around, usable[:, None])
    fastest = int(np.argmax(drawn.costs.flops_per_second[usable]))
    nearest = int(np.argmin(view.seed_seconds[usable]))
    order = network.construct(view, np.zeros(0, dtype=np.int64))
    if order is None or view.seed_seconds.min() >= LARGEST:
        return None
    # Together: how many rings are repaired at once decides how closely each is looked at.
    *grown_seconds, learned = finished(around, np.concatenate((every, order[None, :]))).tolist()
    seconds = np.where(stuck, np.inf, grown_seconds)
    if not np.isfinite(seconds.min()):
        return None
    return {
        "learned": learned,
        "fastest": float(seconds[fastest]),
        "nearest": float(seconds[nearest]),
        "every": float(seconds.min()),
    }


def ratio(scores: list[Score], ours: str, theirs: str) -> float:
    """Geometric mean of cost over cost, of the cases that both can do."""
    logs = [np.log(score[ours] / score[theirs]) for score in scores if np.isfinite(score[ours]) and np.isfinite(score[theirs])]
    return float(np.exp(np.mean(logs)))
