"""An oracle for models by brute force, written apart from the checks: take one training step and look at what changed.

A model trains where a step of plain gradient descent runs and changes every parameter to another finite value. The loss that is reported
for any split of the vertices must be the one of all vertices, added up vertex by vertex.
"""

from __future__ import annotations

import copy
from typing import Final

import numpy as np
import torch

from benchmarks.verify_models import ModelCase

STEP: Final = 0.05
SPLITS: Final = ((0.5, 0.5), (0.2, 0.8), (0.1, 0.2, 0.7))
TOLERANCE: Final = 1e-3


def trains(case: ModelCase) -> bool:
    """Whether a step and all splits go well. The case is left as it was."""
    network = copy.deepcopy(case.model)
    try:
        return _steps(network, case) and _splits(network, case)
    except (RuntimeError, IndexError, ValueError, TypeError):
        return False


def _steps(network: torch.nn.Module, case: ModelCase) -> bool:
    """One step changes all parameters."""
    sample = case.sample
    before = [value.detach().clone() for value in network.parameters()]
    moving = [value for value in network.parameters() if value.requires_grad]
    descent = torch.optim.SGD(moving, lr=STEP)
    scores = network(sample.graph, sample.features)
    if scores.shape[1] != sample.classes:
        return False
    rows = [row for row in range(len(sample.labels)) if sample.train[row]]
    loss = sum(-torch.log_softmax(scores[row], 0)[_class(sample.labels[row])] for row in rows)
    loss.backward()  # type: ignore[union-attr] # a sum of at least one tensor
    descent.step()
    after = list(network.parameters())
    return all(bool((one != other).any()) and bool(torch.isfinite(other).all()) for one, other in zip(before, after, strict=True))


def _class(label: torch.Tensor) -> int:
    if label.dtype.is_floating_point:
        raise TypeError("a class is a whole number")
    number = int(label)
    if number < 0:
        raise IndexError("a class is not negative")
    return number


def _splits(network: torch.nn.Module, case: ModelCase) -> bool:
    """Every split of the training vertices gives the loss of all."""
    sample = case.sample
    rows = np.flatnonzero(sample.train.numpy())
    with torch.no_grad():
        scores = network(sample.graph, sample.features)
        each = [float(-torch.log_softmax(scores[row], 0)[_class(sample.labels[row])]) for row in rows]
        for split in SPLITS:
            parts = np.split(rows, np.rint(np.cumsum(split)[:-1] * len(rows)).astype(int))
            losses = [float(case.loss(scores[part], sample.labels[part])) for part in parts]
            if abs(case.combine(losses, [len(part) for part in parts]) - sum(each) / len(each)) > TOLERANCE:
                return False
    return True
