"""GCN, GraphSAGE and GAT over many small graphs with categories on vertices and edges, as the Open Graph Benchmark's baselines have them.

Hu et al., NeurIPS 2020: sums of embeddings, messages ReLU(x_u + e_uv), batch normalisation, mean over a graph's vertices. Categories of an
edge have few combinations (60 kinds of bonds): each layer adds up their embeddings once a kind, not once an edge.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional

from hyperscale.model.job import Architecture, ModelSpec
from hyperscale.worker.hyperparameters import Hyperparameters
from hyperscale.worker.models import Chance, Dropout
from hyperscale.worker.molecules_batch import Batch
from hyperscale.worker.molecules_norm import SharedNorm, Sums

Tensor = torch.Tensor
_LEAK = 0.2


class Embeddings(nn.Module):
    """Sum over columns of each column's embedding."""

    def __init__(self, sizes: Sequence[int], width: int) -> None:
        super().__init__()
        self.sizes = tuple(sizes)
        self.tables = nn.ParameterList([nn.Parameter(torch.empty(size, width)) for size in sizes])

    def forward(self, rows: Tensor) -> Tensor:
        """(n, width) of categories (n, columns)."""
        parts = [functional.embedding(rows[:, column], table) for column, table in enumerate(self.tables)]
        return torch.stack(parts).sum(0) if len(parts) > 1 else parts[0]


def received(messages: Tensor, batch: Batch) -> Tensor:
    """(n, …) sums of messages (e, …) by destination."""
    return messages.new_zeros((len(batch.vertices), *messages.shape[1:])).index_add(0, batch.destinations, messages)


def picked(rows: Tensor, index: Tensor) -> Tensor:
    """rows[index]; twice as fast as indexing, backwards too."""
    return functional.embedding(index, rows)


class GCNLayer(nn.Module):
    """Sum of ReLU(z_u + e_uv) / sqrt(d_u d_v) + ReLU(z_v + r) / d_v with z = x W + b and d = in-degree + 1."""

    def __init__(self, width: int, kinds: Embeddings) -> None:
        super().__init__()
        self.linear, self.kinds = nn.Linear(width, width), kinds
        self.root = nn.Parameter(torch.empty(1, width))

    def forward(self, x: Tensor, batch: Batch, kinds: Tensor, kind_of: Tensor) -> Tensor:
        """(n, width)."""
        z = self.linear(x)
        factor = (batch.in_degree + 1.0).rsqrt().unsqueeze(1)
        messages = functional.relu(picked(z, batch.sources) + picked(self.kinds(kinds), kind_of)) * factor[batch.sources]
        return received(messages, batch) * factor + functional.relu(z + self.root) * (factor * factor)


class SAGELayer(nn.Module):
    """X W + mean over in-neighbours of ReLU(x_u + e_uv), times V; the normalisation behind it has the bias."""

    def __init__(self, width: int, kinds: Embeddings) -> None:
        super().__init__()
        self.linear, self.neighbour = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.kinds = kinds

    def forward(self, x: Tensor, batch: Batch, kinds: Tensor, kind_of: Tensor) -> Tensor:
        """(n, width)."""
        messages = functional.relu(picked(x, batch.sources) + picked(self.kinds(kinds), kind_of))
        mean: Tensor = received(messages, batch) / batch.in_degree.clamp(min=1.0).unsqueeze(1)
        result: Tensor = self.linear(x) + self.neighbour(mean)
        return result


class GATLayer(nn.Module):
    """Heads that weigh z_u + e_uv and the vertex's own z_v by softmax(LeakyReLU(a_l m_uv + a_r z_v)); concatenated."""

    def __init__(self, width: int, kinds: Embeddings, heads: int, dropout: Dropout) -> None:
        super().__init__()
        self.linear, self.kinds, self.heads = nn.Linear(width, width, bias=False), kinds, heads
        self.left = nn.Parameter(torch.empty(heads, width // heads))
        self.right = nn.Parameter(torch.empty(heads, width // heads))
        self.dropout = dropout

    def forward(self, x: Tensor, batch: Batch, kinds: Tensor, kind_of: Tensor) -> Tensor:
        """(n, width)."""
        flat = self.linear(x)
        z = flat.view(len(x), self.heads, self.left.shape[1])
        messages = (picked(flat, batch.sources) + picked(self.kinds(kinds), kind_of)).view(len(kind_of), self.heads, self.left.shape[1])
        right = (z * self.right).sum(-1)
        scores = functional.leaky_relu((messages * self.left).sum(-1) + right[batch.destinations], _LEAK)
        own = functional.leaky_relu((z * self.left).sum(-1) + right, _LEAK)
        # The largest score of each vertex is subtracted, a constant to the softmax: exponentials stay small.
        largest = own.detach().scatter_reduce(0, batch.destinations.unsqueeze(1).expand_as(scores), scores.detach(), "amax")
        weights, own_weight = (scores - largest[batch.destinations]).exp(), (own - largest).exp()
        total = (received(weights, batch) + own_weight).unsqueeze(2)
        kept = self.dropout(weights.unsqueeze(2))
        gathered: Tensor = (received(messages * kept, batch) + z * self.dropout(own_weight.unsqueeze(2))) / total
        return gathered.flatten(1)


class GraphNetwork(nn.Module):
    """Embeddings, layers each with normalisation, ReLU (but the last) and dropout, the mean over each graph, one linear layer."""

    def __init__(self, encoder: nn.Module, layers: Sequence[nn.Module], norms: Sequence[SharedNorm], width: int, outputs: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.layers, self.norms = nn.ModuleList(layers), nn.ModuleList(norms)
        self.head = nn.Linear(width, outputs)
        self.dropout: Dropout | None = None

    def forward(self, features: Tensor, batch: Batch, kinds: Tensor, kind_of: Tensor) -> Tensor:
        """(g, outputs) logits. kinds: (k, a) categories of each kind of edge; kind_of: (e,) the kind of the batch's edges."""
        x = self.encoder(features)
        for index, (layer, norm) in enumerate(zip(self.layers, self.norms, strict=True)):
            x = norm(layer(x, batch, kinds, kind_of))
            if index < len(self.layers) - 1:
                x = functional.relu(x)
            if self.dropout is not None:
                x = self.dropout(x)
        pooled = x.new_zeros((len(batch.graphs), x.shape[1])).index_add(0, batch.graph_of, x) / batch.sizes.clamp(min=1.0).unsqueeze(1)
        result: Tensor = self.head(pooled)
        return result


def build(
    model: ModelSpec, hyper: Hyperparameters, vertex_sizes: Sequence[int] | int, edge_sizes: Sequence[int], outputs: int,
    chance: Chance, seed: int, sums: Sums,
) -> GraphNetwork:  # fmt: skip
    """The network, the same on every rank. vertex_sizes: values of each column, or the number of real-valued columns.

    Raises ValueError where GAT's heads do not divide the width.
    """
    width = model.hidden_size
    if model.architecture is Architecture.GAT and width % model.heads:
        raise ValueError(f"HYPERSCALE_MODEL: hiddenSize {width} is no multiple of {model.heads} heads; write e.g. {model.heads * 64}")
    encoder: nn.Module = nn.Linear(vertex_sizes, width) if isinstance(vertex_sizes, int) else Embeddings(vertex_sizes, width)
    layers = [_layer(model, hyper, Embeddings(edge_sizes, width), chance) for _ in range(model.layers)]
    norms = [SharedNorm(width, sums, f"layer{index}") for index in range(model.layers)]
    network = GraphNetwork(encoder, layers, norms, width, outputs)
    network.dropout = Dropout(hyper.dropout, chance)
    generator = torch.Generator().manual_seed(seed)
    for parameter in network.parameters():
        if parameter.dim() > 1:
            nn.init.xavier_uniform_(parameter, generator=generator)
    for module in network.modules():
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
    return network


def _layer(model: ModelSpec, hyper: Hyperparameters, kinds: Embeddings, chance: Chance) -> nn.Module:
    if model.architecture is Architecture.GAT:
        return GATLayer(model.hidden_size, kinds, model.heads, Dropout(hyper.attention_dropout, chance))
    return (GCNLayer if model.architecture is Architecture.GCN else SAGELayer)(model.hidden_size, kinds)
