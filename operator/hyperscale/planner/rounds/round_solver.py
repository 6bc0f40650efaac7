"""The assignment of jobs to options with the largest sum of values: one option a job, no pool over its GPUs.

A multiple-choice knapsack with one constraint a pool. HiGHS (scipy) solves its linear relaxation, which leaves at most one job a pool
undecided. Rounded and improved by changes of one job and of two at a time, it bounds what each option could still add; the integer
program is solved over the options that could (reduced-cost fixing).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from hyperscale.model.graph import FloatArray

IntArray = np.ndarray[Any, np.dtype[np.int64]]

MAX_EXACT: Final = 320
"""Options of the integer program; where more could add something, those with the largest bound."""
MAX_NODES: Final = 200
"""Of the integer program's search, so that its time is bounded and its answer does not depend on a clock."""
MAX_STEPS: Final = 40
"""Improvements after rounding; bounds the time. The tests' largest cases take fewer."""
EPSILON: Final = 1e-12


def assign(values: FloatArray, pools: IntArray, gpus: IntArray, capacity: IntArray) -> IntArray:
    """(n,) the column that each job is given; column 0 is no GPUs and always possible.

    values:   (n, m) worth of each option, -inf where a job has no such option
    pools:    (m,) pool of each column; gpus: (m,) GPUs of each column, 0 for column 0
    capacity: (p,) GPUs of each pool
    """
    if len(values) == 0:
        return np.zeros(0, dtype=np.int64)
    best = np.asarray(np.argmax(values, axis=1))
    if (_used(best, pools, gpus, len(capacity)) <= capacity).all():
        return best
    program = _Program(values, pools, gpus, capacity)
    bounds, whole = program.relaxed()
    choice = _improved(values, whole, pools, gpus, capacity)
    rows = np.arange(len(values))
    lower = float((values[rows, choice] - values[:, 0]).sum())
    open_options = np.flatnonzero(bounds > lower + EPSILON)
    if len(open_options) == 0:
        return choice
    exact = program.exact(open_options[np.argsort(-bounds[open_options], kind="stable")[:MAX_EXACT]])
    return exact if values[rows, exact].sum() > values[rows, choice].sum() + EPSILON else choice


def _used(choice: IntArray, pools: IntArray, gpus: IntArray, count: int) -> IntArray:
    """(p,) GPUs that a choice takes of each pool."""
    return np.bincount(pools[choice], weights=gpus[choice], minlength=count).astype(np.int64)


class _Program:
    """The program over the options that are worth more than nothing."""

    def __init__(self, values: FloatArray, pools: IntArray, gpus: IntArray, capacity: IntArray) -> None:
        self.count = len(values)
        self.jobs, self.columns = np.nonzero(np.isfinite(values) & (values > values[:, :1]) & (gpus > 0))
        self.gains = values[self.jobs, self.columns] - values[self.jobs, 0]
        self.gpus, self.pools = gpus[self.columns], pools[self.columns]
        self.limits = np.concatenate([np.ones(self.count), capacity.astype(np.float64)])

    def relaxed(self) -> tuple[FloatArray, IntArray]:
        """(k,) the most that a choice with each option can be worth, and (n,) the columns that the relaxation gives whole, 0 for none."""
        from scipy.optimize import linprog

        every = np.arange(len(self.jobs))
        solved = linprog(-self.gains, A_ub=self._rows(every), b_ub=self.limits, bounds=(0.0, None), method="highs-ds")
        if solved.x is None:
            return np.full(len(every), np.inf), np.zeros(self.count, dtype=np.int64)
        prices = -np.asarray(solved.ineqlin.marginals)
        reduced = self.gains - prices[self.jobs] - prices[self.count + self.pools] * self.gpus
        return -solved.fun + reduced, self._choice(every, np.asarray(solved.x))

    def exact(self, kept: IntArray) -> IntArray:
        """(n,) the columns of the integer program's best choice among the options `kept`, 0 for none."""
        from scipy.optimize import Bounds, LinearConstraint, milp

        constraints = LinearConstraint(self._rows(kept), -np.inf, self.limits)
        solved = milp(-self.gains[kept], constraints=constraints, integrality=1, bounds=Bounds(0.0, 1.0), options={"node_limit": MAX_NODES})
        return np.zeros(self.count, dtype=np.int64) if solved.x is None else self._choice(kept, np.asarray(solved.x))

    def _rows(self, kept: IntArray) -> Any:  # noqa: ANN401 - scipy's sparse arrays have no types
        from scipy.sparse import csr_array

        places = np.arange(len(kept))
        weights = np.concatenate([np.ones(len(kept)), self.gpus[kept]])
        ends = (np.concatenate([self.jobs[kept], self.count + self.pools[kept]]), np.concatenate([places, places]))
        return csr_array((weights, ends), shape=(len(self.limits), len(kept)))

    def _choice(self, kept: IntArray, shares: FloatArray) -> IntArray:
        choice = np.zeros(self.count, dtype=np.int64)
        whole = kept[shares > 1.0 - 1e-6]
        choice[self.jobs[whole]] = self.columns[whole]
        return choice


def _improved(values: FloatArray, choice: IntArray, pools: IntArray, gpus: IntArray, capacity: IntArray) -> IntArray:
    """The choice after changes of one job, and of one with another that makes room for it, each of which makes the sum larger."""
    choice = choice.copy()
    for _ in range(MAX_STEPS):
        free = capacity - _used(choice, pools, gpus, len(capacity))
        gain = values - values[np.arange(len(choice)), choice][:, None]
        own = np.where(pools == pools[choice][:, None], gpus[choice][:, None], 0)
        missing = gpus - own - free[pools]
        single = np.where(missing <= 0, gain, -np.inf)
        job, column = np.unravel_index(int(np.argmax(single)), single.shape)
        if single[job, column] > EPSILON:
            choice[job] = column
            continue
        pair = _best_pair(gain, missing, choice, pools, gpus, free)
        if not pair:
            return choice
        for row, place in pair:
            choice[row] = place
    return choice


def _best_pair(
    gain: FloatArray, missing: IntArray, choice: IntArray, pools: IntArray, gpus: IntArray, free: IntArray
) -> tuple[tuple[int, int], ...]:
    """The two changes with the largest sum of gains, of which the second makes room for the first; none where no sum is above 0."""
    best = EPSILON
    answer: tuple[tuple[int, int], ...] = ()
    for pool in range(len(free)):
        columns = np.flatnonzero((pools == pool) & (gpus > 0))
        short = np.where(np.isfinite(gain[:, columns]), missing[:, columns], 0)
        job_gpus = np.where(pools[choice] == pool, gpus[choice], 0)[:, None]
        freed = job_gpus - np.where(pools == pool, gpus, 0)
        yields = (freed > 0) & ((pools == pool) | (gpus <= free[pools]))
        for size in np.unique(short[short > 0]):
            release = np.where(yields & (freed >= size), gain, -np.inf)
            wanted = np.where(short == size, gain[:, columns], -np.inf)
            pair = _disjoint(wanted, release)
            if pair is not None and pair[0] > best:
                best, (first, column), second = pair
                answer = ((first, int(columns[column])), second)
    return answer


def _disjoint(wanted: FloatArray, release: FloatArray) -> tuple[float, tuple[int, int], tuple[int, int]] | None:
    """The best entry of each matrix, of two different rows, and their sum."""
    first, second = wanted.max(axis=1), release.max(axis=1)
    firsts, seconds = np.argsort(-first, kind="stable")[:2], np.argsort(-second, kind="stable")[:2]
    pairs = [(float(first[a] + second[b]), int(a), int(b)) for a in firsts for b in seconds if a != b]
    if not pairs:
        return None
    total, a, b = max(pairs, key=lambda pair: pair[0])
    return total, (a, int(np.argmax(wanted[a]))), (b, int(np.argmax(release[b])))
