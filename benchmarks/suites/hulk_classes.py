"""Hulk's own set-up: a graph network that classifies its 47 machines to four tasks, step by step, and what its assignment costs.

The paper reports an accuracy of 99 % at the sixth training step. Neither labels nor weights are published, nor what was held out, nor what
a step is; here it is one update by all machines. Labels are (a) Table 2 and (b) the assignment that our search finds for the same sizes;
idle machines are a fifth class. Accuracy is printed twice: on the machines whose labels the network was given, which is what the paper's
figure can be compared with, and on machines held out (five folds), with a rule beside it that looks at the city alone. Costs are sums of
latency inside tasks, a missing link counts 1,000 ms.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final

import numpy as np
from scipy.optimize import linear_sum_assignment

from benchmarks.common import Row
from benchmarks.peers import hulk as peer
from benchmarks.suites import Options
from hyperscale.learn.constructor.classes import Curve, Machines, folds, learn_classes
from hyperscale.model.graph import FloatArray, IntArray
from hyperscale.planner.assign.assign_problem import Tasks, link_cost, sized
from hyperscale.planner.assign.search import assign

BENCHMARK: Final = "hulk_classes"
OURS: Final = "search"
DATA: Final = Path(__file__).resolve().parents[2] / "../shared/data/hulk"
STEPS: Final = 200
SHOWN: Final = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 40, 60, 100, 200)
PAPER_ACCURACY: Final = 0.99
FOLDS: Final = 5
NETWORK: Final = "edge-pooled GCN"
BLIND: Final = "edge-pooled GCN, city not given"
CITY: Final = "majority of the city"


def run(options: Options) -> list[Row]:
    """Accuracy per step and costs for both kinds of labels; one row that says so where the data are absent."""
    if not DATA.is_dir():
        return [Row(BENCHMARK, "labels of Table 2", NETWORK, "skipped: ../shared/data/hulk is absent", 0.0, "")]
    machines = peer.read(DATA)
    tasks = sized(machines.cost, peer.SIZES)
    found = assign(tasks).group
    table = peer.published(machines)
    rows = [
        Row(BENCHMARK, "four tasks", "Table 2 as published", "cost", link_cost(tasks, table), "ms"),
        Row(BENCHMARK, "four tasks", OURS, "cost", link_cost(tasks, found), "ms"),
    ]
    seeds = options.seeds[:1] if options.quick else options.seeds
    for case, labels in (("labels of Table 2", table), ("labels of our search", found)):
        for method, graph in ((NETWORK, graph_of(machines, with_city=True)), (BLIND, graph_of(machines, with_city=False))):
            for seed in seeds:
                rows += _one(case, method, graph, tasks, labels, seed, options)
        rows += [Row(BENCHMARK, case, CITY, "held-out accuracy", _by_city(machines, labels, seed), "", seed) for seed in seeds]
        rows.append(Row(BENCHMARK, case, "largest class", "accuracy", max(Counter(labels.tolist()).values()) / len(labels), ""))
    return rows


def graph_of(machines: peer.Machines, with_city: bool) -> Machines:
    """Nodes with city (one column each), capability and memory; links with their time, its logarithm and its inverse."""
    cities = sorted(set(machines.city))
    place = np.array([[float(city == other) for other in cities] for city in machines.city])
    figures = np.stack((machines.capability / 8.0 - 1.0, machines.memory / machines.memory.max()), axis=1)
    source, target = np.nonzero(machines.linked)
    time = machines.cost[source, target]
    edge = np.stack((time / 250.0, np.log10(1.0 + time) - 1.5, 10.0 / (10.0 + time)), axis=1)
    return Machines(np.concatenate((place, figures), axis=1) if with_city else figures, source, target, edge)


def _one(case: str, method: str, graph: Machines, tasks: Tasks, labels: IntArray, seed: int, options: Options) -> list[Row]:
    """Accuracy and cost of one seed."""
    classes = tasks.idle + 1
    whole = learn_classes(graph, labels, np.ones(len(labels), dtype=np.bool_), classes, seed, STEPS)
    curves = [(held, learn_classes(graph, labels, ~held, classes, seed, STEPS)) for held in folds(labels, FOLDS, seed)]
    accuracy = _held_out(curves, labels)
    rows = [
        Row(BENCHMARK, case, method, f"accuracy at step {step}, labels given", float(whole.labelled[step - 1]), "", seed) for step in SHOWN
    ]
    rows += [Row(BENCHMARK, case, method, f"accuracy at step {step}, held out", float(accuracy[step - 1]), "", seed) for step in SHOWN]
    reached = np.flatnonzero(whole.labelled >= PAPER_ACCURACY)
    first = float(reached[0] + 1) if len(reached) else float(STEPS + 1)
    rows.append(Row(BENCHMARK, case, method, f"first step with 99 %, labels given ({STEPS + 1}: none)", first, "", seed))
    unseen = np.zeros_like(whole.likings)
    for held, curve in curves:
        unseen[held] = curve.likings[held]
    for name, likings in (("labels given", whole.likings), ("held out", unseen)):
        classified = likings.argmax(axis=1)
        seated = with_sizes(likings, tasks)
        rows.append(Row(BENCHMARK, case, method, f"cost as classified, {name}", link_cost(tasks, classified), "ms", seed))
        rows.append(
            Row(BENCHMARK, case, method, f"machines with a task as classified, {name}", float((classified < tasks.idle).sum()), "", seed)
        )
        rows.append(Row(BENCHMARK, case, method, f"cost with the sizes of Table 2, {name}", link_cost(tasks, seated), "ms", seed))
        members = {f"task-{task}": [str(machine) for machine in np.flatnonzero(seated == task)] for task in range(tasks.idle)}
        options.dump_assignment(f"hulk classes {case} seed {seed}", f"{method}, {name}", members)
    return rows


def with_sizes(likings: FloatArray, tasks: Tasks) -> IntArray:
    """The likeliest assignment with as many machines for each task as it wants (Hungarian method); `likings` (machines, tasks + 1)."""
    idle = len(likings) - sum(tasks.low)
    seats = np.repeat(np.arange(tasks.idle + 1), [*tasks.low, idle])
    rows, columns = linear_sum_assignment(-likings[:, seats])
    group = np.empty(len(likings), dtype=np.int64)
    group[rows] = seats[columns]
    return group


def _held_out(curves: list[tuple[np.ndarray[tuple[int], np.dtype[np.bool_]], Curve]], labels: IntArray) -> FloatArray:
    """(steps,) accuracy over all machines, each judged by the network that was not given its label."""
    right = sum(curve.held_out * held.sum() for held, curve in curves)
    accuracy: FloatArray = np.asarray(right) / len(labels)
    return accuracy


def _by_city(machines: peer.Machines, labels: IntArray, seed: int) -> float:
    """Accuracy of the rule that takes what most other machines of the city are, else the largest class."""
    right = 0
    for held in folds(labels, FOLDS, seed):
        known = np.flatnonzero(~held)
        usual = Counter(labels[known].tolist()).most_common(1)[0][0]
        for machine in np.flatnonzero(held):
            same = Counter(int(labels[other]) for other in known if machines.city[other] == machines.city[machine])
            right += int((same.most_common(1)[0][0] if same else usual) == labels[machine])
    return right / len(labels)
