"""Placements of several jobs that start together, with the least weighted sum of their objectives. Pure; the seed decides.

The search begins from several assignments of nodes to jobs, among them the plans made one after the other, so that it is never worse
than these. All starts are annealed a little, the best ones longer (successive halving, Jamieson & Talwalkar 2016). It ends after a number
of steps that follows from the question, never by the clock.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from hyperscale.model.graph import FloatArray, IntArray
from hyperscale.planner.search.kernels import kernel
from hyperscale.planner.search.kernels.kernel import CANNOT_WORK
from hyperscale.planner.together.in_sequence import placed, placing_work, taken
from hyperscale.planner.together.shared_nodes import LIMIT_ROUNDING, Int32Array, SharedNodes, partner_lists

if TYPE_CHECKING:
    from hyperscale.planner.search.kernels._kernel import Kernel

try:
    from hyperscale.planner.together import _together
except ImportError:  # pragma: no cover - planner/search/kernels/kernel.py has warned
    _together = None  # type: ignore[assignment] # `Annealing.of` asks

ONE_BY_ONE: Final = "one after the other"
HOT: Final = 0.3
"""First temperature, part of the mean job's objective."""
COLD: Final = 3e-4
"""Last temperature."""
FIRST_STEPS: Final = 60
"""Steps of every start for each worker."""
LAST_STEPS: Final = 400
"""Steps of the best ones together for each worker."""
MAX_WORK: Final = 6_000_000
"""Bound of steps × (mean square of a job's workers + STEP_WORK), some nanoseconds each: many large jobs get fewer steps."""
STEP_WORK: Final = 20.0
"""What a step takes beside its figures."""
HALVES: Final = 3
"""Rounds after the first; each halves the starts that are left."""
MAX_PLACEMENTS: Final = 28
"""Placements of one job when pairs are placed again."""
MAX_PLACED_WORK: Final = 2_500_000
"""Bound of their steps, two nanoseconds each; see `in_sequence.placing_work`."""
BETTER: Final = 1.0 - 1e-9


class JointStart(NamedTuple):
    """Placements to begin from."""

    name: str
    orders: list[IntArray]
    """(k,) candidates of each job."""


@dataclasses.dataclass(frozen=True)
class JointPlacement:
    """An answer."""

    orders: tuple[IntArray, ...]
    """(k,) candidates of each job."""
    total: float
    """Weighted sum of the objectives."""
    before: float
    """The same one after the other."""
    start: str
    """Name of the start that it came from."""
    totals: dict[str, float]
    """Of every start as it was given; +inf where it cannot work."""


Starts = Callable[[SharedNodes], list[JointStart]]


def place_together(shared: SharedNodes, starts: Starts | None = None, seed: int = 0, effort: float = 1.0) -> JointPlacement:
    """The best placements found; those one after the other where none is better.

    starts: further assignments to begin from · effort: factor of the steps
    """
    given = _given(shared, starts)
    annealing = Annealing.of(shared) if len(shared.workers) > 1 else None
    totals = {start.name: shared.total(start.orders) for start in given}
    before = totals[ONE_BY_ONE]
    best = JointPlacement(tuple(given[0].orders), before, before, ONE_BY_ONE, totals)
    if annealing is None:
        start = min(given, key=lambda start: totals[start.name])
        return _settled(shared, _better(best, start, totals[start.name]))
    alive = [(totals[start.name], number, start) for number, start in enumerate(given) if number == 0 or math.isfinite(totals[start.name])]
    for start in _rounds(annealing, alive, seed, effort):
        best = _better(best, start, shared.total(start.orders))
    return _settled(shared, best)


def _given(shared: SharedNodes, starts: Starts | None) -> list[JointStart]:
    """The placements one after the other, and the further starts that take no place twice."""
    further = starts(shared) if starts is not None else []
    return [JointStart(ONE_BY_ONE, list(shared.one_by_one)), *(start for start in further if shared.fits(start.orders))]


def _better(best: JointPlacement, start: JointStart, total: float) -> JointPlacement:
    """`best` with the placements of `start` where their total is lower by more than rounding."""
    if not total < best.total * (1.0 - 1e-12):
        return best
    return dataclasses.replace(best, orders=tuple(start.orders), total=total, start=start.name)


def _rounds(annealing: Annealing, given: Sequence[tuple[float, int, JointStart]], seed: int, effort: float) -> list[JointStart]:
    """The starts after annealing, those that lasted longest first."""
    workers = sum(annealing.shared.workers)
    mean_square = sum(count * count for count in annealing.shared.workers) / len(annealing.shared.workers)
    scale = effort * min(1.0, MAX_WORK / (workers * (LAST_STEPS + FIRST_STEPS * len(given)) * (mean_square + STEP_WORK)))
    alive = list(given)
    done: list[JointStart] = []
    for number in range(HALVES + 1):
        each = FIRST_STEPS if number == 0 else LAST_STEPS / HALVES / len(alive)
        steps = max(64, round(scale * each * workers))
        hot = HOT * 0.25**number
        walked = []
        for _, at, start in alive:
            total, orders = annealing.walk(start.orders, seed + 1000 * number + at, steps, hot)
            walked.append((total, at, JointStart(start.name, orders)))
        walked.sort(key=lambda each: each[:2])
        keep = max(1, len(walked) // 2)
        done = [start for _, _, start in walked] + done
        alive = walked[:keep]
    return done


class Annealing:
    """What the compiled walk needs, prepared once for a question."""

    def __init__(self, shared: SharedNodes, kernels: list[Kernel]) -> None:
        self.shared = shared
        self._kernels = kernels
        self._node_of = np.concatenate([each.nodes for each in shared.of_job]).astype(np.int32)
        self._back = np.ascontiguousarray(np.where(_has_slot(shared), shared.back, -1), dtype=np.int32)
        lists = [partner_lists(each.search_costs, workers) for workers, each in zip(shared.workers, shared.of_job, strict=True)]
        self._partners: Int32Array = np.ascontiguousarray(np.concatenate(lists))
        self._ends = np.cumsum(list(shared.workers))[:-1]

    @classmethod
    def of(cls, shared: SharedNodes) -> Annealing | None:
        """None where a kernel is missing: numpy would take too long."""
        kernels = shared.kernels if _together is not None else None
        return cls(shared, kernels) if kernels is not None else None

    def walk(self, orders: Sequence[IntArray], seed: int, steps: int, hot: float, cold: float = COLD) -> tuple[float, list[IntArray]]:
        """Least weighted sum after `steps` moves from the placements, and its placements; +inf where a job is above its limit."""
        flat = np.concatenate(orders).astype(np.int32)
        left, seconds = self.shared.left(orders), np.zeros(len(orders))
        total = _together.anneal(
            self._kernels,
            self._node_of,
            self._back,
            self._partners,
            self.shared.weights,
            self.shared.limits * LIMIT_ROUNDING,
            self.shared.demand,
            self.shared.most.astype(np.int32),
            left,
            flat,
            seconds,
            seed,
            steps,
            hot,
            cold,
        )
        within = bool((seconds <= self.shared.limits * LIMIT_ROUNDING).all()) and total < CANNOT_WORK
        return total if within else math.inf, [order.astype(np.int64) for order in np.split(flat, self._ends)]


def _has_slot(shared: SharedNodes) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """(J, P) whether a job's candidate on a node has a slot at all."""
    has = np.zeros(shared.back.shape, dtype=np.bool_)
    for index, each in enumerate(shared.of_job):
        has[index, each.nodes] = each.slots > 0
    return has


def _settled(shared: SharedNodes, given: JointPlacement) -> JointPlacement:
    """The answer after pairs of jobs were placed again, the dearer first, and each job on what the others leave; never worse."""
    orders, seconds = list(given.orders), shared.seconds(given.orders)
    _pairs_again(shared, orders, seconds)
    for index in np.argsort(-shared.weights * seconds, kind="stable").tolist():
        order, value = _replaced(shared, orders, index)
        if value < seconds[index] * BETTER:
            orders[index], seconds[index] = order, value
    total = shared.total(orders)
    if not total < given.total or not shared.fits(orders):
        return given
    return dataclasses.replace(given, orders=tuple(orders), total=total)


def _pairs_again(shared: SharedNodes, orders: list[IntArray], seconds: FloatArray) -> None:
    """Take two jobs away and place the dearer first on what the others leave; keep what lowers the sum (ruin and recreate)."""
    left = shared.left(orders)
    placements = work = 0
    ranked = np.argsort(-shared.weights * seconds, kind="stable").tolist()
    for first, second in ((one, other) for at, one in enumerate(ranked) for other in ranked[at + 1 :]):
        if placements >= MAX_PLACEMENTS or work >= MAX_PLACED_WORK:
            return
        without = left + taken(shared, first, orders[first]) + taken(shared, second, orders[second])
        placements, work = placements + 2, work + placing_work(shared, first) + placing_work(shared, second)
        one = placed(shared, first, without)
        other = placed(shared, second, without - taken(shared, first, one[0])) if one is not None else None
        if one is None or other is None:
            continue
        pair = np.array([first, second])
        values = np.array([_true(shared, index, *placement) for index, placement in zip((first, second), (one, other), strict=True)])
        within = bool((values <= shared.limits[pair] * LIMIT_ROUNDING).all())
        if within and float(shared.weights[pair] @ values) < float(shared.weights[pair] @ seconds[pair]) * BETTER:
            orders[first], orders[second], seconds[pair] = one[0], other[0], values
            left = without - taken(shared, first, one[0]) - taken(shared, second, other[0])


def _true(shared: SharedNodes, index: int, order: IntArray, seconds: float) -> float:
    """Seconds of a placement that take `seconds` by the kernel: by the reference where memory may limit shares."""
    return float(shared.seconds_of(index, order[None, :])[0]) if shared.of_job[index].memory_limits else seconds


def _replaced(shared: SharedNodes, orders: Sequence[IntArray], index: int) -> tuple[IntArray, float]:
    """A job's placement after local search on its own nodes and on those that no other job has; its seconds."""
    others = [None if at == index else order for at, order in enumerate(orders)]
    room = shared.room(index, shared.left(others))
    if shared.kernels is None:
        rows, seconds = kernel.local_search(shared.of_job[index].search_costs, room, orders[index][None, :])
        return rows[0], _true(shared, index, rows[0], float(seconds[0]))
    row, value = orders[index][None, :].astype(np.int32), np.empty(1)
    shared.kernels[index].use_slots(room.astype(np.int32))
    shared.kernels[index].local_search(row, np.zeros(row.shape[1], dtype=np.uint8), kernel.SWEEPS, value)
    order = row[0].astype(np.int64)
    return order, _true(shared, index, order, float(value[0]))
