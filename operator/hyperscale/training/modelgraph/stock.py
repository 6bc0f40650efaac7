"""The three networks by name, of DGL's layers: what `hyperscale analyze GCN` looks at and what needs no file."""

from __future__ import annotations

from typing import Any, Final

import dgl.nn as dglnn
from torch import Tensor, nn
from torch.nn import functional

NAMES: Final = ("GCN", "GraphSAGE", "GAT")


class Stack(nn.Module):
    """Layers with an activation and dropout between them."""

    def __init__(self, layers: list[nn.Module], attention: bool, dropout: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.dropout = nn.Dropout(dropout)
        self.attention = attention

    def forward(self, graph: Any, x: Tensor) -> Tensor:  # noqa: ANN401 - DGL ships no types
        """(n, features) -> (n, classes)."""
        for index, layer in enumerate(self.layers):
            last = index == len(self.layers) - 1
            x = layer(graph, x)
            if self.attention:
                x = x.mean(1) if last else x.flatten(1)
            if not last:
                x = self.dropout(functional.elu(x) if self.attention else functional.relu(x))
        return x


def stack(name: str, features: int, hidden: int, classes: int, layers: int, heads: int, dropout: float = 0.5) -> Stack:
    """GCN, GraphSAGE (mean) or GAT; `hidden` is of all heads together. Raises ValueError for another name or heads that do not divide."""
    if name not in NAMES:
        raise ValueError(f"{name} is none of {', '.join(NAMES)}")
    if name == "GAT" and hidden % heads:
        raise ValueError(f"hidden {hidden} is no multiple of {heads} heads; write for example {hidden // heads * heads or heads}")
    convolutions: list[nn.Module] = []
    for index in range(layers):
        last = index == layers - 1
        entering, leaving = features if index == 0 else hidden, classes if last else hidden
        if name == "GCN":
            convolutions.append(dglnn.GraphConv(entering, leaving))
        elif name == "GraphSAGE":
            convolutions.append(dglnn.SAGEConv(entering, leaving, "mean"))
        else:
            convolutions.append(dglnn.GATConv(entering, leaving if last else leaving // heads, 1 if last else heads))
    return Stack(convolutions, name == "GAT", dropout)
