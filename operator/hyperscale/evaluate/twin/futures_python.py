"""Futures of one job in plain Python: the same bytes as the compiled `_futures`, a hundred times slower.

The model: all nodes are needed. A failure loses the work since the last checkpoint. The failed node is repaired, and the first
node outside the job that is ready takes its place. When every place is filled, the job restarts; then it runs on.
A checkpoint follows each segment of work, the last one too.
Nodes age in wall-clock time from when they join; a repaired node is a new unit.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right
from typing import Final

import numpy as np
import numpy.typing as npt

from hyperscale.evaluate.twin.job_arrays import FIXED, MIN_READY_SECONDS, WEIBULL, JobArrays
from hyperscale.model.graph import FloatArray
from hyperscale.util.splitmix import GOLDEN, WORD, SplitMix64, mixed

RUNS, RESTARTS, STOPS = 0, 1, 2
"""What a job does: trains, restarts, or waits for a node or for the end of a preemption."""
END, USEFUL, CHECKPOINT, LOST, RESTART, WAITING, SLOW = range(7)
"""Columns of the parts of a future."""
PARTS: Final = 7


def simulate(job: JobArrays, seed: int, start: int, parts: FloatArray, events: npt.NDArray[np.int32], delay: FloatArray) -> None:
    """Fill the arrays for futures start .. start + n - 1.

    parts: (n, 7) seconds: end, then where the time went. events: (n, 2) failures, preemptions.
    delay: (members + 1,) zeros; becomes the seconds that each node caused in all futures, preemption last.
    """
    delays = [0.0] * len(delay)
    laws = _Lives(job)
    for future in range(len(parts)):
        play = _Play(job, laws, delays, seed, start + future)
        end = play.follow()
        parts[future] = [end, *play.parts[1:]]
        events[future] = play.failures, play.preemptions
    delay[:] = delays


def _hashed(number: int) -> int:
    return mixed(((number + 1) * GOLDEN) & WORD)


class _Lives:
    """Draws from the laws of a job."""

    def __init__(self, job: JobArrays) -> None:
        self._kind = job.kind.tolist()
        self._scale, self._shape = job.law.tolist()
        rows = [slice(*ends) for ends in zip(job.table[:-1].tolist(), job.table[1:].tolist(), strict=True)]
        self._ages = [job.rows[0, own].tolist() for own in rows]
        self._hazards = [job.rows[1, own].tolist() for own in rows]

    def _hazard_at(self, law: int, age: float) -> float:
        if self._kind[law] == WEIBULL:
            ratio = age / self._scale[law]
            return ratio if self._shape[law] == 1.0 else math.pow(ratio, self._shape[law])
        ages, hazards = self._ages[law], self._hazards[law]
        if age >= ages[-1]:
            return float(hazards[-1] + (age - ages[-1]) / self._scale[law])
        low = bisect_right(ages, age) - 1
        return float(hazards[low] + (age - ages[low]) * ((hazards[low + 1] - hazards[low]) / (ages[low + 1] - ages[low])))

    def _age_at(self, law: int, hazard: float) -> float:
        if self._kind[law] == WEIBULL:
            return float(self._scale[law] * (hazard if self._shape[law] == 1.0 else math.pow(hazard, 1.0 / self._shape[law])))
        ages, hazards = self._ages[law], self._hazards[law]
        if hazard >= hazards[-1]:
            return float(ages[-1] + (hazard - hazards[-1]) * self._scale[law])
        low = bisect_right(hazards, hazard) - 1
        return float(ages[low] + (hazard - hazards[low]) * ((ages[low + 1] - ages[low]) / (hazards[low + 1] - hazards[low])))

    def drawn(self, law: int, age: float, lemon: float, draws: SplitMix64) -> float:
        """Return the seconds that are left to a unit of this age. The cumulative hazard that it survives is exponential."""
        if self._kind[law] == FIXED:
            return max(0.0, float(self._scale[law] - age))
        if age <= 0.0:
            return self._age_at(law, -math.log(draws.unit()) / lemon)
        return max(0.0, self._age_at(law, self._hazard_at(law, age) - math.log(draws.unit()) / lemon) - age)


class _Play:
    """One future while it is played."""

    def __init__(self, job: JobArrays, lives: _Lives, delays: list[float], seed: int, future: int) -> None:
        self._lives, self._delays = lives, delays
        self._first, self._law_of, self._repair = job.first.tolist(), job.law_of.tolist(), job.repair.tolist()
        self._age, self._lemon = job.member.tolist()
        self._segments, self._interval, self._rest, self._write, self._restart, self._horizon, self._preempt_mean = job.figures.tolist()
        self._nodes, periods, self._max_failures, self._preempt_law = job.counts.tolist()
        self._periods = list(zip(job.period_node.tolist(), job.period.tolist(), strict=True))[:periods]
        self._members = len(self._repair)
        own = mixed(_hashed(seed & WORD) ^ _hashed(future))
        self._draws = [SplitMix64(mixed(own ^ key)) for key in job.key.tolist()]
        self._now = self._segment = self._part = self._elapsed = self._written = self._until = 0.0
        self.parts = [0.0] * PARTS
        self.failures = self.preemptions = 0
        self._blame, self._stage = self._members, RUNS
        self._slowed = -1
        """The node that slowed this segment last, -1 for none."""
        self._ready = dict.fromkeys(range(self._nodes, self._members), 0.0)
        """Nodes outside the job -> when they can join it."""
        self._fails = [(self._life(node, self._age[node]), place, node) for place, node in enumerate(range(self._nodes))]
        heapq.heapify(self._fails)
        self._preempt = math.inf if self._preempt_law < 0 else self._to_preemption()

    def _life(self, node: int, age: float) -> float:
        entries = self._law_of[self._first[node] : self._first[node + 1]]
        return min([self._lives.drawn(law, age, self._lemon[node], self._draws[node]) for law in entries], default=math.inf)

    def _to_preemption(self) -> float:
        return float(self._now - math.log(self._draws[self._members].unit()) * self._preempt_mean)

    def follow(self) -> float:
        """Return the end of the job in seconds, +inf past the horizon."""
        while True:
            failure = self._fails[0][0]
            event = min(failure, self._horizon)
            if self._stage != STOPS and self._preempt < event:
                event = self._preempt
            if self._stage == RUNS:
                factor, changes, slowest = self._pace()
                if self._advance(min(changes, event), factor, slowest):
                    return self._now
                if changes < event:
                    continue
            elif self._stands(event):
                continue
            if self._now >= self._horizon or self.failures >= self._max_failures:
                break
            if self._now >= failure:
                self._fail()
            else:
                self._preempted()
        self._save(self._part)
        self.parts[CHECKPOINT] += self._written
        return math.inf

    def _stands(self, event: float) -> bool:
        """Wait or restart until `event`; True where that ends earlier."""
        ends = self._until <= event
        passed = (self._until if ends else event) - self._now
        self.parts[WAITING if self._stage == STOPS else RESTART] += passed
        self._delays[self._blame] += passed
        self._now = self._until if ends else event
        if ends and self._stage == STOPS:
            self._stage, self._until = RESTARTS, self._now + self._restart
            if self._preempt_law >= 0 and (self._preempt == math.inf or self._preempt <= self._now):
                self._preempt = self._to_preemption()
        elif ends:
            self._stage = RUNS
        return ends

    def _pace(self) -> tuple[float, float, int]:
        """Return the factor of the slowest node now, when that may change, and which node it is; -1 for none."""
        factor, changes, slowest = 1.0, math.inf, -1
        for node, (start, end, own) in self._periods:
            if node in self._ready:
                continue
            if start > self._now:
                changes = min(changes, start)
            elif end > self._now:
                changes = min(changes, end)
                if own > factor:
                    factor, slowest = own, node
        return factor, changes, slowest

    def _whole_cycles(self, end: float, factor: float, slowest: int) -> None:
        """Take all segments at once that are worked and written before `end`."""
        cycle = self._interval * factor + self._write
        count = min(math.floor((end - self._now) / cycle) if end < math.inf else math.inf, self._segments - 1.0 - self._segment)
        if count < 1.0:
            return
        count = float(count)
        excess = count * self._interval * (factor - 1.0)
        self.parts[USEFUL] += count * self._interval
        self.parts[SLOW] += excess
        if slowest >= 0:
            self._delays[slowest] += excess
        self.parts[CHECKPOINT] += count * self._write
        self._segment += count
        self._now += count * cycle

    def _advance(self, end: float, factor: float, slowest: int) -> bool:
        """Train until `end` at a pace that does not change; True where the job ends before."""
        while True:
            if self._part == 0.0 and self._written == 0.0:
                self._whole_cycles(end, factor, slowest)
                self._now = min(self._now, end)
            last = self._segment >= self._segments - 1.0
            work = self._rest if last else self._interval
            if self._part < work:
                need = (work - self._part) * factor
                if slowest >= 0:
                    self._slowed = slowest
                if self._now + need > end:
                    self._part += (end - self._now) / factor
                    self._elapsed += end - self._now
                    self._now = end
                    return False
                self._now += need
                self._elapsed += need
                self._part = work
            need = self._write - self._written
            if self._now + need > end:
                self._written += end - self._now
                self._now = end
                return False
            self._now += need
            self._save(work)
            self.parts[CHECKPOINT] += self._write
            self._written = 0.0
            self._segment += 1.0
            if last:
                return True

    def _save(self, work: float) -> None:
        excess = self._elapsed - work
        self.parts[USEFUL] += work
        self.parts[SLOW] += excess
        if self._slowed >= 0:
            self._delays[self._slowed] += excess
        self._part = self._elapsed = 0.0
        self._slowed = -1

    def _lose(self, member: int) -> None:
        lost = self._elapsed + self._written
        self.parts[LOST] += lost
        self._delays[member] += lost
        self._part = self._elapsed = self._written = 0.0
        self._slowed = -1

    def _fail(self) -> None:
        _, place, node = self._fails[0]
        self.failures += 1
        self._lose(node)
        ready = self._now + self._lives.drawn(self._repair[node], 0.0, 1.0, self._draws[node])
        self._ready[node] = max(ready, MIN_READY_SECONDS)
        ready, other = min((ready, member) for member, ready in self._ready.items())
        joins = max(ready, self._now)
        heapq.heapreplace(self._fails, (joins + self._life(other, self._age[other] if ready == 0.0 else 0.0), place, other))
        del self._ready[other]
        if self._stage != STOPS or joins > self._until:
            self._until, self._blame = joins, node
        self._stage = STOPS

    def _preempted(self) -> None:
        self.preemptions += 1
        self._lose(self._members)
        self._until = self._now + self._lives.drawn(self._preempt_law, 0.0, 1.0, self._draws[self._members])
        self._preempt = math.inf
        self._blame, self._stage = self._members, STOPS
