"""Learning rates over a run: as stated, or rising over the first epoch and falling as a cosine to 0 at the last step.

Loshchilov and Hutter, ICLR 2017, without restarts; the rise is Goyal et al. 2017. Without it Adam's first steps, of full length in
directions that hardly any graph has voted on, cost the HIV set's GCN 3 points of ROC-AUC on the validation molecules.
"""

from __future__ import annotations

import math
from typing import Any

import torch


class Rates:
    """Of one optimizer; set before each of its steps from the step's number alone, so that a resumed run continues with them."""

    def __init__(self, optimizer: torch.optim.Optimizer, schedule: str, epochs: int, steps: int) -> None:
        """schedule: Constant, or Cosine; steps: of an epoch."""
        self._optimizer, self._epochs, self._steps, self._done = optimizer, epochs, steps, 0
        self._stated = [group["lr"] for group in optimizer.param_groups]
        if schedule == "Cosine":
            optimizer.register_step_pre_hook(self._set)

    def begin(self, epoch: int) -> None:
        """Of epoch `epoch`, from 1."""
        self._done = (epoch - 1) * self._steps

    def _set(self, *_: Any) -> None:  # noqa: ANN401 - torch's hooks hand over the optimizer and its arguments
        rise = min(1.0, (self._done + 1) / self._steps)
        fall = 0.5 * (1.0 + math.cos(math.pi * min(1.0, self._done / (self._epochs * self._steps))))
        for group, rate in zip(self._optimizer.param_groups, self._stated, strict=True):
            group["lr"] = rate * rise * fall
        self._done += 1
