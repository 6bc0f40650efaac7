"""Arithmetic and parameters of one graph layer, by architecture. Pure."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from hyperscale.model.api.choices import Architecture

if TYPE_CHECKING:  # needs msgspec, which benchmarks/gpu.py goes without
    from hyperscale.model.api.job import ModelSpec

DENSE_WEIGHT: Final = 0.7
"""Of one addition or multiplication of a dense product, in the operations of the table of GPUs (`planner/problem/speeds.py`).

This weight and those below are fitted to epochs of the worker's own layers on an H100 and an H200 and to published ones of full-graph
GraphSAGE on one A100 (Bajaj et al., VLDB 2025, table 21): `python -m benchmarks.gpu_epochs`, docs/benchmarks/gpu.md.
"""

NUMBER_WEIGHT: Final = 21.0
"""Of one number that a message carries: bound by memory traffic."""

MESSAGE_WEIGHT: Final = 720.0
"""Of one message whatever its width: its indices, and rows that lie apart."""

COLUMN_WEIGHT: Final = 410.0
"""Of one number of a vertex that a layer reads or writes: dropout, activation, their gradients."""

VERTEX_WEIGHT: Final = 35_000.0
"""Of one vertex and layer whatever its width: rows, loss and evaluation of masks."""

ATTENTION_WEIGHT: Final = 10_000.0
"""Of attention for one message and head: scores, softmax, dropout and their gradients."""

WEIGHT_PASSES: Final = 3.0
"""Products of a layer with a weight matrix: forward, gradients of the inputs (not of the features) and of the weights."""


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


def layer_work(model: ModelSpec, layer: Layer, sources: float, destinations: float, edges: float, *, first: bool) -> float:
    """Operations of one training step in one layer, as the table of GPUs counts them, forward and backward.

    sources, destinations: vertices that it reads and computes
    edges:                 messages between them
    first:                 whether its inputs are the features, which need no gradient
    """
    attends = model.architecture is Architecture.GAT
    # The worker and other frameworks project first where that makes the messages narrower.
    projects = attends or layer.outputs <= layer.inputs
    projected = (sources if projects else destinations) + (destinations if weighs_own_rows(model) else 0.0)
    products = 2.0 * projected * layer.inputs * layer.outputs * (WEIGHT_PASSES - first)
    messages = edges * (2.0 if projects or not first else 1.0)
    carried = messages * (layer.outputs if projects else layer.inputs)
    columns = sources * layer.inputs + destinations * layer.outputs
    attention = ATTENTION_WEIGHT * edges * layer.heads if attends else 0.0
    sums = NUMBER_WEIGHT * carried + MESSAGE_WEIGHT * messages + attention
    return DENSE_WEIGHT * products + sums + COLUMN_WEIGHT * columns + VERTEX_WEIGHT * destinations


def parameters(model: ModelSpec, stack: tuple[Layer, ...]) -> int:
    """Trainable parameters; the job's own figure where it states one."""
    if model.parameters is not None:
        return model.parameters
    projections = 2 if weighs_own_rows(model) else 1
    attention = 2 if model.architecture is Architecture.GAT else 0
    biases = sum(layer.outputs // layer.heads if layer.averaged else layer.outputs for layer in stack)
    return biases + sum(projections * layer.inputs * layer.outputs + attention * layer.outputs for layer in stack)
