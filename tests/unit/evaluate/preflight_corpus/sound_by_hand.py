# mypy: ignore-errors
# ruff: noqa
"""Gradient descent without an optimizer."""

import torch
from little_graph import SmallGraph, SmallNetwork
from torch import nn

graph, model = SmallGraph(), SmallNetwork()
for _ in range(10):
    loss = nn.functional.cross_entropy(model(graph, graph.features), graph.labels)
    loss.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.01 * parameter.grad
            parameter.grad = None
