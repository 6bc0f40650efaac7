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

TRAINING_PASSES: Final = 3.0
"""Forward, gradient of the inputs, gradient of the weights."""


class Layer(NamedTuple):
    """Widths of one layer."""

    inputs: int
    outputs: int


def layers(model: ModelSpec, feature_size: int, classes: int) -> tuple[Layer, ...]:
    """Widths from the features to the classes; the heads of GAT's hidden layers are concatenated."""
    hidden = model.hidden_size * (model.heads if model.architecture is Architecture.GAT else 1)
    widths = [feature_size, *([hidden] * (model.layers - 1)), classes]
    return tuple(Layer(*pair) for pair in pairwise(widths))


def layer_flops(model: ModelSpec, layer: Layer, vertices: float, edges: float) -> float:
    """Forward operations of one layer over `vertices` outputs and `edges` messages, in equivalents of dense operations."""
    narrow = min(layer.inputs, layer.outputs)
    if model.architecture is Architecture.GAT:
        # One projection, then per message: two score halves, softmax and the weighted sum.
        return 2.0 * vertices * layer.inputs * layer.outputs + SPARSE_WEIGHT * edges * (2.0 * layer.outputs + 6.0 * model.heads)
    projections = 2.0 if model.architecture is Architecture.GRAPH_SAGE else 1.0
    # Frameworks project first when that makes the messages narrower.
    return 2.0 * projections * vertices * layer.inputs * layer.outputs + SPARSE_WEIGHT * edges * 2.0 * narrow


def parameters(model: ModelSpec, stack: tuple[Layer, ...]) -> int:
    """Trainable parameters; the job's own figure where it states one."""
    if model.parameters is not None:
        return model.parameters
    projections = 2 if model.architecture is Architecture.GRAPH_SAGE else 1
    attention = 2 if model.architecture is Architecture.GAT else 0
    return sum(projections * layer.inputs * layer.outputs + (1 + attention) * layer.outputs for layer in stack)
