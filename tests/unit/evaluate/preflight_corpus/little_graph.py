"""A small graph and a two-layer network over it, which the scripts beside this file train, each in its own way."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

VERTICES, EDGES, FEATURES, CLASSES = 500, 2000, 32, 4


class SmallGraph:
    """Random: sources, destinations, features, labels."""

    def __init__(self) -> None:
        draw = torch.Generator().manual_seed(1)
        self.edges = torch.randint(0, VERTICES, (2, EDGES), generator=draw)
        self.features = torch.randn(VERTICES, FEATURES, generator=draw)
        self.labels = torch.randint(0, CLASSES, (VERTICES,), generator=draw)


class SmallNetwork(nn.Module):
    """Two layers, neighbours added up between them."""

    def __init__(self, hidden: int = 16) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(FEATURES, hidden), nn.Linear(hidden, CLASSES)

    def forward(self, graph: SmallGraph, x: Tensor) -> Tensor:
        """(vertices, classes)."""
        hidden = self.first(x).relu()
        summed = torch.zeros_like(hidden).index_add(0, graph.edges[1], hidden[graph.edges[0]])
        return self.second(hidden + summed)


def train(step: Callable[[int, Tensor], Tensor] | None = None, steps: int = 20, rate: float = 0.01, model: nn.Module | None = None) -> None:
    """Train; `step` gets the number of the step, from 1, and the loss, and returns the loss that goes backward."""
    graph, network = SmallGraph(), model if model is not None else SmallNetwork()
    optimizer = torch.optim.Adam(network.parameters(), lr=rate)
    for number in range(1, steps + 1):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(network(graph, graph.features), graph.labels)
        if step is not None:
            loss = step(number, loss)
        loss.backward()
        optimizer.step()
