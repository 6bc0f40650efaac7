"""Random models on random networks: what the agent learns allreduces on, and what all rules are compared on."""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np

NETWORKS: Final = (
    (5.23e-4, 8.57e-10),
    (9.08e-4, 7.40e-10),
    (9.75e-5, 3.06e-10),
    (2.36e-4, 4.06e-10),
    (4.20e-5, 2.06e-10),
    (2.55e-6, 9.84e-11),
)
"""Seconds per message and per byte.

10 GbE with 8 and 16 workers, 56 Gbit/s InfiniBand with 8 and 16, one node with 4 and 2.

From MG-WFBP's released constants (Shi, Chu, Li, INFOCOM 2019).
"""
LEAST_GRADIENTS: Final = 6
MOST_GRADIENTS: Final = 120
BACKWARD_SECONDS: Final = (2e-3, 0.3)
SIZES_BYTES: Final = (256.0, 2**24)


class AllreduceInstance(msgspec.Struct, frozen=True):
    """Gradients in the order of readiness on one network."""

    ready_seconds: tuple[float, ...]
    sizes_bytes: tuple[float, ...]
    alpha: float
    beta: float


def draw(rng: np.random.Generator, least: int = LEAST_GRADIENTS, most: int = MOST_GRADIENTS) -> AllreduceInstance:
    """Sizes as in real models: half of the gradients are biases and norms of a few hundred bytes, the others spread over five decades.

    Each gradient takes a part of the backward pass that is as uneven as exponential draws.
    """
    count = int(rng.integers(least, most + 1))
    alpha, beta = NETWORKS[int(rng.integers(len(NETWORKS)))]
    small, large = np.log(SIZES_BYTES)
    sizes = np.exp(rng.uniform(small, large, count))
    bias = rng.random(count) < 0.5
    sizes[bias] = np.exp(rng.uniform(small, np.log(16_384.0), int(bias.sum())))
    backward = float(np.exp(rng.uniform(*np.log(BACKWARD_SECONDS))))
    parts = rng.exponential(1.0, count)
    ready = backward * np.cumsum(parts) / parts.sum()
    return AllreduceInstance(tuple(ready.tolist()), tuple(np.round(sizes).tolist()), alpha, beta)
