"""A model of one's own: graph isomorphism layers (Xu et al., ICLR 2019) with batch norms, and logits of all layers added up."""

from __future__ import annotations

import torch
from rank_graph import rank_graph
from torch import Tensor, nn
from torch.nn.functional import cross_entropy


class Isomorphism(nn.Module):
    """Three layers; each sums neighbours, then applies a perceptron."""

    def __init__(self, features: int, hidden: int, classes: int) -> None:
        super().__init__()
        widths = [features, hidden, hidden]
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(width, hidden), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Linear(hidden, hidden)) for width in widths
        )
        self.outputs = nn.ModuleList(nn.Linear(hidden, classes) for _ in widths)

    def forward(self, x: Tensor, matrix: Tensor) -> Tensor:
        """(vertices, classes)."""
        logits = torch.zeros(())
        for layer, output in zip(self.layers, self.outputs, strict=True):
            x = layer(x + matrix @ x).relu()
            logits = logits + output(x)
        return logits


x, edges, labels, train, classes = rank_graph()
matrix = torch.sparse_coo_tensor(edges.flip(0), torch.ones(edges.shape[1]), (len(x), len(x))).to_sparse_csr()
model = Isomorphism(x.shape[1], 64, classes)
optimizer = torch.optim.Adam(model.parameters())
for _ in range(100):
    optimizer.zero_grad()
    cross_entropy(model(x, matrix)[train], labels[train]).backward()
    optimizer.step()
