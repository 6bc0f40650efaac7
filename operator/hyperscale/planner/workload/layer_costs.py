"""Arithmetic and parameters of one graph layer, by architecture. Pure."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from hyperscale.model.api.choices import Architecture

if TYPE_CHECKING:  # needs msgspec, which benchmarks/gpu.py goes without
    from hyperscale.model.api.job import ModelSpec

SPARSE_WEIGHT: Final = 12.0
"""Time of one operation of a neighbour sum in operations of a dense product: it is bound by memory traffic.
Fitted to published full-graph GraphSAGE epochs on one A100 (Reddit, products, orkut; Bajaj et al., VLDB 2025, table 21)."""

ATTENTION_WEIGHT: Final = 360.0
"""Operations of a neighbour sum that attention takes for one message and head beside its weighted sum: scores, softmax, dropout.
Fitted to epochs of our own layers on one H100 (docs/benchmarks/gpu.md): 5 to 20 M edges, 1 to 8 heads, within 16 %."""

TRAINING_PASSES: Final = 3.0
"""Forward, gradient of the inputs, gradient of the weights."""


class Layer(NamedTuple):
    """Widths of one layer."""

    inputs: int
    outputs: int
    """Of all heads together."""
    heads: int = 1
    """Of attention."""
    averaged: bool = False
    """Whether the heads are averaged after the sums, as in GAT's last layer."""


def layers(model: ModelSpec, feature_size: int, classes: int) -> tuple[Layer, ...]:
    """From the features to the classes; the heads of GAT's hidden layers are concatenated, those of its last one averaged."""
    attends = model.architecture is Architecture.GAT
    heads = model.heads if attends else 1
    stated = None if model.hyperparameters is None else model.hyperparameters.output_heads
    # The worker's reading of outputHeads: one where it is left out, as many as the others where it is 0.
    last = (heads if stated == 0 else stated or 1) if attends else 1
    widths = [feature_size, *([model.hidden_size * heads] * (model.layers - 1)), classes * last]
    ends = (at == model.layers - 1 for at in range(model.layers))
    return tuple(Layer(*pair, last if end else heads, attends and end) for pair, end in zip(pairwise(widths), ends, strict=True))


def weighs_own_rows(model: ModelSpec) -> bool:
    """Return whether a layer has a weight matrix for a vertex beside that for its neighbours.

    GraphSAGE's layers do; with the gcn aggregator one matrix serves the mean of both (Hamilton et al. 2017, section 3.3; DGL's SAGEConv).
    """
    aggregator = None if model.hyperparameters is None else model.hyperparameters.aggregator
    return model.architecture is Architecture.GRAPH_SAGE and aggregator != "GCN"


def layer_flops(model: ModelSpec, layer: Layer, vertices: float, edges: float) -> float:
    """Forward operations of one layer over `vertices` outputs and `edges` messages, in equivalents of dense operations."""
    narrow = min(layer.inputs, layer.outputs)
    if model.architecture is Architecture.GAT:
        # One projection, then per message the weighted sum and the attention.
        attention = ATTENTION_WEIGHT * layer.heads
        return 2.0 * vertices * layer.inputs * layer.outputs + SPARSE_WEIGHT * edges * (2.0 * layer.outputs + attention)
    projections = 2.0 if weighs_own_rows(model) else 1.0
    # Frameworks project first when that makes the messages narrower.
    return 2.0 * projections * vertices * layer.inputs * layer.outputs + SPARSE_WEIGHT * edges * 2.0 * narrow


def parameters(model: ModelSpec, stack: tuple[Layer, ...]) -> int:
    """Trainable parameters; the job's own figure where it states one."""
    if model.parameters is not None:
        return model.parameters
    projections = 2 if weighs_own_rows(model) else 1
    attention = 2 if model.architecture is Architecture.GAT else 0
    biases = sum(layer.outputs // layer.heads if layer.averaged else layer.outputs for layer in stack)
    return biases + sum(projections * layer.inputs * layer.outputs + attention * layer.outputs for layer in stack)
