"""A running average of the weights, which is what is scored: it moves less from step to step than the weights, and often scores higher.

Polyak and Juditsky 1992; exponential, with a decay that grows from nothing as in TensorFlow's ExponentialMovingAverage. The figures of
batch normalisation are averaged too. Weights are the same on all ranks after each step, and so are averages.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch

Tensor = torch.Tensor
PREFIX: Final = "average."
_STEPS: Final = f"{PREFIX}steps"


class Average:
    """Of one model, taken on after each step of its optimizer."""

    def __init__(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, decay: float) -> None:
        """decay: of a step; 0: no average is kept, the weights themselves are scored."""
        self._decay, self._steps = decay, 0
        state = {name: tensor.detach() for name, tensor in model.state_dict().items() if tensor.is_floating_point()}
        self._now: dict[str, Tensor] = state if decay else {}
        """The model's own tensors."""
        self._tensors = {name: tensor.clone() for name, tensor in self._now.items()}
        if decay:
            optimizer.register_step_post_hook(self._take)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The model has the averaged weights inside."""
        own = {name: tensor.clone() for name, tensor in self._now.items()}
        _copy(self._tensors, self._now)
        try:
            yield
        finally:
            _copy(own, self._now)

    def state(self) -> dict[str, Tensor]:
        """For a checkpoint; nothing where no average is kept."""
        tensors = {f"{PREFIX}model.{name}": tensor for name, tensor in self._tensors.items()}
        return tensors | ({_STEPS: torch.tensor(self._steps)} if self._decay else {})

    def load(self, tensors: dict[str, Tensor]) -> None:
        """`state` back; a checkpoint written without an average begins one at its weights."""
        if self._decay and _STEPS in tensors:
            self._steps = int(tensors[_STEPS].item())
        _copy({name: tensors.get(f"{PREFIX}model.{name}", tensor) for name, tensor in self._now.items()}, self._tensors)

    def _take(self, *_: Any) -> None:  # noqa: ANN401 - torch's hooks hand over the optimizer and its arguments
        self._steps += 1
        decay = min(self._decay, (1.0 + self._steps) / (10.0 + self._steps))
        for name, tensor in self._now.items():
            self._tensors[name].lerp_(tensor, 1.0 - decay)


def _copy(source: dict[str, Tensor], target: dict[str, Tensor]) -> None:
    for name, tensor in target.items():
        tensor.copy_(source[name])
