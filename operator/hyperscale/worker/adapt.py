"""Keeps the groups of gradients right while training runs: ranks share what they measured, and all draw the same conclusion."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

import torch

from hyperscale.allreduce.adapt import Observation, State, begin, observe
from hyperscale.allreduce.fit import Sample, fit, probes
from hyperscale.allreduce.simulate import THRESHOLD_BYTES
from hyperscale.model.job import AllreduceSchedule
from hyperscale.model.runplan import AllreduceCost
from hyperscale.worker.comm import Comm
from hyperscale.worker.contract import Run
from hyperscale.worker.gradients import Gradients

FIRST_EPOCHS: Final = 5
"""Every one of them is observed; afterwards every EVERY-th."""
EVERY: Final = 10
_ROUNDS: Final = 5


class Adaptive:
    """Of one run; does nothing where the job wants Horovod's own order, and where there is nobody to talk to."""

    def __init__(self, run: Run, comm: Comm, gradients: Gradients, most_bytes: float = THRESHOLD_BYTES) -> None:
        """Collective: where the plan knows no measured links, a few messages are timed. most_bytes: Horovod's fusion threshold."""
        self._comm, self._gradients = comm, gradients
        self._names = tuple(gradients.bytes)
        self.state: State | None = None
        self._messages: tuple[Sample, ...] = ()
        if run.schedule is AllreduceSchedule.DEFAULT or comm.size == 1 or not self._names:
            return
        known = run.plan.allreduce if run.plan is not None else None
        sizes = [float(size) for size in gradients.bytes.values()]
        if known is None or not known.measured:
            self._messages = probe(comm, sizes)
            known = fit(self._messages, known).cost
        # The Horovod of rank 0 decides what is fused.
        most = comm.broadcast(torch.tensor([most_bytes], dtype=torch.float64), "adapt.threshold")
        self.state = begin(sizes, known, most_bytes=float(most.item()))
        self._apply(self.state)

    @property
    def cost(self) -> AllreduceCost | None:
        """As it is believed to be now."""
        return self.state.cost if self.state is not None else None

    def after(self, epoch: int) -> bool:
        """After epoch `epoch` of this process (from 1); collective. True where the groups changed."""
        if self.state is None or (epoch > FIRST_EPOCHS and epoch % EVERY):
            return False
        ready = torch.tensor([self._gradients.ready_seconds.get(name, 0.0) for name in self._names], dtype=torch.float64)
        slowest = self._comm.gather(ready, "adapt.ready").max(dim=0).values
        before = self.state
        self.state = observe(before, Observation(tuple(slowest.tolist()), self._messages))
        self._messages = ()
        changed = self.state.groups != before.groups
        if changed:
            self._apply(self.state)
        return changed

    def _apply(self, state: State) -> None:
        self._gradients.regroup([[self._names[at] for at in group] for group in state.groups])


def probe(comm: Comm, sizes_bytes: Sequence[float]) -> tuple[Sample, ...]:
    """Bytes and seconds of allreduces as gradients of these sizes need them, the mean over ranks, the same on every rank; collective.

    Sizes take turns, so that whatever else the machine does in between hits all of them.
    """
    asked = probes(sizes_bytes)
    timed: list[float] = []
    for number in range(_ROUNDS + 1):
        for size, times in asked:
            payloads = [torch.zeros(int(size) // 4) for _ in range(times)]
            comm.barrier()
            began = time.perf_counter()
            waits = [comm.start_allreduce_([part], f"probe.{int(size)}.{at}") for at, part in enumerate(payloads)]
            for wait in waits:
                wait()
            if number:  # the first round makes connections and buffers
                timed.append((time.perf_counter() - began) / times)
    mean = comm.allreduce(torch.tensor(timed, dtype=torch.float64), "probe.times") / comm.size
    return tuple((size, float(seconds)) for (size, _), seconds in zip(list(asked) * _ROUNDS, mean.tolist(), strict=True))
