"""The peer of benchmarks/gpu.py: PyTorch Geometric's layers, trained as its examples train them, on the same graphs."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.gpu_cases import CLASSES, LAYERS, Case
from hyperscale.model.adjacency import LocalPart
from hyperscale.model.api.choices import Architecture
from hyperscale.training.engine.timing import Timer

try:
    import torch_geometric
    from torch_geometric import nn as layers
except ImportError:
    torch_geometric = None

PRESENT: Final = torch_geometric is not None
VERSION: Final = str(getattr(torch_geometric, "__version__", ""))
FORMS: Final = ("edge_index", "CSR")
"""Edges as pairs, with messages by edge; as torch's sparse CSR, which GCNConv and SAGEConv multiply with."""


class Model(nn.Module):
    """Convolutions with an activation and dropout between them."""

    def __init__(self, case: Case, form: str) -> None:
        super().__init__()
        widths = [case.features, *([case.hidden] * (LAYERS - 1)), CLASSES]
        self.dropout, self.attends = case.dropout, case.attends
        made: list[Any] = []
        for at, (entering, leaving) in enumerate(pairwise(widths)):
            last = at == LAYERS - 1
            if case.architecture == Architecture.GAT:
                width = leaving if last else leaving // case.heads
                made.append(layers.GATConv(entering, width, case.heads, concat=not last, dropout=case.dropout))
            elif case.architecture == Architecture.GCN:
                # What a full-graph run keeps from step to step: the normalised weights.
                made.append(layers.GCNConv(entering, leaving, cached=True))
            else:
                made.append(layers.SAGEConv(entering, leaving))
        self.convolutions = nn.ModuleList(made)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        """(n, classes)."""
        for at, layer in enumerate(self.convolutions):
            x = layer(functional.dropout(x, self.dropout, self.training), edges)
            if at < LAYERS - 1:
                x = functional.elu(x) if self.attends else x.relu()
        return x


def epoch_seconds(case: Case, part: LocalPart, device: torch.device, form: str, epochs: int) -> list[float]:
    """Seconds of each of `epochs` training epochs after two that are not counted, by the device's own moments."""
    x, labels = torch.from_numpy(part.features).to(device), torch.from_numpy(part.labels).to(device)
    train = torch.from_numpy(part.train).to(device)
    destination = np.repeat(np.arange(len(part.owned)), np.diff(part.indptr))
    if form == "CSR":
        crow, col = torch.from_numpy(part.indptr), torch.from_numpy(part.indices.astype(np.int64))
        size = (len(part.owned), len(part.owned))
        edges = torch.sparse_csr_tensor(crow, col, torch.ones(len(part.indices)), size).to(device)
    else:
        edges = torch.from_numpy(np.stack([part.indices.astype(np.int64), destination])).to(device)
    model = Model(case, form).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    timer, moments = Timer(device), []
    model.train()
    for _ in range(epochs + 2):
        moments.append(timer.now())
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x, edges)[train], labels[train])
        loss.backward()  # type: ignore[no-untyped-call] # torch annotates only a part of Tensor
        optimizer.step()
        moments.append(timer.now())
        timer.settle()
    return [timer.seconds(*moments[at : at + 2]) for at in range(4, len(moments), 2)]
