"""What to imitate: for a placement begun, the cost of every candidate as the next worker when greedy completes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import numpy as np

from hyperscale.learn.topologies import FAMILIES, TRAINING_SEEDS, ClusterInstance, instance
from hyperscale.model.graph import BoolArray, FloatArray, IntArray
from hyperscale.planner.learned.learned_features import DELTA, ConstructorView, View
from hyperscale.planner.learned.learned_network import ConstructorNetwork
from hyperscale.planner.learned.learned_state import ConstructorState, Surroundings
from hyperscale.planner.search.kernels.kernel import kernel_for, local_search, objectives, rings

WORST: Final = 1.0
"""ln of cost over best cost from which on a candidate is simply bad."""
SIZES: Final = (10, 64)
"""Nodes of a training cluster, drawn log-uniformly."""
LARGE_SIZES: Final = (64, 128)
"""Of every `LARGE_EVERY`th."""
LARGE_EVERY: Final = 6
WORKERS: Final = (2, 20)
STATES: Final = 4
"""Placements begun per instance: empty, part of search's, two on greedy's way with mistakes."""
POLISHED: Final = 4
"""Greedy placements that local search improves for the label."""
MISTAKES: Final = 0.05
"""Spread of the greedy choice with mistakes, in ln of the objective."""
GUIDED_SPREAD: Final = 0.5

Likings = Callable[[ConstructorState, FloatArray], FloatArray]
"""Of a state and its step features: (m,) logits of the candidates."""


@dataclass(frozen=True)
class Begun:
    """One placement begun and what each candidate leads to."""

    chosen: IntArray
    """(s,) workers placed so far."""
    features: FloatArray
    """(m, STEP_FEATURES)"""
    feasible: BoolArray
    """(m,)"""
    cost: FloatArray
    """(m,) ln of the objective in the end over the best candidate's, at most WORST."""


@dataclass(frozen=True)
class Example:
    """One instance with its states."""

    view: ConstructorView
    states: tuple[Begun, ...]


Kept = TypeVar("Kept", ConstructorView, Begun)


def draw(seed: int) -> ClusterInstance:
    """The training instance of one seed."""
    rng = np.random.default_rng([seed, 11])
    family = sorted(FAMILIES)[int(rng.integers(len(FAMILIES)))]
    low, high = LARGE_SIZES if seed % LARGE_EVERY == 0 else SIZES
    nodes = round(float(np.exp(rng.uniform(np.log(low), np.log(high)))))
    workers = int(rng.integers(WORKERS[0], min(WORKERS[1], nodes // 2) + 1))
    return instance(family, nodes, workers, TRAINING_SEEDS + seed)


def example(seed: int, guide: ConstructorNetwork | None = None) -> Example | None:
    """Features and labels of one seed; None where greedy finds no placement at all.

    guide: whose own way some of the placements begun are on; greedy's without one
    """
    drawn = draw(seed)
    rng = np.random.default_rng([seed, 13])
    around = Surroundings(drawn.costs, drawn.topology.slots, drawn.workers)
    view = View(around)
    solution = search(drawn, around)
    if solution is None:
        return None
    starts = [np.zeros(0, dtype=np.int64), _part(solution, rng)]
    constructor_view = view.static_view()
    likings = _greedy_likings if guide is None else _guided_likings(guide, constructor_view)
    starts += [_stray(view, likings, int(rng.integers(1, drawn.workers)), rng) for _ in range(STATES - len(starts))]
    states = [begun(view, around, start) for start in starts]
    return Example(_single(constructor_view), tuple(_single(state) for state in states if state is not None))


def begun(view: View, around: Surroundings, start: IntArray) -> Begun | None:
    """Labels of one placement begun; None where nothing completes it, or every candidate is as good."""
    state = ConstructorState(around, start[None, :])
    features, feasible = view.step(state)
    each = np.flatnonzero(feasible[0])
    if not len(each):
        return None
    seconds = np.full(feasible.shape[1], np.inf)
    seconds[each] = completed(around, start, each)
    best = seconds.min()
    if not np.isfinite(best) or len(each) < 2:
        return None
    cost = np.minimum(np.where(np.isfinite(seconds), np.log(np.where(np.isfinite(seconds), seconds, 1.0) / best), WORST), WORST)
    return Begun(start, features[0], feasible[0], cost)


def completed(around: Surroundings, start: IntArray, each: IntArray) -> FloatArray:
    """(c,) objective when greedy completes `start` (s,) and one of `each` (c,); +inf where it gets stuck."""
    orders, stuck = grown(around, np.concatenate((np.broadcast_to(start, (len(each), len(start))), each[:, None]), axis=1))
    return np.where(stuck, np.inf, finished(around, orders))


def grown(around: Surroundings, start: IntArray) -> tuple[IntArray, BoolArray]:
    """(B, k) greedy's completion of `start` (B, s), s ≥ 1, and which of them got stuck, (B,)."""
    count, size = start.shape
    left = around.slots - np.stack([np.bincount(row, minlength=len(around.slots)) for row in start])
    stuck: BoolArray = np.any(left < 0, axis=1)
    compiled = kernel_for(around.costs, around.slots, around.workers)
    if compiled is None:
        return _grown(around, start, stuck)
    orders = np.zeros((count, around.workers), dtype=np.int32)
    orders[:, :size] = start
    filled = np.zeros(count, dtype=np.int32)
    compiled.greedy(orders, size, True, filled)
    return orders.astype(np.int64), stuck | (filled < around.workers)


def _grown(around: Surroundings, start: IntArray, stuck: BoolArray) -> tuple[IntArray, BoolArray]:
    state = ConstructorState(around, start)
    while state.size < around.workers:
        objective = state.added().objective
        best = objective.argmin(axis=1)
        stuck = stuck | ~np.isfinite(objective[state.rows, best])
        state.add(best)
    return state.chosen, stuck


def search(drawn: ClusterInstance, around: Surroundings) -> IntArray | None:
    """(k,) the best placement that greedy from every node and local search of the best few find."""
    orders, stuck = grown(around, np.flatnonzero(drawn.topology.slots > 0)[:, None])
    orders = orders[~stuck]
    if not len(orders):
        return None
    best = orders[np.argsort(finished(around, orders), kind="stable")[:POLISHED]]
    polished, seconds = local_search(drawn.costs, drawn.topology.slots, best)
    chosen: IntArray = polished[int(np.argmin(seconds))]
    return chosen


def finished(around: Surroundings, orders: IntArray) -> FloatArray:
    """(B,) objective of placements (B, k) with their rings put in order, equal sets computed once."""
    sets, back = np.unique(np.sort(orders, axis=1), axis=0, return_inverse=True)
    seconds: FloatArray = objectives(around.costs, rings(around.costs, sets))[back.ravel()]
    return seconds


def _greedy_likings(_: ConstructorState, features: FloatArray) -> FloatArray:
    """(m,) logits of greedy with mistakes."""
    return -features[0, :, DELTA] / MISTAKES


def _guided_likings(guide: ConstructorNetwork, constructor_view: ConstructorView) -> Likings:
    """Logits of the guide, sharpened: its own mistakes are wanted, not those of chance."""
    hidden, whole = guide.embed(constructor_view)
    fixed = guide.prepared(hidden, whole)
    return lambda state, features: guide.logits(hidden, fixed, state.chosen, features)[0] / GUIDED_SPREAD


def _single(record: Kept) -> Kept:
    """The record with its figures in single precision, half the memory."""
    figures = {name: value.astype(np.float32) for name, value in vars(record).items() if getattr(value, "dtype", None) == np.float64}
    return replace(record, **figures)


def _part(solution: IntArray, rng: np.random.Generator) -> IntArray:
    """Some workers of the solution, at least one, in any order."""
    kept: IntArray = rng.permutation(solution)[: int(rng.integers(1, max(2, len(solution))))]
    return kept


def _stray(view: View, likings: Likings, size: int, rng: np.random.Generator) -> IntArray:
    """(s,) a way drawn by `likings`, at most `size` workers."""
    state = ConstructorState(view.around, np.zeros((1, 0), dtype=np.int64))
    while state.size < size:
        features, feasible = view.step(state)
        if not feasible.any():
            break
        drawn = likings(state, features) + rng.gumbel(size=feasible.shape[1])
        state.add(np.array([int(np.argmax(np.where(feasible[0], drawn, -np.inf)))]))
    way: IntArray = state.chosen[0]
    return way
