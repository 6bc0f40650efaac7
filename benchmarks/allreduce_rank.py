"""One process of the live measurement: gradients handed to Horovod at their ready times, and the time until the last one is reduced."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Any, Final, TypeVar

import horovod.torch as hvd
import torch

from hyperscale.allreduce.fit import Sample
from hyperscale.allreduce.schedule import Groups

Shared = TypeVar("Shared")
KEPT: Final = 200
"""Steps whose ready times count."""


class Rank:
    """Gradients of one model; `sizes` in bytes and `planned` seconds by gradient, first ready first."""

    def __init__(self, sizes: Sequence[float], planned: Sequence[float]) -> None:
        """Join the other process."""
        hvd.init()
        torch.set_num_threads(1)
        self.number: int = hvd.rank()
        self.sizes, self.planned = list(sizes), list(planned)
        self._gradients = [torch.ones(int(size) // 4) for size in sizes]
        self._handed: list[list[float]] = []

    def close(self) -> None:
        """Leave together."""
        hvd.shutdown()

    def same(self, value: Shared) -> Shared:
        """Rank 0's, on every rank: what groups are decided from."""
        found: Shared = hvd.broadcast_object(value, root_rank=0)
        return found

    def ready(self) -> list[float]:
        """(L,) median seconds at which gradients were handed over."""
        steps = self._handed[-KEPT:]
        return [statistics.median(step[at] for step in steps) for at in range(len(self.sizes))]

    def probe(self, sizes: Sequence[float], times: int) -> list[Sample]:
        """Messages of two gradients that have nothing to wait for; bytes and seconds."""
        found = []
        for _ in range(times):
            for size in sizes:
                pair = [torch.ones(int(size) // 8), torch.ones(int(size) // 8)]
                self._meet()
                begun = time.perf_counter()
                hvd.synchronize(hvd.grouped_allreduce_async_(pair, name=f"probe.{int(size)}", op=hvd.Sum))
                found.append((float(size), time.perf_counter() - begun))
        return found

    def turns(
        self, rules: dict[str, Groups | None], iterations: int, sizes: Sequence[float], probes: list[Sample]
    ) -> dict[str, list[float]]:
        """Seconds of `iterations` steps by rule, one after another, with probes in between."""
        for groups in rules.values():
            self.step(groups)
        self._handed.clear()
        seconds: dict[str, list[float]] = {rule: [] for rule in rules}
        for number in range(iterations):
            for rule, groups in rules.items():
                seconds[rule].append(self.step(groups))
            if number % 2 == 0:
                probes += self.probe(sizes, 1)
        return seconds

    def step(self, groups: Groups | None) -> float:
        """Seconds from the begin of a backward pass until its last gradient is reduced; without groups Horovod fuses as it likes."""
        last = {max(group): group for group in groups} if groups is not None else {}
        handles: list[Any] = []
        handed = []
        self._meet()
        begun = time.perf_counter()
        for at, due in enumerate(self.planned):
            early = due - (time.perf_counter() - begun)
            if early > 0:
                time.sleep(early)
            handed.append(time.perf_counter() - begun)
            if groups is None:
                handles.append(hvd.allreduce_async_(self._gradients[at], name=f"gradient.{at}", op=hvd.Sum))
            elif at in last:
                members = [self._gradients[member] for member in last[at]]
                handles.append(hvd.grouped_allreduce_async_(members, name=f"group.{last[at][0]}.{at}", op=hvd.Sum))
        hvd.synchronize(handles[-1])
        pending = [handle for handle in handles[:-1] if not hvd.poll(handle)]
        ended = time.perf_counter() - begun
        for handle in handles[:-1]:
            hvd.synchronize(handle)
        self._handed.append(handed)
        for gradient in self._gradients:
            gradient.fill_(1.0)
        return ended if not pending else time.perf_counter() - begun

    def _meet(self) -> None:
        """Both processes go on together."""
        hvd.synchronize(hvd.allreduce_async_(torch.ones(1), name="meet", op=hvd.Sum))
