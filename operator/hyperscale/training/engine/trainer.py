"""What every way of training offers to the loop: one epoch, one evaluation, its model and optimizer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch.nn import functional

from hyperscale.training.engine.gradients import Gradients


@dataclass(frozen=True)
class EpochStats:
    """One epoch as one rank saw it."""

    loss: float
    """Over all training vertices (or graphs) of all ranks: the same number on every rank."""
    samples: int
    """Training vertices (or graphs) of all ranks that the epoch went through."""
    seconds: float
    """Wall time of this rank."""
    communication_seconds: float
    """Of `seconds`, the wait for halos, fetches and gradients."""
    phases: dict[str, float] = field(default_factory=dict)
    """Seconds by name: forward, halo, backward, allreduce, step, sample, fetch, …"""
    sent_bytes: tuple[int, ...] = ()
    """Bytes that this rank sent to each rank: boundary rows, gradients of them, fetched features."""

    @property
    def compute_seconds(self) -> float:
        """Of `seconds`, the part without waiting for others."""
        return self.seconds - self.communication_seconds


@dataclass(frozen=True)
class Scores:
    """0..1, over all ranks, the same on every rank: accuracy, or ROC-AUC for graphs with yes-or-no tasks.

    NaN where nothing is to be scored.
    """

    train: float
    validation: float
    test: float
    validation_loss: float = float("nan")


def summed_loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Sum over known labels: a class a row, (n,), -1 where unknown; or yes or no for several tasks, (n, tasks), NaN where unknown."""
    if labels.dim() == 1:
        return functional.cross_entropy(logits, labels, reduction="sum", ignore_index=-1)
    labelled = ~labels.isnan()
    return functional.binary_cross_entropy_with_logits(logits[labelled], labels[labelled], reduction="sum")


class Trainer(Protocol):
    """Full-graph, sampled or graph-level. All ranks call the same methods in the same order."""

    @property
    def model(self) -> torch.nn.Module:
        """The same on every rank at every epoch's start and end."""
        ...

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """Of the model; its state is the same on every rank too."""
        ...

    @property
    def gradients(self) -> Gradients:
        """What sums the model's gradients over ranks."""
        ...

    @property
    def steps(self) -> int:
        """Of the optimizer in an epoch."""
        ...

    def epoch(self, number: int) -> EpochStats:
        """Train epoch `number` (from 1).

        Its chance depends on seed, rank and number alone, so that a resumed run continues as it would have.
        """
        ...

    def evaluate(self) -> Scores:
        """Score the model as it is; changes nothing."""
        ...
