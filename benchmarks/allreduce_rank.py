"""One process of the live measurement: gradients handed to Horovod at their ready times, and the time until the last one is reduced.

Messages go through the worker's own connection, which looks for their end ever less often: processes that poll without pause take each
other's time on two cores. What ranks measure they share, so that all of them draw the same conclusions.
"""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

import torch

from hyperscale.model.runplan import AllreduceCost
from hyperscale.training.allreduce.latency_fit import Sample, fit, medians, probes, seconds
from hyperscale.training.allreduce.schedule import Groups
from hyperscale.training.runtime.comm import HorovodComm

Rules = dict[str, Groups | None]
Predict = Callable[[list[float], AllreduceCost], dict[str, float]]
"""Seconds by rule from ready times and costs."""
REMEMBERED: Final = 5
"""Rounds of messages, and steps, that costs and ready times are taken from."""
MOST_ROUNDS: Final = 10
"""Of timed messages before the first step; fewer where a straight line explains them."""
GOOD_FIT: Final = 0.10
"""Median error of a fit for which nothing more is timed."""


class Rank:
    """Gradients of one model; `sizes` in bytes and `planned` seconds by gradient, first ready first."""

    def __init__(self, sizes: Sequence[float], planned: Sequence[float]) -> None:
        """Join the other process."""
        torch.set_num_threads(1)
        self._comm = HorovodComm()
        self.number = self._comm.rank
        self.sizes, self.planned = list(sizes), list(planned)
        self._gradients = [torch.ones(int(size) // 4) for size in sizes]
        self._probes = [(size, [torch.ones(int(size) // 4) for _ in range(times)]) for size, times in probes(sizes)]
        self._handed: deque[list[float]] = deque(maxlen=REMEMBERED)
        self._rounds: deque[list[Sample]] = deque(maxlen=REMEMBERED)
        self._number = 0

    def close(self) -> None:
        """Leave together."""
        self._comm.close()

    def ready(self) -> list[float]:
        """(L,) seconds at which the later rank handed over each gradient, medians of the last steps."""
        return [statistics.median(step[at] for step in self._handed) for at in range(len(self.sizes))]

    def samples(self) -> list[Sample]:
        """Bytes and seconds of the last rounds' messages."""
        return [sample for timed in self._rounds for sample in timed]

    def fitted(self) -> AllreduceCost:
        """Costs by the last rounds' messages."""
        return fit(self.samples())

    def fit_error(self) -> float:
        """Median of |fitted - timed| / timed over the sizes."""
        cost = self.fitted()
        return statistics.median(abs(seconds(cost, size) - took) / took for size, took in medians(self.samples()))

    def calibrate(self) -> None:
        """Time messages until a straight line explains them."""
        for number in range(1, MOST_ROUNDS + 1):
            self.probe()
            if number >= REMEMBERED and self.fit_error() <= GOOD_FIT:
                break

    def probe(self) -> None:
        """Messages of each size in a row, in one order of sizes and then in the other, while nothing else is sent; seconds of one."""
        self._number += 1
        order = range(len(self._probes)) if self._number % 2 else reversed(range(len(self._probes)))
        taken = [0.0] * len(self._probes)
        for at in order:
            size, payloads = self._probes[at]
            self._comm.barrier()
            begun = time.perf_counter()
            waits = [self._comm.start_allreduce_([part], f"probe.{int(size)}.{number}") for number, part in enumerate(payloads)]
            for wait in waits:
                wait()
            taken[at] = (time.perf_counter() - begun) / len(payloads)
            for part in payloads:
                part.fill_(1.0)
        mean = (self._comm.allreduce(torch.tensor(taken, dtype=torch.float64), "probe.times") / self._comm.size).tolist()
        self._rounds.append([(size, seconds) for (size, _), seconds in zip(self._probes, mean, strict=True)])

    def turns(self, rules: Rules, iterations: int, predict: Predict) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
        """Seconds of `iterations` steps by rule, and what each was predicted to take by all that was measured before it."""
        for groups in rules.values():
            self.step(groups)
        seconds: dict[str, list[float]] = {rule: [] for rule in rules}
        predicted: dict[str, list[float]] = {rule: [] for rule in rules}
        for _ in range(iterations):
            self.probe()
            costs = self.fitted()
            for rule, groups in rules.items():
                predicted[rule].append(predict(self.ready(), costs)[rule])
                seconds[rule].append(self.step(groups))
        return seconds, predicted

    def step(self, groups: Groups | None) -> float:
        """Seconds from the begin of a backward pass until its last gradient is reduced; without groups Horovod fuses as it likes."""
        last = {max(group): group for group in groups or ()}
        waits, handed = [], []
        self._comm.barrier()
        begun = time.perf_counter()
        for at, due in enumerate(self.planned):
            early = due - (time.perf_counter() - begun)
            if early > 0:
                time.sleep(early)
            handed.append(time.perf_counter() - begun)
            if groups is None:
                waits.append(self._comm.start_allreduce_([self._gradients[at]], f"gradient.{at}"))
            elif at in last:
                members = [self._gradients[member] for member in last[at]]
                waits.append(self._comm.start_allreduce_(members, f"group.{last[at][0]}.{at}"))
        for wait in waits:
            wait()
        ended = time.perf_counter() - begun
        self._handed.append(self._comm.gather(torch.tensor(handed, dtype=torch.float64), "handed").max(dim=0).values.tolist())
        for gradient in self._gradients:
            gradient.fill_(1.0)
        return ended
