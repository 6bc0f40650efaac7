# mypy: ignore-errors
# ruff: noqa
"""Fewer labels than vertices."""

import torch
from little_graph import SmallGraph, SmallNetwork

graph, model = SmallGraph(), SmallNetwork()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.nn.functional.cross_entropy(model(graph, graph.features), graph.labels[:-1]).backward()
optimizer.step()
