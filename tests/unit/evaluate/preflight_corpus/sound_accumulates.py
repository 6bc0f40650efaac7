# mypy: ignore-errors
# ruff: noqa
"""Two backward passes a step, clipped gradients, a schedule of rates, a layer that is frozen."""

import torch
from little_graph import SmallGraph, SmallNetwork
from torch import nn

graph, model = SmallGraph(), SmallNetwork()
model.first.bias.requires_grad_(False)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
for _ in range(10):
    optimizer.zero_grad()
    for part in (graph.labels < 2, graph.labels >= 2):
        (nn.functional.cross_entropy(model(graph, graph.features)[part], graph.labels[part]) / 2).backward()
    nn.utils.clip_grad_norm_([parameter for parameter in model.parameters() if parameter.requires_grad], 1.0)
    optimizer.step()
    schedule.step()
