"""Epochs of many steps: all ranks' training vertices or graphs once, in batches that any number of ranks draws alike."""

from __future__ import annotations

import abc
from itertools import pairwise
from typing import Any, ClassVar, Final

import torch

from hyperscale.model.adjacency import Array
from hyperscale.training.engine.gradients import Gradients
from hyperscale.training.engine.models import DropoutRng
from hyperscale.training.engine.sampling_batches import Shuffle
from hyperscale.training.engine.timing import Moment, Spans, Timer
from hyperscale.training.engine.trainer import EpochStats
from hyperscale.training.runtime.comm import Comm

Tensor = torch.Tensor
Marks = list[tuple[Moment, int]]
"""Between the phases of one step: when, and how many waits there were before."""
_WAITING: Final = ("sample", "fetch")
"""Phases that count what they wait for as their own."""


class BatchTrainer(abc.ABC):
    """What mini-batch and graph-level training share; a step is theirs."""

    PHASES: ClassVar[tuple[str, ...]]
    """Of a step, the last three of them backward, allreduce and step."""
    model: Any
    optimizer: torch.optim.Optimizer
    gradients: Gradients
    steps: int
    rng: DropoutRng
    _comm: Comm
    _device: torch.device
    _timer: Timer
    _seed: int
    _samples: int
    """Training items of all ranks."""
    _shuffle: Shuffle
    _waits: Spans
    """For other ranks, without the sums of gradients."""

    def epoch(self, number: int) -> EpochStats:
        """Every training item once."""
        comm, timer, sent = self._comm, self._timer, self._comm.sent_bytes.copy()
        began = timer.now()
        self.rng.begin(number)
        self.model.train()
        self._waits.clear()
        self.gradients.waits.clear()
        batches = list(self._shuffle.batches(self.steps, self._seed, number))
        weights = self._summed(torch.tensor([self._labelled(batch) for batch in batches], dtype=torch.float64), "batch.weights").tolist()
        total = torch.zeros(1, dtype=torch.float64, device=self._device)
        steps: list[Marks] = []
        for step, (batch, weight) in enumerate(zip(batches, weights, strict=True)):
            steps.append([])
            total += self._step(batch, max(weight, 1.0), (number, step), steps[-1])
        loss = (self._summed(total.cpu(), "loss") / max(sum(weights), 1.0)).float()  # the last digits of the sum have an order
        ended = timer.now()
        timer.settle()
        return EpochStats(
            loss=float(loss.item()),
            samples=self._samples,
            seconds=timer.seconds(began, ended),
            communication_seconds=self._waits.seconds() + self.gradients.waits.seconds(),
            phases=self._phases(steps),
            sent_bytes=tuple(int(count) for count in comm.sent_bytes - sent),
        )

    @abc.abstractmethod
    def _labelled(self, batch: Array) -> float:
        """Known labels of own items."""

    @abc.abstractmethod
    def _step(self, batch: Array, weight: float, place: tuple[int, int], marks: Marks) -> Tensor:
        """One step, `place` its epoch and number; own sum of losses of a batch with `weight` labels. A mark before and after each phase."""

    def _summed(self, x: Tensor, name: str) -> Tensor:
        """Over all ranks; collective."""
        return self._comm.allreduce(x, name)

    def _mark(self, marks: Marks) -> None:
        marks.append((self._timer.now(), self._waits.count))

    def _learn(self, loss: Tensor, marks: Marks) -> None:
        """The last three phases of a step, from the loss over the whole batch's weight."""
        self.gradients.start()
        loss.backward()  # type: ignore[no-untyped-call]
        self._mark(marks)
        self.gradients.finish()
        self._mark(marks)
        self.optimizer.step()
        self._mark(marks)

    def _phases(self, steps: list[Marks]) -> dict[str, float]:
        """Seconds of all steps by phase."""
        total = dict.fromkeys(self.PHASES, 0.0)
        for marks in steps:
            for name, ((first, before), (last, after)) in zip(self.PHASES, pairwise(marks), strict=True):
                waited = 0.0 if name in _WAITING else self._waits.seconds(before, after)
                total[name] += self._timer.seconds(first, last) - waited
        return total
