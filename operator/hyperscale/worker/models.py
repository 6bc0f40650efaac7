"""GCN (Kipf and Welling, ICLR 2017), GraphSAGE with mean aggregation (Hamilton et al., NeurIPS 2017), GAT (Velickovic et al., ICLR 2018).

Every layer multiplies by its weights before it gathers neighbours where that makes them narrower: less to add up, less to send.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional

from hyperscale.model.job import Architecture, ModelSpec
from hyperscale.worker import ops
from hyperscale.worker.hyperparameters import Hyperparameters
from hyperscale.worker.neighbourhood import Neighbourhood
from hyperscale.worker.sparse import SparseRows

Tensor = torch.Tensor
Rows = Tensor | SparseRows
_LEAK = 0.2
"""Slope of GAT's attention below 0."""


class Chance:
    """The random numbers of one rank, begun anew for every epoch, so that a resumed run draws what it would have drawn."""

    def __init__(self, seed: int, rank: int, device: torch.device | str = "cpu") -> None:
        self._seed, self._rank = seed, rank
        self.generator = torch.Generator(device=device)

    def begin(self, epoch: int) -> None:
        """Of epoch `epoch`."""
        self.generator.manual_seed((self._seed * 1_000_003 + self._rank) * 1_000_003 + epoch & (2**63 - 1))

    def keep(self, shape: Sequence[int], dropout: float, device: torch.device) -> Tensor:
        """0 with probability `dropout`, else 1 / (1 - dropout)."""
        drawn = torch.empty(tuple(shape), device=device).uniform_(generator=self.generator)  # a quarter of the time of bernoulli_
        return drawn.ge_(dropout).div_(1.0 - dropout)


class Dropout(nn.Module):
    """As torch's, drawing from the rank's own numbers; of sparse rows it drops the entries that are there."""

    def __init__(self, p: float, chance: Chance) -> None:
        super().__init__()
        self.p, self._chance = p, chance

    def forward(self, x: Rows) -> Rows:
        """x, thinned out while training."""
        if not self.training or self.p == 0.0:
            return x
        if isinstance(x, SparseRows):
            return x.scaled(self._chance.keep(x.values.shape, self.p, x.values.device))
        return x * self._chance.keep(x.shape, self.p, x.device)


def product(x: Rows, weight: Tensor) -> Tensor:
    """X W for dense or sparse rows; weight is (in, out)."""
    return x.times(weight) if isinstance(x, SparseRows) else x @ weight


def dense(x: Rows) -> Tensor:
    """The rows as an ordinary tensor."""
    return x.dense() if isinstance(x, SparseRows) else x


class GCNLayer(nn.Module):
    """D^-1/2 (A + I) D^-1/2 X W + b."""

    def __init__(self, inputs: int, outputs: int, name: str) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(outputs))
        self._name, self._narrows = name, outputs <= inputs

    def forward(self, graph: Neighbourhood, x: Rows) -> Tensor:
        """(d, outputs)."""
        rows = (product(x, self.weight) if self._narrows else dense(x)) * graph.source_norm
        gathered = (graph.sum(rows, self._name) + graph.destinations(rows)) * graph.destination_norm
        return (gathered if self._narrows else gathered @ self.weight) + self.bias


class SAGELayer(nn.Module):
    """X W_self + mean over in-neighbours of X, times W_neighbour, + b."""

    def __init__(self, inputs: int, outputs: int, name: str) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.neighbour = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(outputs))
        self._name, self._narrows = name, outputs <= inputs

    def forward(self, graph: Neighbourhood, x: Rows) -> Tensor:
        """(d, outputs)."""
        inverse = graph.destination_degree.clamp(min=1.0).reciprocal().unsqueeze(1)
        if self._narrows:
            mine, theirs = product(x, torch.cat([self.weight, self.neighbour], dim=1)).chunk(2, dim=1)
            return graph.destinations(mine) + graph.sum(theirs.contiguous(), self._name) * inverse + self.bias
        rows = dense(x)
        return graph.destinations(rows) @ self.weight + (graph.sum(rows, self._name) * inverse) @ self.neighbour + self.bias


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

    def forward(self, graph: Neighbourhood, x: Rows) -> Tensor:
        """(d, outputs) where averaged, else (d, heads × outputs)."""
        projected = product(x, self.weight)
        sources = graph.sources(projected, self._name).view(-1, self._heads, self.left.shape[1])
        destinations = graph.destinations(projected).view(-1, self._heads, self.left.shape[1])
        left = (sources * self.left).sum(-1, keepdim=True)
        right = (destinations * self.right).sum(-1, keepdim=True)
        scores = functional.leaky_relu(ops.u_add_v(graph.looped, left, right), _LEAK)
        weights = self.dropout(ops.edge_softmax(graph.looped, scores))
        gathered = ops.u_mul_e_sum(graph.looped, dense(self.values(sources)), weights)
        return (gathered.mean(dim=1) if self._average else gathered.flatten(1)) + self.bias


class Network(nn.Module):
    """Layers with dropout before each and a nonlinearity between them: ReLU, or ELU for GAT."""

    def __init__(self, layers: Sequence[nn.Module], dropout: float, chance: Chance, *, elu: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.dropout = Dropout(dropout, chance)
        self.chance = chance
        self._elu = elu

    def forward(self, graphs: Sequence[Neighbourhood], x: Rows) -> Tensor:
        """(d, outputs) logits of the last graph's destinations; one neighbourhood a layer, input's first (the same one for full graphs)."""
        for index, (layer, graph) in enumerate(zip(self.layers, graphs, strict=True)):
            if index:
                x = functional.elu(dense(x)) if self._elu else functional.relu(dense(x))
            x = layer(graph, self.dropout(x))
        return dense(x)


def build(model: ModelSpec, hyper: Hyperparameters, inputs: int, outputs: int, chance: Chance, seed: int) -> Network:
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
            drops = Dropout(hyper.attention_dropout, chance), Dropout(hyper.projected_dropout, chance)
            layers.append(GATLayer(width, size, heads, name, *drops, average=last))
            width = size * heads
        else:
            layers.append((GCNLayer if model.architecture is Architecture.GCN else SAGELayer)(width, size, name))
            width = size
    network = Network(layers, hyper.dropout, chance, elu=attention)
    initialise(network, seed)
    return network


def initialise(network: nn.Module, seed: int) -> None:
    """Glorot uniform for matrices, 0 for vectors."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in network.parameters():
        if parameter.dim() > 1:
            nn.init.xavier_uniform_(parameter, generator=generator)


def optimizer(network: Network, hyper: Hyperparameters) -> torch.optim.Optimizer:
    """Adam with the paper's decay."""
    first, rest = list(network.layers[0].parameters()), list(network.layers[1:].parameters())
    rest_decay = 0.0 if hyper.decay_first_layer_only else hyper.weight_decay
    return torch.optim.Adam(
        [{"params": first, "weight_decay": hyper.weight_decay}, {"params": rest, "weight_decay": rest_decay}], lr=hyper.learning_rate
    )
