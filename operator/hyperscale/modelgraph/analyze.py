"""The graph analyzer of AGPCS: a model as a weighted graph of operations.

Node weight W_i = Σ_j layer size_j × operation complexity_j over the tensor operations j of node i (formula 1 of AGPCS): the layer size is
how many numbers an operation gives, its complexity how many operations each takes (2 F_in for a linear layer, the mean degree for a
gather), so that W_i counts operations of one forward pass. Edge weight: bytes of the tensor that passes between two nodes.

The model runs once on a small random graph whose numbers of vertices and edges are primes that nothing else has; whatever has that many
rows is scaled to the graph it is analyzed for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import networkx as nx
import numpy as np
import torch
from torch import Tensor, fx, nn
from torch.utils.flop_counter import FlopCounterMode

from hyperscale.modelgraph.fuse import trace
from hyperscale.modelgraph.record import Part, recording
from hyperscale.modelgraph.rules import GraphStatistics

VERTICES: Final = 211
EDGES: Final = 1009
"""Of the graph that the model runs on: primes, so that a dimension of that size is the graph's."""
GRAPH_NAMES: Final = frozenset({"g", "graph", "block", "blocks", "mfg", "mfgs"})
"""Arguments of a forward function that get the graph; the others get features."""


@dataclass(frozen=True)
class Operation:
    """A node of the model's graph."""

    name: str
    kind: str
    """Class of the module or name of the function; `input`, `output`."""
    module: str
    """Name of the module in the model, or empty."""
    shape: tuple[int, ...]
    """Of the result, for the graph that was asked for; empty where it is no tensor."""
    output_bytes: float
    parts: tuple[Part, ...]
    """Sizes already scaled."""
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
            with torch.no_grad(), FlopCounterMode(display=False) as counter:
                self.origin(*given)
        except Exception as error:
            reason = " ".join(str(error).partition("While executing")[0].split())[:200] or type(error).__name__
            raise AnalysisError(
                f"the model fails on {VERTICES} vertices with {self.features} features ({reason}); write --features as it expects"
            ) from error
        kept = tuple(self.operations)
        known = {one.name: one for one in kept}
        edges = tuple(
            (source.name, node.name, known[source.name].output_bytes) for node in self.traced.nodes for source in node.all_input_nodes
        )
        return ModelGraph(name, kept, edges, self.dense_flops, float(counter.get_total_flops()), self.statistics)

    dense_flops = 0.0

    def run_node(self, n: fx.Node) -> Any:  # noqa: ANN401 - torch's own interface
        """Run one node and write down what it did."""
        with recording() as recorder:
            out = super().run_node(n)
        if n.op == "call_method" and not isinstance(out, Tensor):
            recorder.parts.clear()  # questions to the graph, such as local_scope
        self.dense_flops += sum(part.flops for part in recorder.parts if part.dense)
        shape = (self._scaled(out.shape[0]), *out.shape[1:]) if isinstance(out, Tensor) and out.dim() else ()
        bytes_out = float(np.prod(shape, dtype=np.float64)) * out.element_size() if isinstance(out, Tensor) else 0.0
        module = str(n.target) if n.op == "call_module" else ""
        parts = tuple(self._scaled_part(part) for part in recorder.parts)
        self.operations.append(Operation(n.name, self._kind(n), module, shape, bytes_out, parts, self._parameter_bytes(n)))
        return out

    def _input(self, node: fx.Node) -> Any:  # noqa: ANN401
        if str(node.target) in GRAPH_NAMES:
            return sample_graph()
        return torch.randn(VERTICES, self.features, generator=torch.Generator().manual_seed(0))

    def _scaled(self, size: int) -> int:
        return {VERTICES: self.statistics.vertices, EDGES: self.statistics.edges}.get(size, size)

    def _scaled_part(self, part: Part) -> Part:
        """Results grow with their rows; what a vertex gathers grows with the mean degree."""
        complexity = part.complexity
        if part.operation.startswith("gspmm"):
            complexity *= (self.statistics.edges / self.statistics.vertices) / (EDGES / VERTICES)
        if part.rows == 0:
            return part
        rows = self._scaled(part.rows)
        return Part(part.operation, part.size // part.rows * rows, complexity, part.dense, rows)

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


def sample_graph() -> Any:  # noqa: ANN401 - a DGLGraph; DGL ships no types
    """VERTICES vertices, EDGES edges, every vertex with an edge to itself; always the same."""
    import dgl

    rng = np.random.default_rng(0)
    loops = np.arange(VERTICES)
    ends = rng.integers(0, VERTICES, (2, EDGES - VERTICES))
    return dgl.graph((np.concatenate([loops, ends[0]]), np.concatenate([loops, ends[1]])), num_nodes=VERTICES)
