"""The fusion rules: what each does, why it is safe, and what it is expected to save, in bytes of one training step.

Costs count float32 rows that are read or written: n vertices, e edges, F floats. They decide nothing but the order of aggregation; they
are there so that a user sees what a rule is worth before anything runs. benchmarks/fusion.py measures the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import dgl.nn as dglnn
from torch import nn

KERNEL: Final = "normalise+aggregate"
ATTENTION: Final = "attention"
EPILOGUE: Final = "aggregate+bias+activation"
ORDER: Final = "cheaper order"
HOIST: Final = "constant aggregate"
LINEAR: Final = "linear+activation"
DROPOUT: Final = "dropout"

RULES: Final[dict[str, str]] = {
    KERNEL: "degrees become weights of the edges once; 32-bit indices; one weighted pass over the edges",
    ATTENTION: "scores, leaky ReLU, softmax, dropout and weighted sum in one pass; nothing by edge is written",
    EPILOGUE: "bias, own row, activation and dropout at the end of the pass over the edges, while the row is in cache",
    ORDER: "transform before or after aggregating, whichever moves fewer bytes over forward and backward pass",
    HOIST: "the aggregate of an input that never changes is computed once, not once an epoch",
    LINEAR: "the activation after a linear layer in place",
    DROPOUT: "the mask is drawn again in the backward pass instead of being kept",
}
EVERY: Final = frozenset(RULES)

BYTES: Final = 4
ATTENTION_PASSES: Final = 22
"""Reads and writes of (e, H) arrays that DGL's GATConv makes in one step.

Add, leaky ReLU, maximum, difference, exponential, sum, quotient, weighted sum, and their gradients.
"""


@dataclass(frozen=True)
class GraphStatistics:
    """Of the graph that a model will run on."""

    vertices: int
    edges: int
    """Directed."""
    constant_input: bool = False
    """The model gets the same features in every step, as full-graph training does; allows `constant aggregate`."""


@dataclass(frozen=True)
class Applied:
    """A rule at one place of the model."""

    rule: str
    where: str
    """Name of the module."""
    saved_bytes: float
    """In one step, forward and backward."""
    expected_gain: float = 1.0
    """Bytes of the layer's step before, over those after this rule alone."""


def widths(layer: Any) -> tuple[int, int, int]:  # noqa: ANN401 - one of three DGL layers
    """Floats of a row going in, coming out, and on the edges as DGL orders it."""
    if isinstance(layer, dglnn.GATConv):
        wide = layer._num_heads * layer._out_feats
        return layer._in_src_feats, wide, wide
    entering = layer._in_feats if isinstance(layer, dglnn.GraphConv) else layer._in_src_feats
    return entering, layer._out_feats, min(entering, layer._out_feats)


def edge_floats(layer: Any, first: bool) -> int:  # noqa: ANN401
    """Floats that DGL's layer moves for one edge in a step: a first layer that aggregates its input has nothing to send back."""
    entering, leaving, gathered = widths(layer)
    return gathered if first and entering <= leaving else 2 * gathered


def step_bytes(layer: Any, graph: GraphStatistics, first: bool) -> float:  # noqa: ANN401
    """Bytes that one step of DGL's layer moves, forward and backward."""
    entering, leaving, gathered = widths(layer)
    heads = layer._num_heads if isinstance(layer, dglnn.GATConv) else 0
    rows = 3 * (entering + leaving) + 4 * leaving + (8 if isinstance(layer, dglnn.GraphConv) else 4) * gathered
    edges = edge_floats(layer, first) + 4 + ATTENTION_PASSES * heads + (2 * gathered if heads else 0)
    return float(BYTES * (graph.vertices * rows + graph.edges * edges))


def saved_bytes(rule: str, layer: Any, graph: GraphStatistics) -> float:  # noqa: ANN401
    """Bytes of one step that `rule` saves at a DGL layer."""
    entering, leaving, gathered = widths(layer)
    n, e = graph.vertices, graph.edges
    match rule:
        case "normalise+aggregate":
            scalings = 2 if isinstance(layer, dglnn.GraphConv) and layer._norm == "both" else 1
            return float(BYTES * (4 * scalings * n * gathered + 2 * e))
        case "attention":
            return float(BYTES * ATTENTION_PASSES * e * layer._num_heads)
        case "aggregate+bias+activation":
            return float(BYTES * 6 * n * leaving)
        case "cheaper order":
            return float(BYTES * e * max(0, edge_floats(layer, first=True) - min(entering, 2 * leaving)))
        case "constant aggregate":
            return float(BYTES * e * edge_floats(layer, first=True))
    return 0.0


def applied(rule: str, where: str, layer: Any, graph: GraphStatistics, first: bool) -> Applied:  # noqa: ANN401
    """The record of a rule at a layer; `first`: it reads the model's input."""
    whole, saved = step_bytes(layer, graph, first), saved_bytes(rule, layer, graph)
    return Applied(rule, where, saved, whole / max(whole - saved, whole / 100))


@dataclass
class Fusion:
    """A rewritten model and what was done to it."""

    model: nn.Module
    """Shares its parameters with the original, which stays as it was."""
    applied: list[Applied] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    """Sentences: what was left as it is, and why."""
