"""Sums gradients over all ranks while the backward pass still runs: fused in the groups that the schedule gives, in FP16 where wanted.

Losses are already divided by the whole batch's training vertices, so gradients are summed, never averaged: exact under uneven shares.
What horovod.torch.DistributedOptimizer does with its `groups`, except that groups can change between steps and that the times at which
gradients became ready are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

import torch

from hyperscale.training.engine.timing import Moment, Spans, Timer
from hyperscale.training.runtime.comm import Comm

Tensor = torch.Tensor


class Gradients:
    """Of one model; between `start` and `finish` each gradient is on its way as soon as its group is complete."""

    def __init__(self, comm: Comm, model: torch.nn.Module, groups: Sequence[Sequence[str]] | None = None, *, half: bool = False) -> None:
        """groups: names of parameters that travel as one message; None leaves fusion to Horovod. half: send float16."""
        self._comm = comm
        self._parameters = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
        self._half = half
        self._pending: list[Callable[[], None]] = []
        self._timer = Timer(self.device)
        self.waits = Spans(self._timer)
        """For the sums over ranks."""
        self._started = self._timer.now()
        self._ready: dict[str, Moment] = {}
        self.regroup(groups)
        for name, parameter in self._parameters.items():
            parameter.register_post_accumulate_grad_hook(self._hook(name))  # type: ignore[no-untyped-call]

    @property
    def bytes(self) -> dict[str, int]:
        """What each gradient sends."""
        return {name: parameter.numel() * (2 if self._half else parameter.element_size()) for name, parameter in self._parameters.items()}

    @property
    def device(self) -> torch.device:
        """Where they are, and so which links they take."""
        return next((parameter.device for parameter in self._parameters.values()), torch.device("cpu"))

    @property
    def ready_seconds(self) -> dict[str, float]:
        """By parameter: from `start` to its gradient, in the last backward pass; on a GPU after the epoch's end."""
        return {name: self._timer.seconds(self._started, ready) for name, ready in self._ready.items()}

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """As they are now, in order of their first parameter."""
        return self._groups

    def regroup(self, groups: Sequence[Sequence[str]] | None) -> None:
        """Other groups from the next `start` on; the same on all ranks. What is in no group travels alone."""
        named = [tuple(group) for group in groups or ()]
        grouped = list(chain.from_iterable(named))
        unknown = sorted(set(grouped) - set(self._parameters))
        if unknown or len(set(grouped)) != len(grouped):
            raise ValueError(f"groups name unknown parameters or one twice: {unknown or grouped}")
        self._groups = (*named, *((name,) for name in self._parameters if name not in set(grouped)))
        self._group_of = {name: index for index, group in enumerate(self._groups) for name in group}
        self._missing = list(map(len, self._groups))

    def start(self) -> None:
        """Before each backward pass."""
        self._missing = [len(group) for group in self._groups]
        self._pending = []
        self._armed = True
        self._started = self._timer.now()

    def finish(self) -> None:
        """After it: all gradients are the sums over all ranks."""
        self.waits.timed(self._finish)

    def _finish(self) -> None:
        self._armed = False
        for index, missing in enumerate(self._missing):
            if missing:
                self._send(index)
        for wait in self._pending:
            wait()
        self._pending = []

    _armed = False

    def _hook(self, name: str) -> Callable[[Tensor], None]:
        def ready(_: Tensor) -> None:
            if not self._armed or self._comm.size == 1:
                return
            self._ready[name] = self._timer.now()
            index = self._group_of[name]
            self._missing[index] -= 1
            if self._missing[index] == 0:
                self._send(index)

        return ready

    def _send(self, index: int) -> None:
        """A parameter that took no part in this step counts as 0: another rank may have used it."""
        group = self._groups[index]
        gradients = []
        for name in group:
            parameter = self._parameters[name]
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            gradients.append(parameter.grad)
        self._missing[index] = 0
        if self._comm.size == 1:
            return
        sent = [gradient.half() for gradient in gradients] if self._half else gradients
        wait = self._comm.start_allreduce_(sent, f"gradient.{group[0]}.{len(group)}")

        def done() -> None:
            wait()
            if self._half:
                for gradient, summed in zip(gradients, sent, strict=True):
                    gradient.copy_(summed)

        self._pending.append(done)
