"""The graph analyzer of AGPCS: a model as a weighted graph of operations.

Node weight W_i = Σ_j layer size_j × operation complexity_j over the tensor operations j of node i (formula 1 of AGPCS): the layer size is
how many numbers an operation gives, its complexity how many operations each takes (2 F_in for a linear layer, the mean degree for a
gather), so that W_i counts operations of one forward pass. Edge weight: bytes of the tensor that passes between two nodes.

The model runs once on a small random graph whose numbers of vertices and edges are primes that nothing else has; whatever has a dimension
of that size, or a multiple as first one (sequences of several steps a vertex), is scaled to the graph it is analyzed for. What a
recurrent layer does grows with its result, of which vertices may be the sequences or the steps.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import networkx as nx
import numpy as np
import torch
from torch import fx, nn
from torch.utils.flop_counter import FlopCounterMode, _FlopCounterMode

from hyperscale.training.modelgraph.fold import trace
from hyperscale.training.modelgraph.fusion_rules import GraphStatistics
from hyperscale.training.modelgraph.record import Part, recording, taken_apart, tensors, without_compiler

VERTICES: Final = 211
EDGES: Final = 1009
"""Of the graph that the model runs on: primes, so that a dimension of that size is the graph's."""
GRAPH_NAMES: Final = frozenset({"g", "graph", "block", "blocks", "mfg", "mfgs"})
"""Arguments of a forward function that get the graph; the others get features."""

without_compiler(_FlopCounterMode)


@dataclass(frozen=True)
class Operation:
    """A node of the model's graph."""

    name: str
    kind: str
    """Class of the module or name of the function; `input`, `output`."""
    module: str
    """Name of the module in the model, or empty."""
    shape: tuple[int, ...]
    """Of the result, for the graph that was asked for; of several tensors the first; empty where there is none."""
    output_bytes: float
    """Of all tensors of the result."""
    parts: tuple[Part, ...]
    """Already scaled."""
    parameter_bytes: int
    """What an allreduce carries for it."""

    @property
    def weight(self) -> float:
        """W_i."""
        return float(sum(part.flops for part in self.parts))


@dataclass(frozen=True)
class ModelGraph:
    """Operations in the order in which they run, and what passes between them."""

    name: str
    operations: tuple[Operation, ...]
    edges: tuple[tuple[str, str, float], ...]
    """(from, to, bytes)."""
    dense_flops: float
    """Of one forward pass on the sample graph, by our records."""
    counted_flops: float
    """The same by torch.utils.flop_counter."""
    statistics: GraphStatistics

    @property
    def weight(self) -> float:
        """Σ W_i: operations of one forward pass."""
        return float(sum(operation.weight for operation in self.operations))

    def networkx(self) -> nx.DiGraph[str]:
        """Nodes with name, op, weight, bytes; edges with bytes. All attributes are what GraphML can hold."""
        graph: nx.DiGraph[str] = nx.DiGraph(name=self.name)
        for one in self.operations:
            graph.add_node(
                one.name,
                op=one.kind,
                module=one.module,
                shape="x".join(map(str, one.shape)),
                weight=one.weight,
                outputBytes=one.output_bytes,
                parameterBytes=one.parameter_bytes,
            )
        for source, target, passed in self.edges:
            graph.add_edge(source, target, bytes=passed)
        return graph


class AnalysisError(Exception):
    """The model cannot be analyzed; the message says why and what to write instead."""


def analyze(model: nn.Module, features: int, statistics: GraphStatistics, name: str = "") -> ModelGraph:
    """The graph of a model that takes (graph, features (n, F)), or only features. Raises AnalysisError."""
    training = model.training
    model.eval()
    try:
        return _Analysis(model, features, statistics).result(name or type(model).__name__)
    finally:
        model.train(training)


class _Analysis(fx.Interpreter):
    """Runs the traced model node by node and records each."""

    def __init__(self, model: nn.Module, features: int, statistics: GraphStatistics) -> None:
        try:
            traced = trace(model)
        except Exception as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise AnalysisError(f"torch.fx cannot follow the model's forward ({reason}); write it without branches on values") from error
        super().__init__(fx.GraphModule(model, traced))
        self.traced = traced
        self.origin, self.statistics = model, statistics
        self.features = features
        self.operations: list[Operation] = []

    def result(self, name: str) -> ModelGraph:
        """Run on the sample graph, twice: for our records, and for torch's count."""
        given = [self._input(node) for node in self.traced.nodes if node.op == "placeholder"]
        try:
            self.run(*given)
            with taken_apart(), FlopCounterMode(display=False) as counter:
                self.origin(*given)
        except Exception as error:
            reason = " ".join(str(error).partition("While executing")[0].split())[:200] or type(error).__name__
            raise AnalysisError(
                f"the model fails on {VERTICES} vertices with {self.features} features ({reason}); write --features as it expects"
            ) from error
        kept = tuple(self.operations)
        by_name = {one.name: one for one in kept}
        edges = tuple(
            (source.name, node.name, by_name[node.name if _picks(node, source) else source.name].output_bytes)
            for node in self.traced.nodes
            for source in node.all_input_nodes
        )
        return ModelGraph(name, kept, edges, self.dense_flops, float(counter.get_total_flops()), self.statistics)

    dense_flops = 0.0

    def run_node(self, n: fx.Node) -> Any:  # noqa: ANN401 - torch's own interface
        """Run one node and write down what it did."""
        with recording() as recorder:
            out = super().run_node(n)
        results = list(tensors(out))
        if not results:
            recorder.parts.clear()  # questions to the graph, such as local_scope
        self.dense_flops += sum(part.flops for part in recorder.parts if part.dense)
        module = str(n.target) if n.op == "call_module" else ""
        shape = self._scaled(results[0].shape) if results else ()
        bytes_out = float(sum(np.prod(self._scaled(one.shape), dtype=np.float64) * one.element_size() for one in results))
        recurrent = bool(module) and isinstance(self.origin.get_submodule(module), nn.RNNBase)
        parts = tuple(self._scaled_part(part, (results[0].shape,) if recurrent else part.shapes) for part in recorder.parts)
        self.operations.append(Operation(n.name, self._kind(n), module, shape, bytes_out, parts, self._parameter_bytes(n)))
        return out

    def _input(self, node: fx.Node) -> Any:  # noqa: ANN401
        if str(node.target) in GRAPH_NAMES:
            return sample_graph()
        return torch.randn(VERTICES, self.features, generator=torch.Generator().manual_seed(0))

    def _scaled(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape on the graph that was asked for."""
        at, size = _graph_dimension(shape)
        return tuple(wide // size * self._asked(size) if place == at else wide for place, wide in enumerate(shape))

    def _scaled_part(self, part: Part, shapes: Iterable[Sequence[int]]) -> Part:
        """Grows as the first of the shapes that has a dimension of the graph; what a vertex gathers grows with the edges."""
        size = EDGES if part.by_edge else next((size for size in (_graph_dimension(shape)[1] for shape in shapes) if size > 1), 1)
        return replace(part, flops=part.flops * self._asked(size) / size)

    def _asked(self, size: int) -> int:
        return {VERTICES: self.statistics.vertices, EDGES: self.statistics.edges}.get(size, size)

    def _kind(self, node: fx.Node) -> str:
        if node.op == "call_module":
            return type(self.origin.get_submodule(str(node.target))).__name__
        if node.op in ("placeholder", "output"):
            return {"placeholder": "input", "output": "output"}[node.op]
        return str(node.target) if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))

    def _parameter_bytes(self, node: fx.Node) -> int:
        if node.op == "call_module":
            return sum(value.numel() * value.element_size() for value in self.origin.get_submodule(str(node.target)).parameters())
        if node.op == "get_attr":
            value: Any = self.origin
            for name in str(node.target).split("."):
                value = getattr(value, name)
            return value.numel() * value.element_size() if isinstance(value, nn.Parameter) else 0
        return 0


def _graph_dimension(shape: Sequence[int]) -> tuple[int, int]:
    """The dimension that grows with the graph, and VERTICES or EDGES; (-1, 1) where none does.

    A later dimension must be the very number: multiples may be widths of layers.
    """
    for at, wide in enumerate(shape):
        for size in (VERTICES, EDGES):
            if wide == size or (at == 0 and wide and wide % size == 0):
                return at, size
    return -1, 1


def _picks(node: fx.Node, source: fx.Node) -> bool:
    """Whether the node takes a piece of the source, e.g. an LSTM's output without its state: only that piece passes."""
    return node.target is operator.getitem and node.args[0] is source


def sample_graph() -> Any:  # noqa: ANN401 - a DGLGraph; DGL ships no types
    """VERTICES vertices, EDGES edges, every vertex with an edge to itself; always the same."""
    import dgl

    rng = np.random.default_rng(0)
    loops = np.arange(VERTICES)
    ends = rng.integers(0, VERTICES, (2, EDGES - VERTICES))
    return dgl.graph((np.concatenate([loops, ends[0]]), np.concatenate([loops, ends[1]])), num_nodes=VERTICES)
