"""openb filled with its own whole-GPU pods until every size is refused: GPUs that each rule leaves stranded.

Pods with `num_gpu` of 1 or more and `gpu_milli` of 1000 are drawn with replacement; none of them names a GPU model. A size is what a pod
asks for: GPUs, cores and memory. One that fits on no node is refused and never comes back, since nothing ends. The run ends when no node
has room for any size; GPUs still free then are stranded. All rules get the same stream.
"""

from __future__ import annotations

import csv
import time
from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from scipy.optimize import linprog

from benchmarks.common import Row, goal
from benchmarks.families import DATA
from benchmarks.peers.placement.fragmentation import (
    BestFit,
    DotProduct,
    FewestIdle,
    GradientDescent,
    LeastStranding,
    NodeRule,
    RandomNode,
    Tetris,
)
from benchmarks.suites import Options
from hyperscale.model.graph import FloatArray, IntArray
from hyperscale.model.planning import AskedSize
from hyperscale.planner.choice.stranding import SizeDemand, size_demand

BENCHMARK: Final = "openb_stranding"
OPENB: Final = DATA / "openb"
SEEDS: Final = 20
QUICK_SEEDS: Final = 1
LIMIT: Final = 0.9
WHOLE_MILLI: Final = 1000
GIB: Final = 1024.0
"""MiB."""
CHUNK: Final = 8192
"""Pods drawn at a time."""
SURE_LOAD: Final = 1.3
"""From this load on a size that no node has room for is refused before it is drawn again: waiting for rare ones changes nothing."""
HISTORY: Final = 200
"""Pods that a short history has."""
LARGE_GPUS: Final = 8.0
OURS: Final = "hyperscale"
SHORT_HISTORY: Final = f"hyperscale, history of {HISTORY} pods"
BEST_FIT: Final = "best fit"
DOT_PRODUCT: Final = "dot product (least, as FGD's authors have it)"
TETRIS: Final = "dot product (largest, Tetris)"
BOUND: Final = "lower bound"


class Trace(NamedTuple):
    """Nodes and sizes."""

    rooms: FloatArray
    """(n, 3) GPUs, cores and GiB of the empty nodes."""
    sizes: FloatArray
    """(c, 3) of the different pods."""
    weights: FloatArray
    """(c,) part of the pods; they sum to 1."""


class Outcome(NamedTuple):
    """One run of one rule."""

    stranded: float
    """Free GPUs at the end."""
    at_capacity: float
    """Free GPUs once the pods offered ask for as many GPUs as there are."""
    large: float
    """GPUs in pods of `LARGE_GPUS`."""
    offered: IntArray
    """(c,) pods of each size offered until the last was placed."""
    offered_at_capacity: IntArray
    """(c,) likewise until as many GPUs were asked for as there are."""
    seconds: float


def run(options: Options) -> list[Row]:
    """Rows by rule, the bounds, and the goals."""
    if not OPENB.is_dir():
        return [Row(BENCHMARK, "openb", OURS, "skipped: ../shared/data lacks it", 1.0, "")]
    trace = read_trace()
    rows: list[Row] = []
    for seed in range(QUICK_SEEDS if options.quick else SEEDS):
        outcomes = {name: filled(trace, rule(trace, seed), seed) for name, rule in RULES.items()}
        for name, outcome in outcomes.items():
            rows += [
                Row(BENCHMARK, "openb", name, "GPUs stranded", outcome.stranded, "GPUs", seed),
                Row(BENCHMARK, "openb", name, "GPUs free when as many are asked for as there are", outcome.at_capacity, "GPUs", seed),
                Row(BENCHMARK, "openb", name, "GPUs in pods of 8", outcome.large, "GPUs", seed),
                Row(BENCHMARK, "openb", name, "time of the run", outcome.seconds, "s", seed),
            ]
        ours = outcomes[OURS]
        rows.append(Row(BENCHMARK, "openb", BOUND, "GPUs stranded", bound(trace, ours.offered), "GPUs", seed))
        least = bound(trace, ours.offered_at_capacity)
        rows.append(Row(BENCHMARK, "openb", BOUND, "GPUs free when as many are asked for as there are", least, "GPUs", seed))
    return rows + _goals(rows)


def read_trace() -> Trace:
    """Return nodes and whole-GPU pods of the files."""
    with (OPENB / "nodes.csv").open(newline="") as text:
        rooms = [(float(row["gpu"]), float(row["cpu_milli"]) / 1e3, float(row["memory_mib"]) / GIB) for row in csv.DictReader(text)]
    with (OPENB / "pods.csv").open(newline="") as text:
        pods = [row for row in csv.DictReader(text) if int(row["num_gpu"]) >= 1 and int(row["gpu_milli"]) == WHOLE_MILLI]
    counted = Counter((float(pod["num_gpu"]), float(pod["cpu_milli"]) / 1e3, float(pod["memory_mib"]) / GIB) for pod in pods)
    sizes = sorted(counted)
    weights = np.array([float(counted[size]) for size in sizes])
    return Trace(np.array(rooms), np.array(sizes), weights / weights.sum())


def demand_of_trace(trace: Trace, weights: FloatArray) -> SizeDemand:
    """Return what the planner makes of the sizes; GiB stand for bytes."""
    asked = [AskedSize(int(gpus), cores, memory, weight) for (gpus, cores, memory), weight in zip(trace.sizes, weights, strict=True)]
    demand = size_demand(asked)
    if demand is None:
        raise ValueError("openb/pods.csv has no pod with whole GPUs; see ../shared/data/README.md")
    return demand


def short_history(trace: Trace, seed: int) -> FloatArray:
    """(c,) counts of the sizes in a history of `HISTORY` pods, drawn apart from the run's stream."""
    drawn = np.random.default_rng([seed, HISTORY]).choice(len(trace.sizes), size=HISTORY, p=trace.weights)
    counts: FloatArray = np.bincount(drawn, minlength=len(trace.sizes)).astype(np.float64)
    return counts


RULES: Final[dict[str, Callable[[Trace, int], NodeRule]]] = {
    OURS: lambda trace, _: LeastStranding(demand_of_trace(trace, trace.weights)),
    SHORT_HISTORY: lambda trace, seed: LeastStranding(demand_of_trace(trace, short_history(trace, seed))),
    "hyperscale without sizes: fewest idle GPUs": lambda *_: FewestIdle(),
    BEST_FIT: lambda *_: BestFit(),
    DOT_PRODUCT: lambda *_: DotProduct(),
    TETRIS: lambda *_: Tetris(),
    "FGD": lambda trace, _: GradientDescent(trace.weights),
    "random": lambda _, seed: RandomNode(seed),
}


def filled(trace: Trace, rule: NodeRule, seed: int) -> Outcome:
    """Place pods by `rule` until every size is refused."""
    started = time.perf_counter()
    rng = np.random.default_rng([seed, 20])
    rooms, sizes, capacity = trace.rooms.copy(), trace.sizes, float(trace.rooms[:, 0].sum())
    rule.start(rooms, sizes)
    taken = np.ones(len(sizes), dtype=np.bool_)
    asked, large, at_capacity = 0.0, 0.0, -1.0
    offered, half_way = np.zeros(len(sizes), dtype=np.int64), np.zeros(len(sizes), dtype=np.int64)
    while taken.any():
        for size in rng.choice(len(sizes), size=CHUNK, p=trace.weights).tolist():
            if at_capacity < 0.0 and asked >= capacity:
                at_capacity, half_way = float(rooms[:, 0].sum()), offered.copy()
            asked += sizes[size, 0]
            offered[size] += 1
            if not taken[size]:
                continue
            fitting = np.flatnonzero((rooms + 1e-9 >= sizes[size]).all(axis=1))
            if not len(fitting):
                taken[size] = False
                continue
            node = rule.pick(rooms, size, fitting)
            rooms[node] -= sizes[size]
            large += LARGE_GPUS if sizes[size, 0] == LARGE_GPUS else 0.0
            rule.placed(rooms, node)
        if asked > SURE_LOAD * capacity:
            for size in np.flatnonzero(taken):
                taken[size] = bool((rooms + 1e-9 >= sizes[size]).all(axis=1).any())
    return Outcome(float(rooms[:, 0].sum()), at_capacity, large, offered, half_way, time.perf_counter() - started)


def bound(trace: Trace, offered: IntArray) -> float:
    """GPUs that no rule can leave fewer of, not even one that knows all pods `offered` (c,) beforehand and may refuse any of them.

    The linear program pools the nodes of a kind and places parts of pods, so that what it places is no less than any rule places.
    """
    kinds, count = np.unique(trace.rooms, axis=0, return_counts=True)
    fits = (kinds[:, None, :] + 1e-9 >= trace.sizes).all(axis=2)
    shape = fits.shape
    gains = -np.broadcast_to(trace.sizes[:, 0], shape).ravel()
    by_room = [
        np.where(at == np.arange(shape[0]), 1.0, 0.0)[:, None] * trace.sizes[:, which] for at in range(shape[0]) for which in range(3)
    ]
    by_size = [np.broadcast_to(np.eye(shape[1])[at], shape) for at in range(shape[1])]
    limits = np.concatenate(((kinds * count[:, None]).ravel(), offered.astype(np.float64)))
    rows = np.array([row.ravel() for row in (*by_room, *by_size)])
    upper = np.where(fits, np.minimum(offered, limits.max()), 0.0).ravel()
    solved = linprog(gains, A_ub=rows, b_ub=limits, bounds=np.stack((np.zeros(gains.size), upper), axis=1), method="highs")
    return float(max(0.0, np.ceil(trace.rooms[:, 0].sum() + solved.fun - 1e-6)))


def _goals(rows: list[Row]) -> list[Row]:
    mean = {
        name: float(np.mean([row.value for row in rows if row.method == name and row.metric == "GPUs stranded"]))
        for name in (OURS, BEST_FIT, DOT_PRODUCT, TETRIS)
    }
    return [
        goal(BENCHMARK, f"GPUs stranded, mean, against {LIMIT} of {peer}'s", OURS, mean[OURS], LIMIT * mean[peer], "GPUs")
        for peer in (BEST_FIT, DOT_PRODUCT, TETRIS)
    ]
