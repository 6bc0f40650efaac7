# mypy: ignore-errors
# ruff: noqa
"""torch.distributed over the addresses of its contract, one rank."""

import torch
from little_graph import CLASSES, FEATURES, SmallGraph
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

distributed.init_process_group("gloo")
graph = SmallGraph()
model = DistributedDataParallel(nn.Linear(FEATURES, CLASSES))
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(10):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(graph.features), graph.labels).backward()
    optimizer.step()
