"""Which modules of the placement search pay: the suites' cases with each module left out in turn.

Run: python benchmarks/ablation.py [--quick] [--seeds N] [--module NAME ...] [--json FILE] [--write-docs]

Every case is searched with all modules, with all modules and another seed, and without each module. Four losses are compared: the
objective, the objective under a deadline of 40 ms of processor time, the proven gap, and the processor time of the whole search. A module
pays where one loss, in the mean over a group of cases, is above its noise. Noise is the larger of NOISE_ERRORS standard errors of the loss
and the upper end of the same loss for another seed. Times are processor time, so that other work on the machine counts little.

--quick        fewer and smaller cases, too few to judge a module by: losses, no goals
--module NAME  leave out only this one; may be repeated
--write-docs   writes docs/benchmarks/ablation.md
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NamedTuple
from unittest import mock

import numpy as np
from msgspec.structs import replace

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import ablationpage, common  # noqa: E402 - a script's own folder is on the path, not this
from benchmarks.clusters import generated, lingjun, openb  # noqa: E402
from benchmarks.families import NAMES, POLICY, Instance, instance, placed  # noqa: E402
from hyperscale.model.graph import BoolArray, FloatArray, IntArray  # noqa: E402
from hyperscale.planner.cost.objective import Costs  # noqa: E402
from hyperscale.planner.graph.cluster_graph import build  # noqa: E402
from hyperscale.planner.problem.placement_problem import pose  # noqa: E402
from hyperscale.planner.search import heuristic, subregions  # noqa: E402
from hyperscale.planner.search.exact import OptimalityProof  # noqa: E402
from hyperscale.planner.search.kernels import kernel  # noqa: E402

BENCHMARK: Final = "ablation"
DOCUMENT: Final = ROOT / "docs" / "benchmarks" / "ablation.md"
FULL: Final = "all modules"
RESEEDED: Final = "all modules, another seed"
SEED_STEP: Final = 1_000_003
DEADLINE_SECONDS: Final = 0.04
"""Processor time of a search under the deadline, as in the suite `middle`."""
NOISE_ERRORS: Final = 3.0
"""Standard errors: some 150 losses are compared, so that two would show one falsely in seven of them."""
LEAST_TIME_LOSS: Final = 5.0
"""Percent: a smaller difference of processor times is the machine's."""
MEMORY_SEEDS: Final = 4
"""GPU memory may matter in every fourth seed of `instance`."""
MOST_PERCENT: Final = 100.0
"""Counted where the search finds no placement, or one that is worse than twice as costly."""
UNPROVEN_GAP: Final = 1.0
"""Counted where a search states no bound, or a larger gap."""
LOSSES: Final = {"objective": "%", "objective within 40 ms": "%", "proven gap": "points", "processor time": "%"}
"""Kinds of loss, with their units."""


class Outcome(NamedTuple):
    """What one search of one case came to."""

    objective: float
    within_deadline: float
    gap: float
    """Objective / lower bound - 1, at most UNPROVEN_GAP."""
    cpu_seconds: float

    def losses(self, full: Outcome) -> tuple[float, float, float, float]:
        """LOSSES against the search with all modules; positive is worse."""
        return (
            min(MOST_PERCENT, 100.0 * (self.objective / full.objective - 1.0)),
            min(MOST_PERCENT, 100.0 * (self.within_deadline / full.within_deadline - 1.0)),
            100.0 * (self.gap - full.gap),
            100.0 * (self.cpu_seconds / full.cpu_seconds - 1.0),
        )


class Loss(NamedTuple):
    """The mean of one loss over the cases of a group."""

    mean: float
    half_width: float
    """NOISE_ERRORS standard errors."""

    def noise(self, control: Loss, kind: str) -> float:
        """What the mean must exceed."""
        least = LEAST_TIME_LOSS if kind == "processor time" else 1e-9
        return max(least, self.half_width, control.mean + control.half_width)


def _no_sets(*arguments: Any, **options: Any) -> IntArray:  # noqa: ANN401 - stands for functions of different arguments
    workers = next(argument for argument in arguments[1:] if isinstance(argument, int))
    return np.zeros((0, workers), dtype=np.int64)


def _nothing_better(costs: Costs, slots: IntArray, orders: IntArray, *rest: object) -> tuple[IntArray, FloatArray]:
    return orders[:0], np.zeros(0)


def _rings_only(costs: Costs, slots: IntArray, orders: IntArray, fixed: BoolArray, *rest: object) -> tuple[IntArray, FloatArray]:
    ordered = kernel.rings(costs, orders, fixed)
    return ordered, kernel.objectives(costs, ordered)


def _simple_bound(
    costs: Costs, slots: IntArray, workers: int, *, upper: float, pinned: IntArray, work: int, floor: float, expired: Callable[[], bool]
) -> OptimalityProof:
    return OptimalityProof(None, np.inf, floor, False, 0)


MODULES: Final[dict[str, dict[str, Any]]] = {
    "local search": {"improve": _rings_only},
    "greedy starts": {"greedy_from": _no_sets},
    "beam": {"beam_sets": _no_sets},
    "branch and bound": {"branch_and_bound": _simple_bound},
    "segments": {"walked": _nothing_better},
    "domains of a large cluster": {"subregions": SimpleNamespace(**(vars(subregions) | {"domains_with_room": lambda *arguments: []}))},
    "memory relaxation": {"ways": lambda costs, slots, workers: [(costs, slots)]},
}
"""What is left out, and what stands in its place."""


@contextmanager
def without(module: str | None) -> Iterator[None]:
    """The search without one module."""
    with ExitStack() as stack:
        for name, stand_in in MODULES[module].items() if module is not None else ():
            stack.enter_context(mock.patch.object(heuristic, name, stand_in))
        yield


def cases(quick: bool, seeds: int) -> Iterator[tuple[str, Instance]]:
    """Group and case, as the suites exact, middle, counts and large have them; large ones for half of the seeds."""
    families = NAMES[2:4] if quick else NAMES
    for seed in range(seeds):
        for family in families:
            yield "12 to 32 nodes", instance(family, 14, 5, seed, memory_free=True)
            yield "12 to 32 nodes", instance(family, 32, 8, seed, memory_free=True)
            yield "64 and 128 nodes", instance(family, 64, 12, seed)
            if not quick:
                yield "64 and 128 nodes", instance(family, 128, 16, seed)
            yield "2 to 10 workers", instance(family, 32, 6, seed, (2, 10))
            yield "memory may limit shares", instance(family, 14, 5, MEMORY_SEEDS * seed)
            yield "memory may limit shares", instance(family, 32, 8, MEMORY_SEEDS * seed)
        if seed % 2:
            continue
        large = [generated(600 if quick else 1000, seed)] + ([] if quick else [openb(seed), lingjun(seed)])
        for cluster in large:
            if cluster is not None:
                graph = build(cluster.snapshot, POLICY)
                for workers in (8,) if quick else (8, 32):
                    yield "600 nodes and more", placed(f"{cluster.name}, k={workers}", graph, workers, seed, cluster.gpus_per_worker)


def searched(case: Instance, module: str | None, seed_step: int = 0) -> Outcome:
    """One case without one module, to its end and under the deadline; an objective of +inf where no placement is found."""
    request = replace(case.problem.request, seed=case.problem.request.seed + seed_step)
    problem = pose(request, case.graph, case.problem.workload, POLICY)
    with without(module):
        started = time.process_time()
        result = heuristic.Heuristic().candidates(problem, lambda: False)
        cpu_seconds = time.process_time() - started
        ends = time.process_time() + DEADLINE_SECONDS
        hurried = heuristic.Heuristic().candidates(problem, lambda: time.process_time() >= ends)
    best = min((candidate.objective for candidate in result), default=math.inf)
    soon = min((candidate.objective for candidate in hurried), default=math.inf)
    gap = best / result.lower_bound - 1.0 if result.lower_bound else UNPROVEN_GAP
    return Outcome(best, soon, min(gap, UNPROVEN_GAP), cpu_seconds)


def measured(chosen: Sequence[str], quick: bool, seeds: int) -> list[common.Row]:
    """Losses of every case by method, then the mean losses by group and the goals."""
    rows: list[common.Row] = []
    losses: dict[tuple[str, str], list[tuple[float, ...]]] = {}
    for group, case in cases(quick, seeds):
        searched(case, None)  # warms what all methods share
        full = searched(case, None)
        for method in (RESEEDED, *chosen):
            outcome = searched(case, None, SEED_STEP) if method == RESEEDED else searched(case, method)
            loss = outcome.losses(full)
            losses.setdefault((group, method), []).append(loss)
            name = method if method == RESEEDED else f"without {method}"
            rows += [
                common.Row(BENCHMARK, f"{group}: {case.case}", name, f"{kind}, loss", figure, unit, case.seed)
                for (kind, unit), figure in zip(LOSSES.items(), loss, strict=True)
            ]
        rows.append(common.Row(BENCHMARK, f"{group}: {case.case}", FULL, "processor time", full.cpu_seconds * 1e3, "ms", case.seed))
        print(f"{group}: {case.case}, seed {case.seed}: {full.cpu_seconds * 1e3:.0f} ms", file=sys.stderr, flush=True)
    return [*rows, *summaries(losses, chosen, goals=not quick)]


def summaries(losses: dict[tuple[str, str], list[tuple[float, ...]]], chosen: Sequence[str], *, goals: bool) -> list[common.Row]:
    """Mean losses and their noise by group; for every module the least noise / loss, at most 1 where it pays."""
    rows: list[common.Row] = []
    groups = list(dict.fromkeys(group for group, _ in losses))
    for module in chosen:
        ratios: list[float] = []
        for group in groups:
            for place, (kind, unit) in enumerate(LOSSES.items()):
                own, control = (mean_loss([loss[place] for loss in losses[group, method]]) for method in (module, RESEEDED))
                noise = own.noise(control, kind)
                rows.append(common.Row(BENCHMARK, group, f"without {module}", f"{kind}, mean loss", own.mean, unit))
                rows.append(common.Row(BENCHMARK, group, f"without {module}", f"{kind}, noise", noise, unit))
                ratios.append(noise / own.mean if own.mean > 0.0 else math.inf)
        case = "pays: quality, proof or time is worse without it by more than noise"
        rows += [common.goal(BENCHMARK, case, module, min(ratios), 1.0, "noise / loss")] if goals else []
    return rows


def mean_loss(values: Sequence[float]) -> Loss:
    """Mean and NOISE_ERRORS standard errors; an unbounded half width for one value."""
    if len(values) < 2:
        return Loss(values[0], math.inf)
    return Loss(float(np.mean(values)), NOISE_ERRORS * float(np.std(values, ddof=1)) / math.sqrt(len(values)))


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = common.parser(__doc__ or "")
    parser.add_argument("--seeds", type=int, default=6, metavar="N", help="seeds of each case (6; 2 with --quick)")
    parser.add_argument("--module", action="append", choices=sorted(MODULES), metavar="NAME", help=f"one of {', '.join(MODULES)}")
    parser.add_argument("--write-docs", action="store_true", help="write docs/benchmarks/ablation.md")
    return parser.parse_args(words)


def main() -> int:
    """Measure, print, and fail where a module does not pay."""
    arguments = parsed(sys.argv[1:])
    rows = measured(arguments.module or list(MODULES), arguments.quick, 2 if arguments.quick else max(2, arguments.seeds))
    header, lines = ablationpage.table(rows, LOSSES)
    print(common.table(header, lines), flush=True)
    code = common.report([row for row in rows if row.metric == "goal"], None)
    if arguments.json is not None:
        common.write(rows, arguments.json)
    if arguments.write_docs:
        command = " ".join(["python", "benchmarks/ablation.py", *(Path(word).name if "/" in word else word for word in sys.argv[1:])])
        DOCUMENT.write_text(ablationpage.page(rows, LOSSES, command))
    return code


if __name__ == "__main__":
    sys.exit(main())
