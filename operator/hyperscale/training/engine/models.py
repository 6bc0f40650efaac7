"""GCN (Kipf and Welling, ICLR 2017), GraphSAGE with mean aggregation (Hamilton et al., NeurIPS 2017), GAT (Velickovic et al., ICLR 2018).

Every layer multiplies by its weights before it gathers neighbours where that makes them narrower: less to add up, less to send. What
follows a layer (activation, dropout) is its `tail`: where a neighbourhood is gathered in one pass, that pass ends with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from hyperscale.model.adjacency import Array
from hyperscale.model.api.choices import Architecture
from hyperscale.training.engine.adam import Adam
from hyperscale.training.engine.neighbourhood import GCN, MEAN, OWN_MEAN, Neighbourhood
from hyperscale.training.engine.sparse_features import SparseRows
from hyperscale.training.modelgraph import tails
from hyperscale.training.modelgraph.kernels import ELU, NOTHING, RELU, AttentionRows, Drop, Tail
from hyperscale.util.splitmix import SplitMix64

if TYPE_CHECKING:  # both need msgspec, which training itself does not
    from hyperscale.model.api.job import ModelSpec
    from hyperscale.training.runtime.published_settings import Hyperparameters

Tensor = torch.Tensor
Rows = Tensor | SparseRows
LEAK = 0.2
"""Slope of GAT's attention below 0."""


class DropoutRng:
    """Seeds of what is dropped, begun again for every epoch, so that a resumed run draws what it would have drawn.

    Ranks that count rows as the whole graph does (`Counted`) share those of rank 0, whatever their number.
    """

    def __init__(self, seed: int, rank: int) -> None:
        self._seed, self._rank = seed, rank
        self._draws = SplitMix64(0)

    def begin(self, epoch: int) -> None:
        """Of epoch `epoch`."""
        self._draws = SplitMix64((self._seed * 1_000_003 + self._rank) * 1_000_003 + epoch << 20)

    def seed(self) -> int:
        """Of the next dropout: below 2^62."""
        return self._draws.next() >> 2


class Dropout(nn.Module):
    """As torch's, drawing from these numbers; of sparse rows it drops the entries that are there."""

    def __init__(self, p: float, rng: DropoutRng) -> None:
        super().__init__()
        self.p, self._rng = p, rng

    @property
    def now(self) -> float:
        """The probability: 0 while evaluating."""
        return self.p if self.training else 0.0

    def next(self) -> Drop:
        """What is dropped next."""
        return Drop(self.p, self._rng.seed()) if self.now else Drop()

    def forward(self, x: Rows, ids: Array | None = None) -> Rows:
        """x, thinned out while training; ids: (rows,) int64 what draws count each row as on the processor, None: its place."""
        if not self.now:
            return x
        return x.dropped(self.next()) if isinstance(x, SparseRows) else tails.dropout(x, self.next(), ids)


def product(x: Rows, weight: Tensor) -> Tensor:
    """X W for dense or sparse rows; weight is (in, out)."""
    return x.times(weight) if isinstance(x, SparseRows) else x @ weight


def dense(x: Rows) -> Tensor:
    """The rows as an ordinary tensor."""
    return x.dense() if isinstance(x, SparseRows) else x


class GCNLayer(nn.Module):
    """D^-1/2 (A + I) D^-1/2 X W + b; with `weights` OWN_MEAN D^-1 (A + I) X W + b, GraphSAGE's gcn aggregator."""

    def __init__(self, inputs: int, outputs: int, name: str, weights: str = GCN) -> None:
        super().__init__()
        self._weights = weights
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(outputs))
        self._name, self._narrows = name, outputs <= inputs

    def forward(self, graph: Neighbourhood, x: Rows, tail: Tail = NOTHING) -> Tensor:
        """(d, outputs)."""
        if self._narrows:
            return graph.gather(self._weights, product(x, self.weight), self._name, bias=self.bias, tail=tail)
        gathered = graph.gather(self._weights, dense(x), self._name)
        return tails.finish(torch.addmm(self.bias, gathered, self.weight), tail, graph.counted.destinations)


class SAGELayer(nn.Module):
    """X W_self + mean over in-neighbours of X, times W_neighbour, + b."""

    def __init__(self, inputs: int, outputs: int, name: str) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.neighbour = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(outputs))
        self._name, self._narrows = name, outputs <= inputs

    def forward(self, graph: Neighbourhood, x: Rows, tail: Tail = NOTHING) -> Tensor:
        """(d, outputs)."""
        if self._narrows:
            # Two products rather than one with both weights: its halves would have to be copied apart, and back again backwards.
            return graph.gather(MEAN, product(x, self.neighbour), self._name, add=lambda: self._own(graph, x), bias=self.bias, tail=tail)
        rows = dense(x)
        own = torch.addmm(self.bias, graph.destinations(rows), self.weight)
        return tails.finish(torch.addmm(own, graph.gather(MEAN, rows, self._name), self.neighbour), tail, graph.counted.destinations)

    def _own(self, graph: Neighbourhood, x: Rows) -> Tensor:
        """X W_self of the destinations."""
        if isinstance(x, Tensor):
            return product(graph.destinations(x), self.weight)
        return graph.destinations(product(x, self.weight))


class GATLayer(nn.Module):
    """Heads that weigh in-neighbours and the vertex itself by softmax(LeakyReLU(a_l z_u + a_r z_v)); concatenated, or averaged."""

    def __init__(self, inputs: int, outputs: int, heads: int, name: str, dropout: Dropout, values: Dropout, *, average: bool) -> None:
        """dropout: of the weights; values: of what they weigh, after the scores are taken."""
        super().__init__()
        self.values = values
        self.weight = nn.Parameter(torch.empty(inputs, heads * outputs))
        self.left = nn.Parameter(torch.empty(heads, outputs))
        self.right = nn.Parameter(torch.empty(heads, outputs))
        self.bias = nn.Parameter(torch.zeros(outputs if average else heads * outputs))
        self.dropout = dropout
        self._name, self._heads, self._average = name, heads, average

    def forward(self, graph: Neighbourhood, x: Rows, tail: Tail = NOTHING) -> Tensor:
        """(d, outputs) where averaged, else (d, heads × outputs)."""
        projected = product(x, self.weight)
        how = AttentionRows(self._heads, LEAK, self.dropout.next())
        vectors = self.left, self.right
        if self.values.now:
            rows = graph.sources(projected, self._name)
            by_head = rows.view(-1, *self.left.shape)
            values = dense(self.values(by_head, self._by_head(graph.counted.sources))).flatten(1)
            out = graph.weighed(rows, values, vectors, how)
        elif not self._average:
            return graph.attend(projected, vectors, how, self._name, self.bias, tail)
        else:
            out = graph.attend(projected, vectors, how, self._name, None, NOTHING)
        rows = out.view(-1, *self.left.shape).mean(dim=1) if self._average else out
        return tails.finish(rows + self.bias, tail, graph.counted.destinations)

    def _by_head(self, ids: Array | None) -> Array | None:
        """(rows × heads,) numbers of each row's heads."""
        return None if ids is None else (ids[:, None] * self._heads + np.arange(self._heads)).reshape(-1)


class GraphNetwork(nn.Module):
    """Layers with dropout before each and a nonlinearity between them: ReLU, or ELU for GAT."""

    def __init__(self, layers: Sequence[nn.Module], dropout: float, rng: DropoutRng, *, elu: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.dropout = Dropout(dropout, rng)
        self.rng = rng
        self._activation = ELU if elu else RELU

    def forward(self, graphs: Sequence[Neighbourhood], x: Rows) -> Tensor:
        """(d, outputs) logits of the last graph's destinations; one neighbourhood a layer, input's first (the same one for full graphs)."""
        x = self.dropout(x, graphs[0].counted.rows)
        for index, (layer, graph) in enumerate(zip(self.layers, graphs, strict=True)):
            last = index == len(self.layers) - 1
            x = layer(graph, x, NOTHING if last else Tail(self._activation, self.dropout.next()))
        return dense(x)


def build(model: ModelSpec, hyper: Hyperparameters, inputs: int, outputs: int, rng: DropoutRng, seed: int) -> GraphNetwork:
    """The network with Glorot's weights, the same for the same seed on every rank. Raises ValueError for Custom."""
    if model.architecture is Architecture.CUSTOM:
        raise ValueError("HYPERSCALE_MODEL: architecture Custom needs its own script; write spec.model.script")
    attention = model.architecture is Architecture.GAT
    layers: list[nn.Module] = []
    width = inputs
    for index in range(model.layers):
        last = index == model.layers - 1
        size = outputs if last else model.hidden_size
        name = f"layer{index}"
        if attention:
            heads = (hyper.output_heads or model.heads) if last else model.heads
            drops = Dropout(hyper.attention_dropout, rng), Dropout(hyper.projected_dropout, rng)
            layers.append(GATLayer(width, size, heads, name, *drops, average=last))
            width = size * heads
        else:
            layers.append(_convolution(model.architecture, hyper, width, size, name))
            width = size
    network = GraphNetwork(layers, hyper.dropout, rng, elu=attention)
    initialise(network, seed)
    return network


def _convolution(architecture: Architecture, hyper: Hyperparameters, inputs: int, outputs: int, name: str) -> nn.Module:
    if architecture is Architecture.GCN:
        return GCNLayer(inputs, outputs, name)
    return SAGELayer(inputs, outputs, name) if hyper.aggregator == "Mean" else GCNLayer(inputs, outputs, name, OWN_MEAN)


def initialise(network: nn.Module, seed: int) -> None:
    """Glorot uniform for matrices, 0 for vectors."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in network.parameters():
        if parameter.dim() > 1:
            nn.init.xavier_uniform_(parameter, generator=generator)


def optimizer(network: GraphNetwork, hyper: Hyperparameters) -> torch.optim.Optimizer:
    """Adam with the paper's decay; on a GPU one kernel makes the whole step."""
    first, rest = list(network.layers[0].parameters()), list(network.layers[1:].parameters())
    rest_decay = 0.0 if hyper.decay_first_layer_only else hyper.weight_decay
    groups = [{"params": first, "weight_decay": hyper.weight_decay}, {"params": rest, "weight_decay": rest_decay}]
    return Adam(groups, lr=hyper.learning_rate, fused=first[0].device.type == "cuda" or None)
