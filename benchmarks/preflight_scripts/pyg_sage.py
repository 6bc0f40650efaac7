"""PyTorch Geometric's GraphSAGE on the rank's graph; messages have a row for each edge."""

from __future__ import annotations

import torch
from rank_graph import rank_graph
from torch.nn.functional import cross_entropy
from torch_geometric.nn import GraphSAGE

x, edges, labels, train, classes = rank_graph()
model = GraphSAGE(x.shape[1], 64, 2, classes, dropout=0.5)
optimizer = torch.optim.Adam(model.parameters())
for _ in range(100):
    optimizer.zero_grad()
    cross_entropy(model(x, edges)[train], labels[train]).backward()
    optimizer.step()
