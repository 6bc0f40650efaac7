"""GCN, GraphSAGE and GAT over many small graphs with categories on vertices and edges, as the Open Graph Benchmark's baselines have them.

Hu et al., NeurIPS 2020: sums of embeddings, messages ReLU(x_u + e_uv), batch normalisation, mean over a graph's vertices. Categories have
few combinations (374 kinds of atoms and 8 of bonds in the HIV set): their embeddings are added up once a kind, not once a vertex or edge.
Parameters are float64, see molecules_linear.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional

from hyperscale.model.api.job import Architecture, ModelSpec
from hyperscale.training.engine.models import LEAK, DropoutRng, initialise
from hyperscale.training.modelgraph.kernels import Drop
from hyperscale.training.molecules.molecules_batch import MoleculeBatch
from hyperscale.training.molecules.molecules_linear import Linear, linear, lookup, pool
from hyperscale.training.molecules.molecules_norm import SharedNorm, Sums
from hyperscale.training.molecules.molecules_ops import attention, gather, kept
from hyperscale.training.runtime.published_settings import Hyperparameters

Tensor = torch.Tensor
_LARGEST_DEGREE = 2**20
"""Edges of a vertex that have draws of their own."""


class Embeddings(nn.Module):
    """Sum over columns of each column's embedding."""

    _first: Tensor

    def __init__(self, sizes: Sequence[int], width: int) -> None:
        super().__init__()
        self.tables = nn.ParameterList([nn.Parameter(torch.empty(size, width, dtype=torch.float64)) for size in sizes])
        self.register_buffer("_first", torch.tensor([sum(sizes[:at]) for at in range(len(sizes))]), persistent=False)

    def forward(self, rows: Tensor) -> Tensor:
        """(n, width) float64 of categories (n, columns)."""
        return functional.embedding_bag(rows + self._first, torch.cat(list(self.tables)), mode="sum")


class MoleculeGCNLayer(nn.Module):
    """Sum of ReLU(z_u + e_uv) / sqrt(d_u d_v) + ReLU(z_v + r) / d_v with z = x W + b and d = in-degree + 1.

    With GraphSAGE's gcn aggregator the batch has 1 / d_v for both.
    """

    def __init__(self, width: int, kinds: Embeddings) -> None:
        super().__init__()
        self.linear, self.kinds = Linear(width, width), kinds
        self.root = nn.Parameter(torch.empty(1, width, dtype=torch.float64))

    def forward(self, x: Tensor, batch: MoleculeBatch, kinds: Tensor) -> Tensor:
        """(n, width)."""
        return gather(self.linear(x, batch.offsets), torch.cat([self.kinds(kinds), self.root]), batch.weights, batch, relu=True)


class MoleculeSAGELayer(nn.Module):
    """X W + mean over in-neighbours of ReLU(x_u + e_uv), times V; the normalisation behind it has the bias."""

    def __init__(self, width: int, kinds: Embeddings) -> None:
        super().__init__()
        self.linear, self.neighbour = Linear(width, width, bias=False), Linear(width, width, bias=False)
        self.kinds = kinds

    def forward(self, x: Tensor, batch: MoleculeBatch, kinds: Tensor) -> Tensor:
        """(n, width)."""
        mean = gather(x, self.kinds(kinds), batch.weights, batch, relu=True)
        result: Tensor = self.linear(x, batch.offsets) + self.neighbour(mean, batch.offsets)
        return result


class MoleculeGATLayer(nn.Module):
    """Heads that weigh z_u + e_uv and the vertex's own z_v by softmax(LeakyReLU(a_l m_uv + a_r z_v)); concatenated."""

    def __init__(self, width: int, kinds: Embeddings, heads: int, dropout: float, rng: DropoutRng) -> None:
        super().__init__()
        self.linear, self.kinds, self.heads = Linear(width, width, bias=False), kinds, heads
        self.left = nn.Parameter(torch.empty(heads, width // heads, dtype=torch.float64))
        self.right = nn.Parameter(torch.empty(heads, width // heads, dtype=torch.float64))
        self._dropout, self._rng = dropout, rng

    def forward(self, x: Tensor, batch: MoleculeBatch, kinds: Tensor) -> Tensor:
        """(n, width)."""
        z = self.linear(x, batch.offsets)
        table = functional.pad(self.kinds(kinds), (0, 0, 0, 1))
        ends = linear(z, torch.cat([self._by_head(self.left), self._by_head(self.right)]), None, batch.offsets)
        parts = attention(ends, table, self.left, LEAK, batch)
        if self.training and self._dropout:
            place = torch.arange(len(parts), device=parts.device) - batch.indptr[batch.destinations]
            edges = batch.ids[batch.destinations] * _LARGEST_DEGREE + place
            parts = parts * kept(edges, self.heads, Drop(self._dropout, self._rng.seed()))
        return gather(z, table, parts, batch, relu=False)

    def _by_head(self, vectors: Tensor) -> Tensor:
        """(heads, width): each head's product with its part of a row."""
        spread = torch.eye(self.heads, device=vectors.device, dtype=vectors.dtype).unsqueeze(2) * vectors
        return spread.reshape(self.heads, -1)


class GraphNetwork(nn.Module):
    """Embeddings, layers each with normalisation, ReLU (but the last) and dropout, the mean over each graph, one linear layer.

    Residual: each layer's result is added to what went into it.
    """

    def __init__(
        self, encoder: nn.Module, layers: Sequence[nn.Module], norms: Sequence[SharedNorm], width: int, outputs: int,
        hyper: Hyperparameters, rng: DropoutRng,
    ) -> None:  # fmt: skip
        super().__init__()
        self.encoder = encoder
        self.layers, self.norms = nn.ModuleList(layers), nn.ModuleList(norms)
        self.head = Linear(width, outputs)
        self._dropout, self._residual, self._rng = hyper.dropout, hyper.residual, rng

    def forward(self, features: Tensor, kind_of: Tensor | None, batch: MoleculeBatch, kinds: Tensor) -> Tensor:
        """(g, outputs) logits. features: of each kind of vertex, kind_of (n,) tells which, or of each vertex where it is None.

        kinds: (k, a) categories of each kind of edge.
        """
        x = self._encoded(features, kind_of, batch)
        for index, (layer, norm) in enumerate(zip(self.layers, self.norms, strict=True)):
            drop = Drop(self._dropout, self._rng.seed()) if self.training and self._dropout else Drop()
            after = norm(layer(x, batch, kinds), batch, drop, relu=index < len(self.layers) - 1)
            x = x + after if self._residual else after
        means = pool(x, batch.graph_of, batch.offsets) / batch.sizes.clamp(min=1.0).unsqueeze(1)
        result: Tensor = self.head(means, torch.arange(len(means) + 1))
        return result

    def _encoded(self, features: Tensor, kind_of: Tensor | None, batch: MoleculeBatch) -> Tensor:
        if isinstance(self.encoder, Linear):
            encoded: Tensor = self.encoder(features, batch.offsets)
            return encoded
        return lookup(self.encoder(features), torch.arange(len(features), device=features.device) if kind_of is None else kind_of)


def build(
    model: ModelSpec, hyper: Hyperparameters, vertex_sizes: Sequence[int] | int, edge_sizes: Sequence[int], outputs: int,
    rng: DropoutRng, seed: int, sums: Sums,
) -> GraphNetwork:  # fmt: skip
    """The network, the same on every rank. vertex_sizes: values of each column, or the number of real-valued columns.

    Raises ValueError where GAT's heads do not divide the width.
    """
    width = model.hidden_size
    if model.architecture is Architecture.GAT and width % model.heads:
        raise ValueError(f"HYPERSCALE_MODEL: hiddenSize {width} is no multiple of {model.heads} heads; write e.g. {model.heads * 64}")
    encoder: nn.Module = Linear(vertex_sizes, width) if isinstance(vertex_sizes, int) else Embeddings(vertex_sizes, width)
    layers = [_layer(model, hyper, Embeddings(edge_sizes, width), rng) for _ in range(model.layers)]
    norms = [SharedNorm(width, sums, f"layer{index}") for index in range(model.layers)]
    network = GraphNetwork(encoder, layers, norms, width, outputs, hyper, rng)
    initialise(network, seed)
    return network


def _layer(model: ModelSpec, hyper: Hyperparameters, kinds: Embeddings, rng: DropoutRng) -> nn.Module:
    if model.architecture is Architecture.GAT:
        return MoleculeGATLayer(model.hidden_size, kinds, model.heads, hyper.attention_dropout, rng)
    # GraphSAGE's gcn aggregator has one matrix as well: the batch's weights make the sum a mean.
    one_matrix = model.architecture is Architecture.GCN or hyper.aggregator == "GCN"
    return (MoleculeGCNLayer if one_matrix else MoleculeSAGELayer)(model.hidden_size, kinds)
