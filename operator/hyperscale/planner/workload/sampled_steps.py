"""How many vertices and edges one sampled step touches. Pure."""

from __future__ import annotations

import math


def frontier(batch_size: int, fanouts: tuple[float, ...], vertices: int) -> tuple[float, ...]:
    """Vertices at each depth of the expansion, from the seeds (depth 0) to the inputs; len(fanouts) + 1 figures.

    batch_size: seeds of the step
    fanouts:    sampled neighbours per vertex, from the output layer inwards
    vertices:   of the graph; neighbourhoods overlap, so n draws reach vertices × (1 − exp(−n / vertices)) different ones
    """
    sizes = [float(min(batch_size, vertices))]
    for fanout in fanouts:
        drawn = sizes[-1] * (1.0 + fanout)
        sizes.append(max(sizes[-1], -vertices * math.expm1(-drawn / vertices)))
    return tuple(sizes)


def effective_fanouts(fanouts: tuple[int, ...], layers: int, mean_degree: float) -> tuple[float, ...]:
    """Neighbours per layer from the output layer inwards: what was asked for, never more than the mean degree.

    A missing entry means whole neighbourhoods. `fanouts` come outermost (input side) first, as DGL's samplers take them.
    """
    inwards = tuple(reversed(fanouts[:layers]))
    padded = inwards + (0,) * (layers - len(inwards))
    return tuple(min(float(fanout), mean_degree) if fanout else mean_degree for fanout in padded)
