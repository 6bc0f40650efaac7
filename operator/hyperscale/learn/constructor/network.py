"""The constructor as torch and DGL train it. `hyperscale.planner.learned.learned_network` computes the same in numpy.

Edge pooling (Hulk, section 4: links are merged into their nodes before anything else, here mean and maximum side by side), three layers of
attention biased by the links, and a pointer head that adds to greedy's own choice what it has learned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import dgl
import dgl.function as fn
import numpy as np
import torch
from dgl.nn.functional import edge_softmax
from torch import Tensor, nn

from hyperscale.learn.constructor.labels import Begun, Example
from hyperscale.planner.learned.learned_features import DELTA, EDGE_FEATURES, NODE_FEATURES, STEP_FEATURES, WHOLE_FEATURES

WIDTH: Final = 64
HEADS: Final = 4
LAYERS: Final = 3
START_ALPHA: Final = 20.0
"""Weight of greedy's choice before anything is learned: 5 % more is e times less likely."""
BARRED: Final = -1e9


@dataclass(frozen=True)
class InstanceBatch:
    """Examples side by side: N nodes of one DGL graph, B states, R rows of a state and a candidate each."""

    graph: dgl.DGLGraph
    """Edges run from a partner to its node, K for each in turn."""
    node: Tensor
    """(N, NODE_FEATURES)"""
    edge: Tensor
    """(N K, EDGE_FEATURES)"""
    whole: Tensor
    """(graphs, WHOLE_FEATURES)"""
    graph_of_node: Tensor
    """(N,)"""
    graph_of_state: Tensor
    """(B,)"""
    member: Tensor
    """(M,) nodes that are placed, of all states."""
    state_of_member: Tensor
    """(M,)"""
    step: Tensor
    """(R, STEP_FEATURES)"""
    node_of_row: Tensor
    """(R,)"""
    state_of_row: Tensor
    """(R,)"""
    feasible: Tensor
    """(R,)"""
    cost: Tensor
    """(R,)"""


class Constructor(nn.Module):
    """Logits of every candidate as the next worker of every placement begun."""

    def __init__(self) -> None:
        super().__init__()
        for name, size in (("node", NODE_FEATURES), ("edge", EDGE_FEATURES), ("whole", WHOLE_FEATURES), ("step", STEP_FEATURES)):
            self.register_buffer(f"{name}_mean", torch.zeros(size))
            self.register_buffer(f"{name}_scale", torch.ones(size))
        self.pool_edge = nn.Linear(EDGE_FEATURES, WIDTH)
        self.pool_node = nn.Linear(NODE_FEATURES, WIDTH, bias=False)
        self.node_in = nn.Linear(NODE_FEATURES + 2 * WIDTH + WHOLE_FEATURES, WIDTH)
        self.layers = nn.ModuleList(EdgeAttention() for _ in range(LAYERS))
        self.whole_in = nn.Linear(2 * WIDTH + WHOLE_FEATURES, WIDTH)
        self.head_node = nn.Linear(WIDTH, WIDTH)
        self.head_members = nn.Linear(2 * WIDTH, WIDTH, bias=False)
        self.head_whole = nn.Linear(WIDTH, WIDTH, bias=False)
        self.head_step = nn.Linear(STEP_FEATURES, WIDTH, bias=False)
        self.head_hidden = nn.Linear(WIDTH, WIDTH)
        self.head_out = nn.Linear(WIDTH, 1, bias=False)
        nn.init.zeros_(self.head_out.weight)
        self.log_alpha = nn.Parameter(torch.tensor([float(np.log(START_ALPHA))]))

    def forward(self, batch: InstanceBatch) -> Tensor:
        """(R,) logits, BARRED where a candidate may not be chosen."""
        hidden, whole = self.embed(batch)
        return self.point(batch, hidden, whole)

    def embed(self, batch: InstanceBatch) -> tuple[Tensor, Tensor]:
        """(N, WIDTH) of the nodes and (graphs, WIDTH) of the whole."""
        graph = batch.graph
        node, edge, whole = (
            self._normal(name, given) for name, given in (("node", batch.node), ("edge", batch.edge), ("whole", batch.whole))
        )
        with graph.local_scope():
            graph.ndata["x"] = self.pool_node(node)
            graph.edata["e"] = self.pool_edge(edge)
            graph.apply_edges(lambda edges: {"m": torch.relu(edges.src["x"] + edges.data["e"])})
            graph.update_all(fn.copy_e("m", "m"), fn.mean("m", "mean"))
            graph.update_all(fn.copy_e("m", "m"), fn.max("m", "max"))
            pooled = torch.cat((node, graph.ndata["mean"], graph.ndata["max"], whole[batch.graph_of_node]), dim=1)
        hidden = torch.relu(self.node_in(pooled))
        for layer in self.layers:
            hidden = layer(graph, hidden, edge)
        with graph.local_scope():
            graph.ndata["h"] = hidden
            together = torch.cat((dgl.mean_nodes(graph, "h"), dgl.max_nodes(graph, "h"), whole), dim=1)
        return hidden, torch.relu(self.whole_in(together))

    def point(self, batch: InstanceBatch, hidden: Tensor, whole: Tensor) -> Tensor:
        """(R,) logits from what `embed` returned."""
        states = len(batch.graph_of_state)
        members = hidden[batch.member]
        total = torch.zeros(states, WIDTH, dtype=hidden.dtype).index_add_(0, batch.state_of_member, members)
        count = torch.bincount(batch.state_of_member, minlength=states).clamp(min=1)[:, None]
        index = batch.state_of_member[:, None].expand(-1, WIDTH)
        most = torch.zeros(states, WIDTH, dtype=hidden.dtype).scatter_reduce(0, index, members, "amax", include_self=False)
        of_state = self.head_members(torch.cat((total / count, most), dim=1)) + self.head_whole(whole)[batch.graph_of_state]
        step = self._normal("step", batch.step)
        mixed = self.head_node(hidden)[batch.node_of_row] + of_state[batch.state_of_row] + self.head_step(step)
        learned = self.head_out(torch.relu(self.head_hidden(torch.relu(mixed))))[:, 0]
        logits = learned - self.log_alpha.exp() * batch.step[:, DELTA]
        return torch.where(batch.feasible, logits, torch.full_like(logits, BARRED))

    def normalise(self, batch: InstanceBatch) -> None:
        """Take means and spreads of the features from `batch`."""
        for name, given in (("node", batch.node), ("edge", batch.edge), ("whole", batch.whole), ("step", batch.step[batch.feasible])):
            getattr(self, f"{name}_mean").copy_(given.mean(dim=0))
            getattr(self, f"{name}_scale").copy_(1.0 / given.std(dim=0).clamp(min=1e-2))

    def _normal(self, name: str, given: Tensor) -> Tensor:
        normal: Tensor = (given - getattr(self, f"{name}_mean")) * getattr(self, f"{name}_scale")
        return normal


class EdgeAttention(nn.Module):
    """Attention over a node's partners, biased by the links, then a small network of the node alone; both add to what came in."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(WIDTH, WIDTH, bias=False)
        self.key = nn.Linear(WIDTH, WIDTH, bias=False)
        self.value = nn.Linear(WIDTH, WIDTH)
        self.edge_bias = nn.Linear(EDGE_FEATURES, HEADS, bias=False)
        self.edge_value = nn.Linear(EDGE_FEATURES, WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.wide = nn.Linear(WIDTH, 2 * WIDTH)
        self.narrow = nn.Linear(2 * WIDTH, WIDTH)
        self.last_norm = nn.LayerNorm(WIDTH)

    def forward(self, graph: dgl.DGLGraph, hidden: Tensor, edge: Tensor) -> Tensor:
        """(N, WIDTH) from hidden (N, WIDTH) and normalised edge features (N K, EDGE_FEATURES)."""
        per_head = WIDTH // HEADS
        with graph.local_scope():
            graph.ndata["q"] = self.query(hidden).view(-1, HEADS, per_head) / per_head**0.5
            graph.ndata["k"] = self.key(hidden).view(-1, HEADS, per_head)
            graph.ndata["v"] = self.value(hidden).view(-1, HEADS, per_head)
            graph.edata["ev"] = self.edge_value(edge).view(-1, HEADS, per_head)
            graph.apply_edges(fn.v_dot_u("q", "k", "score"))
            weight = edge_softmax(graph, graph.edata["score"] + self.edge_bias(edge)[:, :, None])
            graph.apply_edges(fn.u_add_e("v", "ev", "m"))
            graph.edata["m"] = graph.edata["m"] * weight
            graph.update_all(fn.copy_e("m", "m"), fn.sum("m", "o"))
            mixed = graph.ndata["o"].reshape(-1, WIDTH)
        hidden = self.norm(hidden + self.out(mixed))
        result: Tensor = self.last_norm(hidden + self.narrow(torch.relu(self.wide(hidden))))
        return result


def collate(examples: list[Example], dtype: torch.dtype = torch.float32) -> InstanceBatch:
    """Examples side by side."""
    sizes = [len(example.view.node) for example in examples]
    first = np.cumsum([0, *sizes[:-1]])
    begun: list[tuple[int, Begun]] = [(place, state) for place, example in enumerate(examples) for state in example.states]

    def numbers(parts: list[np.ndarray[Any, Any]]) -> Tensor:
        return torch.from_numpy(np.concatenate(parts)).to(dtype)

    return InstanceBatch(
        graph=_side_by_side([example.view.partner for example in examples], sizes, first),
        node=numbers([example.view.node for example in examples]),
        edge=numbers([example.view.edge.reshape(-1, EDGE_FEATURES) for example in examples]),
        whole=numbers([example.view.whole[None, :] for example in examples]),
        graph_of_node=torch.from_numpy(np.repeat(np.arange(len(examples)), sizes)),
        step=numbers([state.features for _, state in begun]),
        cost=numbers([state.cost for _, state in begun]),
        **_states(begun, sizes, first),
    )


def _states(begun: list[tuple[int, Begun]], sizes: list[int], first: np.ndarray[Any, Any]) -> dict[str, Tensor]:
    """Members and candidates of the states, each with the place of its graph; `sizes` and `first` as in `_side_by_side`."""
    rows = [np.arange(sizes[place]) + first[place] for place, _ in begun]
    return {
        "graph_of_state": torch.tensor([place for place, _ in begun]),
        "member": torch.from_numpy(np.concatenate([state.chosen + first[place] for place, state in begun])),
        "state_of_member": torch.from_numpy(np.repeat(np.arange(len(begun)), [len(state.chosen) for _, state in begun])),
        "node_of_row": torch.from_numpy(np.concatenate(rows)),
        "state_of_row": torch.from_numpy(np.repeat(np.arange(len(begun)), [len(row) for row in rows])),
        "feasible": torch.from_numpy(np.concatenate([state.feasible for _, state in begun])),
    }


def _side_by_side(partners: list[np.ndarray[Any, Any]], sizes: list[int], first: np.ndarray[Any, Any]) -> dgl.DGLGraph:
    """One graph of all: edges from the partners (nodes, K) of each node to it; `first` (graphs,) is the number of a graph's first node."""
    source = [partner.ravel() + offset for partner, offset in zip(partners, first, strict=True)]
    target = [np.repeat(np.arange(size), partner.shape[1]) + offset for partner, size, offset in zip(partners, sizes, first, strict=True)]
    graph = dgl.graph((torch.from_numpy(np.concatenate(source)), torch.from_numpy(np.concatenate(target))), num_nodes=sum(sizes))
    graph.set_batch_num_nodes(torch.tensor(sizes))
    graph.set_batch_num_edges(torch.tensor([len(edges) for edges in source]))
    return graph


def segment_log_softmax(logits: Tensor, segment: Tensor, count: int) -> Tensor:
    """(R,) log of the softmax of `logits` (R,) among the rows of the same `segment` (R,)."""
    most = torch.full((count,), BARRED, dtype=logits.dtype).scatter_reduce(0, segment, logits, "amax")
    shifted = logits - most[segment]
    total = torch.zeros(count, dtype=logits.dtype).index_add_(0, segment, shifted.exp())
    return shifted - total.log()[segment]
