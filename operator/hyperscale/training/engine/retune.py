"""Keeps the groups of gradients right while training runs: ranks share what they measured, and all draw the same conclusion."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Final

import torch

from hyperscale.model.api.job import AllreduceSchedule
from hyperscale.model.runplan import AllreduceCost
from hyperscale.training.allreduce.adapt import AdaptState, Observation, begin, observe
from hyperscale.training.allreduce.latency_fit import Sample, fit, probes, seconds
from hyperscale.training.allreduce.simulate import CYCLE_SECONDS, THRESHOLD_BYTES
from hyperscale.training.engine.gradients import Gradients
from hyperscale.training.engine.timing import Clock, Spans, Timer
from hyperscale.training.runtime.comm import Comm
from hyperscale.training.runtime.contract import Run

FIRST_EPOCHS: Final = 5
"""Every one of them is observed; afterwards every EVERY-th."""
EVERY: Final = 10
PROBED_PART: Final = 1 / 500
"""Of the time since training began: as much may go into timing messages again. Where epochs are short it seldom or never happens."""
_ROUNDS: Final = 5
_CPU: Final = torch.device("cpu")


class Adaptive:
    """Of one run; does nothing where the job wants Horovod's own order, and on a single rank."""

    def __init__(
        self, run: Run, comm: Comm, gradients: Gradients, most_bytes: float = THRESHOLD_BYTES, clock: Clock = time.perf_counter
    ) -> None:
        """Collective: where the plan knows no measured links, a few messages are timed. most_bytes: Horovod's fusion threshold."""
        self._comm, self._gradients, self._clock = comm, gradients, clock
        self._names = tuple(gradients.bytes)
        self.state: AdaptState | None = None
        self._messages: tuple[Sample, ...] = ()
        self._rounds, self._spent = 0, 0.0
        self._connected = False
        if run.schedule is AllreduceSchedule.DEFAULT or comm.size == 1 or not self._names:
            return
        cost = run.plan.allreduce if run.plan is not None else None
        sizes = [float(size) for size in gradients.bytes.values()]
        if cost is None or not cost.measured:
            self._messages = self._probe(sizes)
            cost = fit(self._messages, cost)
        # The Horovod of rank 0 decides what is fused.
        most = comm.broadcast(torch.tensor([most_bytes], dtype=torch.float64), "adapt.threshold")
        self.state = begin(sizes, cost, most_bytes=float(most.item()))
        self._apply(self.state)
        self._began = clock()

    @property
    def cost(self) -> AllreduceCost | None:
        """As it is believed to be now."""
        return self.state.cost if self.state is not None else None

    def after(self, epoch: int) -> bool:
        """After epoch `epoch` of this process (from 1); collective. True where the groups changed."""
        if self.state is None or (epoch > FIRST_EPOCHS and epoch % EVERY):
            return False
        ready = [self._gradients.ready_seconds.get(name, 0.0) for name in self._names]
        own = torch.tensor([*ready, self._clock() - self._began, self._spent], dtype=torch.float64)
        by_rank = self._comm.gather(own, "adapt.ready")
        slowest = by_rank.max(dim=0).values.tolist()
        if not self._messages and self._affordable(self.state, float(by_rank[:, -2].min()), slowest[-1]):
            began = self._clock()
            self._rounds += self._due
            self._messages = self._probe(self.state.sizes_bytes)
            self._spent += self._clock() - began
        before = self.state
        self.state = observe(before, Observation(tuple(slowest[: len(ready)]), self._messages))
        self._messages = ()
        changed = self.state.groups != before.groups
        if changed:
            self._apply(self.state)
        return changed

    def _apply(self, state: AdaptState) -> None:
        self._gradients.regroup([[self._names[at] for at in group] for group in state.groups])

    @property
    def _due(self) -> int:
        """Rounds of the next probing: the first makes connections, and has nothing before it to be the median of."""
        return 1 if self._connected else _ROUNDS + 1

    def _affordable(self, state: AdaptState, elapsed_seconds: float, spent_seconds: float) -> bool:
        """Whether probing now stays within its part of the time, by what earlier rounds took or else by what links are believed to cost."""
        asked = probes(state.sizes_bytes)
        # Each row of messages, and the barrier before it, waits for Horovod's next look.
        guess = sum(times * seconds(state.cost, size) + 2 * CYCLE_SECONDS for size, times in asked)
        one = spent_seconds / self._rounds if self._rounds else guess
        return spent_seconds + self._due * one <= PROBED_PART * elapsed_seconds

    def _probe(self, sizes_bytes: Sequence[float]) -> tuple[Sample, ...]:
        timed = probe(self._comm, sizes_bytes, self._due, discard=not self._connected, device=self._gradients.device, clock=self._clock)
        self._connected = True
        return timed


def probe(
    comm: Comm,
    sizes_bytes: Sequence[float],
    rounds: int = _ROUNDS + 1,
    *,
    discard: bool = True,
    device: torch.device = _CPU,
    clock: Clock = time.perf_counter,
) -> tuple[Sample, ...]:
    """Bytes and seconds of allreduces as gradients of these sizes need them, the mean over ranks, the same on every rank; collective.

    Sizes take turns, so that whatever else the machine does in between hits all of them. discard: the first round makes connections and
    buffers, and does not count. device: where the gradients are; from elsewhere messages might take another way.
    """
    asked = probes(sizes_bytes)
    timer = Timer(device, clock)
    spans = Spans(timer)
    sent: list[int] = []
    for _ in range(rounds):
        for size, times in asked:
            payloads = [torch.zeros(int(size) // 4, device=device) for _ in range(times)]
            timer.settle()
            comm.barrier()
            spans.timed(partial(_summed, comm, payloads, f"probe.{int(size)}"))
            sent.append(times)
    timer.settle()
    timed = [spans.seconds(at, at + 1) / times for at, times in enumerate(sent)]
    counted = timed[len(asked) :] if discard else timed
    mean = comm.allreduce(torch.tensor(counted, dtype=torch.float64), "probe.times") / comm.size
    return tuple((asked[at % len(asked)][0], took) for at, took in enumerate(mean.tolist()))


def _summed(comm: Comm, payloads: Sequence[torch.Tensor], name: str) -> None:
    """All of them, on their way together."""
    waits = [comm.start_allreduce_([part], f"{name}.{at}") for at, part in enumerate(payloads)]
    for wait in waits:
        wait()
