"""Hulk's own set-up (arXiv 2302.13741, sections 3 and 4): machines are nodes to classify, a class is a task, the loss is cross-entropy.

Edge pooling first: every link's time is merged with the machine at its other end, the mean and the maximum of the links are put into the
node; then a graph convolution network. The paper gives neither widths nor rates; ours are below.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import dgl
import dgl.function as fn
import numpy as np
import torch
from dgl.nn import GraphConv
from torch import Tensor, nn

from hyperscale.model.graph import BoolArray, FloatArray, IntArray

WIDTH: Final = 64
LAYERS: Final = 1
RATE: Final = 3e-2
"""Of Adam. One or two layers, 0.003 to 0.03 were tried: this learns given labels fastest; held-out machines had no part in the choice."""


@dataclass(frozen=True)
class Machines:
    """A graph of n machines with what Hulk's nodes and links carry."""

    node: FloatArray
    """(n, features): place, capability, memory, each scaled to about 1."""
    source: IntArray
    """(E,) both directions of every link."""
    target: IntArray
    """(E,)"""
    edge: FloatArray
    """(E, features) of the links."""


@dataclass(frozen=True)
class Curve:
    """One training."""

    labelled: FloatArray
    """(steps,) part of the machines with labels that are classified as labelled, after each step."""
    held_out: FloatArray
    """(steps,) of the others; NaN where there are none."""
    loss: FloatArray
    """(steps,)"""
    likings: FloatArray
    """(n, classes) log-probabilities in the end."""


class Classifier(nn.Module):
    """Edge pooling, graph convolutions, a class for every machine."""

    def __init__(self, node_features: int, edge_features: int, classes: int) -> None:
        super().__init__()
        self.pool_edge = nn.Linear(edge_features, WIDTH)
        self.pool_node = nn.Linear(node_features, WIDTH, bias=False)
        self.node_in = nn.Linear(node_features + 2 * WIDTH, WIDTH)
        self.layers = nn.ModuleList(GraphConv(WIDTH, WIDTH, norm="both") for _ in range(LAYERS))
        self.out = nn.Linear(WIDTH, classes)

    def forward(self, graph: dgl.DGLGraph, looped: dgl.DGLGraph, node: Tensor, edge: Tensor) -> Tensor:
        """(n, classes) logits; `looped` is the graph with a link of every machine to itself."""
        with graph.local_scope():
            graph.ndata["x"] = self.pool_node(node)
            graph.edata["e"] = self.pool_edge(edge)
            graph.apply_edges(lambda edges: {"m": torch.relu(edges.src["x"] + edges.data["e"])})
            graph.update_all(fn.copy_e("m", "m"), fn.mean("m", "mean"))
            graph.update_all(fn.copy_e("m", "m"), fn.max("m", "max"))
            hidden = torch.relu(self.node_in(torch.cat((node, graph.ndata["mean"], graph.ndata["max"]), dim=1)))
        for layer in self.layers:
            # What a machine knows of itself is kept: most machines are linked to most, and an average of all tells none apart.
            hidden = hidden + torch.relu(layer(looped, hidden))
        logits: Tensor = self.out(hidden)
        return logits


def learn_classes(machines: Machines, labels: IntArray, labelled: BoolArray, classes: int, seed: int, steps: int) -> Curve:
    """Train on the machines whose label is known, (n,), and watch the others; full batch, one step after another."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    graph = dgl.graph((torch.from_numpy(machines.source), torch.from_numpy(machines.target)), num_nodes=len(machines.node))
    looped = dgl.add_self_loop(graph)
    node, edge = torch.from_numpy(machines.node).float(), torch.from_numpy(machines.edge).float()
    target, mask = torch.from_numpy(labels), torch.from_numpy(labelled)
    model = Classifier(node.shape[1], edge.shape[1], classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    shown, hidden, losses = [], [], []
    for _ in range(steps):
        loss = nn.functional.cross_entropy(model(graph, looped, node, edge)[mask], target[mask])
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call] # torch ships it without annotations
        optimizer.step()
        with torch.no_grad():
            likings = torch.log_softmax(model(graph, looped, node, edge), dim=1)
        right = (likings.argmax(dim=1) == target).numpy()
        shown.append(float(right[labelled].mean()))
        hidden.append(float(right[~labelled].mean()) if (~labelled).any() else float("nan"))
        losses.append(float(loss.detach()))
    return Curve(np.array(shown), np.array(hidden), np.array(losses), likings.numpy().astype(np.float64))


def folds(labels: IntArray, count: int, seed: int) -> list[BoolArray]:
    """`count` masks of held-out machines, together all of them once, every class spread over the folds as evenly as it goes."""
    rng = np.random.default_rng([seed, 5])
    order = np.lexsort((rng.random(len(labels)), labels))
    fold = np.empty(len(labels), dtype=np.int64)
    fold[order] = np.arange(len(labels)) % count
    return [fold == number for number in range(count)]
