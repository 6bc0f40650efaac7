"""Hulk's four and six models: predicted time of one step of every model, against its Systems A, B and C.

A, B and C train the models one after another on all machines, ours all at once, each on machines of its own. `hyperscale, GPipe only` has
one pipeline in every group, as Hulk does; `hyperscale` may divide a group into several pipelines that share the batch and exchange
gradients, as DT-FM does. Every assumption is a row `assumption`; how A, B and C are predicted is in `benchmarks.peers.systems`. Ours is
found by search on this very prediction: the best of several assignments of `hyperscale.planner.assign`, improved by single machines.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.common import Row, goal
from benchmarks.peers import hulk, systems
from benchmarks.peers.hulk import Floats, Ints, Machines
from benchmarks.peers.systems import Model, Network, Step
from benchmarks.suites import Options
from hyperscale.planner.assign.assign_problem import sized, sizes_for
from hyperscale.planner.assign.search import assign

BENCHMARK: Final = "systems"
OURS: Final = "hyperscale"
GPIPE: Final = "hyperscale, GPipe only"
REPLICAS: Final = (1, 2, 3, 4)
FASTEST: Final = (8, 10, 12, 15, 20, 26)
"""Machines of the model with most work in further starts: the fastest ones."""
DATA: Final = Path(__file__).resolve().parents[2] / "../shared/data/hulk"
LIMIT: Final = 0.8
"""At least 20 % faster than the best of A, B, C."""
BANDWIDTHS: Final = (0.1e9, 1e9, 10e9)
STATED: Final = Network(1e9)
"""The assumption that the goal is judged by: what DT-FM measured between regions is 0.3 to 1.2 Gbit/s."""
MOVES: Final = 60


def run(options: Options) -> list[Row]:
    """All rows; one that says so where the data are absent."""
    if not DATA.is_dir():
        return [Row(BENCHMARK, "all", OURS, "skipped: ../shared/data/hulk is absent", 0.0, "")]
    machines = hulk.read(DATA)
    rows = _assumptions()
    for models in (systems.SIX[:4], systems.SIX):
        for network in _networks(options):
            rows += _case(models, machines, network, options)
    return rows


def _networks(options: Options) -> list[Network]:
    if options.quick:
        return [STATED]
    return [Network(bits, blocking) for blocking in (True, False) for bits in BANDWIDTHS]


def _assumptions() -> list[Row]:
    said = [(f"TFLOP/s of a GPU of capability {capability:g}", value, "TFLOP/s") for capability, value in systems.TERAFLOPS.items()]
    said += [
        ("GPUs of a machine", systems.GPUS, ""),
        ("part of the peak reached", systems.EFFICIENCY, ""),
        ("memory of a parameter, activations not counted", systems.STATE_BYTES, "B"),
        ("a gradient or activation on the wire", systems.VALUE_BYTES, "B"),
        ("operations of a parameter and token", 6.0, ""),
        ("latency of a pair without a link (relayed)", hulk.MISSING_MS, "ms"),
        ("bandwidth between any two machines, where judged", STATED.bits_per_second / 1e9, "Gbit/s"),
    ]
    for model in systems.SIX:
        said += [
            (f"{model.name}: parameters", model.parameters, ""),
            (f"{model.name}: layers", model.layers, ""),
            (f"{model.name}: width", model.width, ""),
            (f"{model.name}: sequences of a batch", model.sequences, ""),
            (f"{model.name}: tokens of a sequence", model.length, ""),
        ]
    return [Row(BENCHMARK, "assumption", "all", what, float(value), unit) for what, value, unit in said]


def _peers(models: Sequence[Model], machines: Machines, network: Network) -> dict[str, list[Step]]:
    """A step of each model on all machines, by system."""
    everyone = np.arange(len(machines.memory))
    return {
        "System A, data parallel": [systems.data_parallel(model, machines, network) for model in models],
        "System B, GPipe": [systems.pipeline(model, machines, everyone, network) for model in models],
        "System C, tensor parallel": [systems.tensor_parallel(model, machines, network) for model in models],
    }


def _case(models: Sequence[Model], machines: Machines, network: Network, options: Options) -> list[Row]:
    latency = "" if network.blocking else ", latency hidden"
    case = f"{len(models)} models, {network.bits_per_second / 1e9:g} Gbit/s{latency}"
    peers = _peers(models, machines, network)
    totals = {name: sum(step.seconds for step in steps) for name, steps in peers.items()}
    rows: list[Row] = []
    for name, steps in peers.items():
        rows += _rows(case, name, models, steps, totals[name])
    best = min(totals.values())
    mixed = sum(min(step.seconds for step in steps) for steps in zip(*peers.values(), strict=True))
    rows.append(Row(BENCHMARK, case, "best of A, B, C for every model", "all models, one step each", mixed, "s"))
    published = _published(models, machines, network)
    if published is not None:
        rows += _rows(case, "Hulk's published groups", models, published, max(step.seconds for step in published))
    found, worst_plain, worst = _ours(case, models, machines, network, options)
    rows += found
    rows.append(Row(BENCHMARK, case, OURS, "worst seed over the best of A, B, C", worst / best, "ratio"))
    rows.append(Row(BENCHMARK, case, GPIPE, "worst seed over the best of A, B, C", worst_plain / best, "ratio"))
    rows.append(Row(BENCHMARK, case, OURS, "worst seed over the best for every model", worst / mixed, "ratio"))
    if network == STATED:
        rows.append(goal(BENCHMARK, f"{case}: ours over the best of A, B, C", OURS, worst / best, LIMIT, "ratio"))
    return rows


def _ours(case: str, models: Sequence[Model], machines: Machines, network: Network, options: Options) -> tuple[list[Row], float, float]:
    """Rows of every seed, and the worst seed's seconds with GPipe only and with pipelines that share a batch."""
    rows: list[Row] = []
    worst = worst_plain = 0.0
    for seed in options.seeds[: 1 if options.quick or network != STATED else None]:
        started = time.perf_counter()
        group = grouped(models, machines, network, seed)
        plain = _steps(models, machines, network, group, exact=True)
        rows += _rows(case, GPIPE, models, plain, max(step.seconds for step in plain), seed)
        group, steps = shared(models, machines, network, seed, group)
        took = time.perf_counter() - started
        total = max(step.seconds for step in steps)
        worst, worst_plain = max(worst, total), max(worst_plain, max(step.seconds for step in plain))
        rows += _rows(case, OURS, models, steps, total, seed)
        rows.append(Row(BENCHMARK, case, OURS, "time of the search", took, "s", seed))
        options.dump_assignment(
            f"{case} seed {seed}", OURS, {model.name: [str(m) for m in np.flatnonzero(group == t)] for t, model in enumerate(models)}
        )
    return rows, worst_plain, worst


def _rows(case: str, name: str, models: Sequence[Model], steps: Sequence[Step], total: float, seed: int = 0) -> list[Row]:
    """A model that cannot run has no figure but says so."""
    rows: list[Row] = []
    for model, step in zip(models, steps, strict=True):
        if math.isinf(step.seconds):
            rows.append(Row(BENCHMARK, case, name, f"{model.name}: no machine holds it", 0.0, "", seed))
            continue
        rows.append(Row(BENCHMARK, case, name, f"{model.name}: step", step.seconds, "s", seed))
        rows.append(Row(BENCHMARK, case, name, f"{model.name}: of it communication", step.communication, "s", seed))
    if math.isinf(total):
        return [*rows, Row(BENCHMARK, case, name, "all models, one step each: impossible", 0.0, "", seed)]
    return [*rows, Row(BENCHMARK, case, name, "all models, one step each", total, "s", seed)]


def _published(models: Sequence[Model], machines: Machines, network: Network) -> list[Step] | None:
    """GPipe in the groups of Table 2, which has four models."""
    return _steps(models, machines, network, hulk.published(machines), exact=True) if len(models) == len(hulk.TABLE_2) else None


def grouped(models: Sequence[Model], machines: Machines, network: Network, seed: int) -> Ints:
    """One task number per machine: the best start improved by single moves and exchanges while the slowest model gets faster."""
    work = [model.work for model in models]
    memory = [model.memory_gb for model in models]
    measures = (work, memory, [math.sqrt(value) for value in work], [math.sqrt(value) for value in memory])
    starts: list[Ints] = []
    for measure, spare in itertools.product(measures, (0, 8)):
        tasks = sized(machines.cost, sizes_for(measure, machines.memory, spare), machines.memory, memory)
        starts.append(assign(tasks, seed, rounds=8).group)
    starts += [_fastest(models, machines, most, seed) for most in FASTEST]
    scored = sorted(((_total(models, machines, network, group), place) for place, group in enumerate(starts)))
    return min((_climbed(models, machines, network, starts[place]) for _, place in scored[:3]), key=_key(models, machines, network))


def _fastest(models: Sequence[Model], machines: Machines, most: int, seed: int) -> Ints:
    """The fastest machines for the model with most work, the rest assigned to the others."""
    heavy = int(np.argmax([model.work for model in models]))
    order = np.argsort(-systems.speeds(machines) - machines.memory * 1e-3, kind="stable")
    left = np.sort(order[most:])
    rest = [task for task in range(len(models)) if task != heavy]
    memory = [models[task].memory_gb for task in rest]
    sizes = sizes_for([math.sqrt(models[task].work) for task in rest], machines.memory[left])
    inner = assign(sized(machines.cost[np.ix_(left, left)], sizes, machines.memory[left], memory), seed, rounds=8).group
    group = np.full(len(machines.memory), heavy, dtype=np.int64)
    group[left] = np.array([*rest, len(models)])[inner]
    return group


def shared(models: Sequence[Model], machines: Machines, network: Network, seed: int, found: Ints) -> tuple[Ints, list[Step]]:
    """The best of the groups found and of groups by work, every group divided into as many pipelines as is best for it."""
    work = [model.work for model in models]
    memory = [model.memory_gb for model in models]
    groups = [found]
    for spare in (0, 4):
        tasks = sized(machines.cost, sizes_for(work, machines.memory, spare), machines.memory, memory)
        groups.append(assign(tasks, seed, rounds=8).group)
    steps = [
        [_divided(model, machines, network, np.flatnonzero(group == task), seed) for task, model in enumerate(models)] for group in groups
    ]
    best = min(range(len(groups)), key=lambda place: (max(step.seconds for step in steps[place]), place))
    return groups[best], steps[best]


def _divided(model: Model, machines: Machines, network: Network, members: Ints, seed: int) -> Step:
    """The best number of pipelines; machines of equal numbers, near to each other and with the memory for a whole model."""
    best = systems.pipeline(model, machines, members, network) if len(members) else systems.CANNOT
    for replicas in REPLICAS[1:]:
        size = len(members) // replicas
        if size and machines.memory[members].sum() >= replicas * model.memory_gb:
            cost = machines.cost[np.ix_(members, members)]
            tasks = sized(cost, [size] * replicas, machines.memory[members], [model.memory_gb] * replicas)
            part = assign(tasks, seed, rounds=8).group
            parts = [members[part == replica] for replica in range(replicas)]
            best = min(best, systems.pipelines(model, machines, parts, network), key=lambda step: step.seconds)
    return best


def _key(models: Sequence[Model], machines: Machines, network: Network) -> Callable[[Ints], float]:
    return lambda group: max(step.seconds for step in _steps(models, machines, network, group, exact=True))


def _climbed(models: Sequence[Model], machines: Machines, network: Network, group: Ints) -> Ints:
    """Best improvement: a machine joins or leaves the slowest model, or changes places with one of that model's."""
    now = _total(models, machines, network, group)
    for _ in range(MOVES):
        slowest = int(np.argmax([step.seconds for step in _steps(models, machines, network, group, exact=False)]))
        tried = [(_total(models, machines, network, changed), changed) for changed in _neighbours(group, slowest, len(models))]
        best = min(tried, key=lambda pair: pair[0])
        if best[0] >= now * (1.0 - 1e-9):
            break
        now, group = best
    return group


def _neighbours(group: Ints, slowest: int, idle: int) -> list[Ints]:
    found: list[Ints] = []
    own, others = np.flatnonzero(group == slowest), np.flatnonzero(group != slowest)
    for machine in others:
        found.append(_with(group, {int(machine): slowest}))
        found += [_with(group, {int(machine): slowest, int(mine): int(group[machine])}) for mine in own]
    found += [_with(group, {int(mine): idle}) for mine in own]
    return found


def _with(group: Ints, changes: dict[int, int]) -> Ints:
    changed = group.copy()
    for machine, task in changes.items():
        changed[machine] = task
    return changed


def _total(models: Sequence[Model], machines: Machines, network: Network, group: Ints) -> float:
    return max(step.seconds for step in _steps(models, machines, network, group, exact=False))


def _steps(models: Sequence[Model], machines: Machines, network: Network, group: Ints, exact: bool) -> list[Step]:
    """Every model on its group. Not exact: the dearest hop is that of the tree that joins the group, which no order undercuts."""
    found: list[Step] = []
    for task, model in enumerate(models):
        members = np.flatnonzero(group == task)
        if not len(members):
            return [systems.CANNOT] * len(models)
        hop = None if exact else _tree_hop(machines.cost[np.ix_(members, members)] / 1e3)
        found.append(systems.pipeline(model, machines, members, network, hop))
    return found


_TREES: dict[bytes, float] = {}


def _tree_hop(latency: Floats) -> float:
    """The dearest edge of a minimum spanning tree."""
    key = latency.tobytes()
    if key not in _TREES:
        reach, outside, dearest = latency[0].copy(), np.arange(len(latency)) > 0, 0.0
        while outside.any():
            nearest = int(np.where(outside, reach, np.inf).argmin())
            dearest = max(dearest, float(reach[nearest]))
            outside[nearest] = False
            reach = np.minimum(reach, latency[nearest])
        _TREES[key] = dearest
    return _TREES[key]
