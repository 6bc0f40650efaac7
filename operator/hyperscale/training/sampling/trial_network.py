"""The network that a job would train, on a small graph of the job's widths: what can be tried without its data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import torch

from hyperscale.training.engine.models import DropoutRng, GraphNetwork, build
from hyperscale.training.engine.trainer import summed_loss as summed_loss
from hyperscale.training.modelgraph import csr
from hyperscale.training.sampling.sampling_blocks import Hop, SampledBlock

if TYPE_CHECKING:
    from hyperscale.model.api.job import ModelSpec
    from hyperscale.training.runtime.published_settings import Hyperparameters

VERTICES: Final = 211
NEIGHBOURS: Final = 5
"""In-neighbours of each vertex."""


class TrialNetwork(NamedTuple):
    """A network with the arguments of its forward, and labels."""

    network: GraphNetwork
    blocks: list[SampledBlock]
    """One for each layer."""
    features: torch.Tensor
    """(VERTICES, features)."""
    labels: torch.Tensor
    """(VERTICES,) classes."""
    train: torch.Tensor
    """(VERTICES,) booleans."""


def trial_network(model: ModelSpec, hyper: Hyperparameters, features: int, classes: int) -> TrialNetwork:
    """Return the network as a worker builds it, always the same for the same job. Raises ValueError for Custom."""
    rng = np.random.default_rng(0)
    places = rng.integers(0, VERTICES, VERTICES * NEIGHBOURS)
    hop = Hop(np.arange(VERTICES + 1) * NEIGHBOURS, places, VERTICES, VERTICES)
    degrees = np.stack([np.full(VERTICES, NEIGHBOURS), np.bincount(places, minlength=VERTICES)], axis=1)
    block = SampledBlock(hop, torch.from_numpy(degrees), csr)
    generator = torch.Generator().manual_seed(0)
    return TrialNetwork(
        build(model, hyper, features, classes, DropoutRng(0, 0), 0),
        [block] * model.layers,
        torch.randn(VERTICES, features, generator=generator),
        torch.arange(VERTICES) % classes,
        torch.arange(VERTICES) % 3 > 0,
    )


def own_module_sample(features: int, classes: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return features, labels and the training split for `modelgraph.analyze.sample_graph`, which has as many vertices."""
    generator = torch.Generator().manual_seed(0)
    return torch.randn(VERTICES, features, generator=generator), torch.arange(VERTICES) % classes, torch.arange(VERTICES) % 3 > 0


def global_loss(losses: Sequence[float], sizes: Sequence[int]) -> float:
    """Return the loss that training reports: sums of the ranks over all training vertices."""
    return math.fsum(losses) / sum(sizes)


def mean_loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the mean cross entropy, for a module of the job's own."""
    return summed_loss(logits, labels) / max(1, len(labels))
