"""Every fusion rule gives what DGL's own layers give: outputs and all gradients, on random graphs, widths and settings."""

from __future__ import annotations

import warnings
from typing import Any
from unittest import mock

import hypothesis.strategies as st
import numpy as np
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from torch import Tensor, nn

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # escape sequences in the source of DGL 1.1
    import dgl
    import dgl.nn as dglnn

from hyperscale.model.adjacency import Array
from hyperscale.training.modelgraph import fused_operations, kernels, kernels_numpy
from hyperscale.training.modelgraph.edges import Matrix, edges_of
from hyperscale.training.modelgraph.fuse import fuse
from hyperscale.training.modelgraph.fusion_rules import ATTENTION, EPILOGUE, EVERY, HOIST, KERNEL, LINEAR, ORDER, GraphStatistics
from hyperscale.training.modelgraph.kernels import AttentionRows, Drop, Tail
from hyperscale.util.splitmix import WORD

CLOSE = 2e-5
"""Of the largest figure: sums of float32 in another order."""
FAST = settings(max_examples=25, deadline=None)
ACTIVATIONS = {None: None, "relu": torch.relu, "elu": nn.functional.elu, "tanh": torch.tanh}
RULE_SETS = (
    frozenset({KERNEL, ATTENTION}),
    frozenset({KERNEL, ATTENTION, EPILOGUE}),
    frozenset({KERNEL, ORDER}),
    frozenset({KERNEL, HOIST}),
    frozenset({KERNEL, ATTENTION, EPILOGUE, LINEAR}),
    EVERY,
)


@st.composite
def graphs(draw: st.DrawFn, looped: bool = True) -> Any:
    vertices = draw(st.integers(1, 40))
    count = draw(st.integers(0, 160))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    graph = dgl.graph((rng.integers(0, vertices, count), rng.integers(0, vertices, count)), num_nodes=vertices)
    return dgl.add_self_loop(graph) if looped or count == 0 else graph


class Stack(nn.Module):
    """Two layers with an activation and dropout between them, and a linear one at the end, as users write them."""

    def __init__(self, first: nn.Module, second: nn.Module, activation: Any, out: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([first, second])
        self.activation = activation
        self.dropout = nn.Dropout(0.0)
        self.hidden = nn.Linear(out, 5)
        self.head = nn.Linear(5, 3)

    def forward(self, graph: Any, x: Tensor) -> Tensor:
        x = self.layers[0](graph, x).flatten(1)
        x = self.dropout(x if self.activation is None else self.activation(x))
        x = self.layers[1](graph, x).flatten(1)
        result: Tensor = self.head(torch.relu(self.hidden(x)))
        return result


def layers_of(kind: str, wide: int, hidden: int, heads: int, options: dict[str, Any]) -> tuple[nn.Module, nn.Module, int]:
    if kind == "GCN":
        norm, bias = options["norm"], options["bias"]
        first, second = (dglnn.GraphConv(a, b, norm=norm, bias=bias, allow_zero_in_degree=True) for a, b in ((wide, hidden), (hidden, 6)))
        return first, second, 6
    if kind == "GraphSAGE":
        return dglnn.SAGEConv(wide, hidden, "mean", bias=options["bias"]), dglnn.SAGEConv(hidden, 6, "mean"), 6
    first = dglnn.GATConv(wide, hidden, heads, bias=options["bias"], residual=options["residual"], allow_zero_in_degree=True)
    second = dglnn.GATConv(hidden * heads, 6, 1, residual=options["residual"], allow_zero_in_degree=True)
    return first, second, 6


def step(model: nn.Module, graph: Any, x: Tensor) -> list[Tensor]:
    model.zero_grad()
    if x.requires_grad:
        x = x.detach().clone().requires_grad_()
    out = model(graph, x)
    torch.autograd.backward((out * torch.linspace(-1.0, 1.0, out.numel()).view(out.shape)).sum())
    gradients = [torch.zeros(1) if parameter.grad is None else parameter.grad.clone() for parameter in model.parameters()]
    return [out.detach(), *gradients, *([x.grad] if x.grad is not None else [])]


def assert_close(first: list[Tensor], second: list[Tensor]) -> None:
    assert len(first) == len(second)
    for one, other in zip(first, second, strict=True):
        assert one.shape == other.shape
        scale = max(1.0, float(one.abs().max())) if one.numel() else 1.0
        assert float((one - other).abs().max() if one.numel() else 0.0) <= CLOSE * scale


@FAST
@given(
    graph=graphs(),
    kind=st.sampled_from(["GCN", "GraphSAGE", "GAT"]),
    wide=st.sampled_from([1, 3, 8, 17, 40]),
    hidden=st.sampled_from([1, 4, 7, 16, 33]),
    heads=st.integers(1, 4),
    activation=st.sampled_from(sorted(ACTIVATIONS, key=str)),
    rules=st.sampled_from(RULE_SETS),
    constant=st.booleans(),
    compiled=st.sampled_from([True, True, False]),
    options=st.fixed_dictionaries(
        {"norm": st.sampled_from(["both", "right", "left", "none"]), "bias": st.booleans(), "residual": st.booleans()}
    ),
)
def test_a_fused_model_gives_what_the_model_gives_with_all_gradients(
    graph: Any,
    kind: str,
    wide: int,
    hidden: int,
    heads: int,
    activation: str | None,
    rules: Any,
    constant: bool,
    compiled: bool,
    options: dict[str, Any],
) -> None:
    torch.manual_seed(wide * 100 + hidden)
    first, second, out = layers_of(kind, wide, hidden, heads, options)
    model = Stack(first, second, ACTIVATIONS[activation], out)
    fused = fuse(model, GraphStatistics(graph.num_nodes(), graph.num_edges(), constant), rules).model
    x = torch.randn(graph.num_nodes(), wide, requires_grad=not constant)
    expected = step(model, graph, x)
    with mock.patch.object(kernels, "COMPILED", compiled and kernels.COMPILED):
        for _ in range(2):  # the second time from what was kept
            assert_close(expected, step(fused, graph, x))


@FAST
@given(
    seed=st.integers(0, 2**32 - 1),
    rows=st.integers(1, 60),
    extra=st.integers(0, 30),
    count=st.integers(0, 200),
    width=st.integers(1, 150) | st.sampled_from([16, 48, 64, 128]),
    weighted=st.booleans(),
    added=st.booleans(),
    activation=st.sampled_from([0, 1, 2]),
    drop=st.sampled_from([0.0, 0.3, 0.9]),
)
def test_the_compiled_gather_gives_what_scipy_gives(
    seed: int, rows: int, extra: int, count: int, width: int, weighted: bool, added: bool, activation: int, drop: float
) -> None:
    rng = np.random.default_rng(seed)
    edges = random_edges(rng, rows, extra, count)
    weights = rng.normal(size=count).astype(np.float32) if weighted else None
    x = rng.normal(size=(rows + extra, width)).astype(np.float32)
    add = rng.normal(size=(rows, width)).astype(np.float32) if added else None
    bias = rng.normal(size=width).astype(np.float32) if added else None
    tail = Tail(activation, Drop(drop, seed))
    out = kernels.aggregate(Matrix(edges, weights), x, add, bias, tail)
    sums = weighted_sum(edges.indptr, edges.indices, weights, x)
    expected = finish(sums, add, bias, activation, tail.drop)
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4)
    assert kernels.aggregate(Matrix(edges, weights), x, add, bias, tail, threads=3).tobytes() == out.tobytes()
    over = kernels.aggregate(Matrix(edges, weights), x, add, bias, tail, over=True)
    assert over.tobytes() == out.tobytes()
    assert (over is add) == (add is not None and width % 16 == 0 and kernels.COMPILED)
    grad = np.asarray(rng.normal(size=out.shape), dtype=np.float32)
    inner, bias_grad, dots = kernels.finish_back(grad, out, tail, bias=True, sums=np.asarray(sums, dtype=np.float32))
    given_back = finish_back(grad, out, activation, tail.drop)
    np.testing.assert_allclose(inner, given_back, rtol=1e-4, atol=1e-4)
    assert bias_grad is not None
    assert dots is not None
    np.testing.assert_allclose(bias_grad, given_back.sum(axis=0), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(dots[:, 0], (given_back * sums).sum(axis=1), rtol=1e-3, atol=2e-3)


@FAST
@given(
    seed=st.integers(0, 2**32 - 1),
    rows=st.integers(1, 40),
    extra=st.integers(0, 20),
    count=st.integers(0, 150),
    heads=st.integers(1, 4),
    depth=st.integers(1, 40),
    drop=st.sampled_from([0.0, 0.4]),
)
def test_fused_attention_and_its_gradients_are_those_of_the_formula(
    seed: int, rows: int, extra: int, count: int, heads: int, depth: int, drop: float
) -> None:
    rng = np.random.default_rng(seed)
    edges = random_edges(rng, rows, extra, count)
    how = AttentionRows(heads, 0.2, Drop(drop, seed))
    tensors = [torch.randn(rows + extra, heads * depth), torch.randn(heads, depth), torch.randn(heads, depth), torch.randn(heads * depth)]
    mine = [tensor.clone().requires_grad_() for tensor in tensors]
    theirs = [tensor.clone().requires_grad_() for tensor in tensors]
    factors = torch.from_numpy(rng.normal(size=(rows, heads * depth)).astype(np.float32))
    out = fused_operations.attend(edges, mine[0], (mine[1], mine[2]), how, bias=mine[3], tail=Tail(kernels.ELU))
    torch.autograd.backward((out * factors).sum())
    expected = plain_attention(edges, theirs, how)
    torch.autograd.backward((expected * factors).sum())
    assert_close([expected.detach()], [out.detach()])
    for one, other in zip(theirs, mine, strict=True):
        assert one.grad is not None
        assert other.grad is not None
        np.testing.assert_allclose(other.grad.numpy(), one.grad.numpy(), rtol=2e-3, atol=2e-4 * max(1.0, float(one.grad.abs().max())))


def plain_attention(edges: Any, tensors: list[Tensor], how: AttentionRows) -> Tensor:
    """By the book, every array by edge written out."""
    x, source, destination, bias = tensors
    parts = x.view(len(x), how.heads, -1)
    rows = torch.from_numpy(np.repeat(np.arange(edges.destinations), np.diff(edges.indptr)))
    columns = torch.from_numpy(edges.indices.astype(np.int64))
    left, right = (parts * source).sum(-1), (parts * destination).sum(-1)
    scores = nn.functional.leaky_relu(left[columns] + right[rows], how.slope)
    highest = torch.full((edges.destinations, how.heads), -1e30).scatter_reduce(0, rows[:, None].expand_as(scores), scores.detach(), "amax")
    powers = (scores - highest[rows]).exp()
    total = torch.zeros(edges.destinations, how.heads).index_add(0, rows, powers)
    weights = powers / total[rows]
    if how.drop.probability:
        keys = kernels_numpy.keys(~how.drop.seed & WORD, np.arange(edges.count))
        kept = kernels_numpy.draws(keys, how.heads) >= np.uint32(how.drop.least)
        weights = weights * torch.from_numpy(kept.astype(np.float32)) * how.drop.grow
    sums = torch.zeros(edges.destinations, *parts.shape[1:]).index_add(0, rows, weights[:, :, None] * parts[columns])
    return nn.functional.elu(sums.flatten(1) + bias)


@FAST
@given(rows=st.integers(1, 50), width=st.integers(1, 70), probability=st.floats(0.0, 0.95), seed=st.integers(0, 2**32 - 1))
def test_dropout_keeps_the_floats_that_its_numpy_twin_keeps(rows: int, width: int, probability: float, seed: int) -> None:
    x = np.random.default_rng(seed).normal(size=(rows, width)).astype(np.float32)
    drop = Drop(probability, seed)
    expected = kernels_numpy.dropped(x, *drop.figures)
    np.testing.assert_allclose(kernels.drop(x, drop, threads=2), expected, rtol=1e-6)


def random_edges(rng: np.random.Generator, rows: int, extra: int, count: int) -> Any:
    cuts = np.sort(rng.integers(0, count + 1, rows - 1))
    indptr = np.concatenate([[0], cuts, [count]]).astype(np.int64)
    return edges_of(indptr, rng.integers(0, rows + extra, count), rows + extra)


def finish(sums: Array, add: Array | None, bias: Array | None, activation: int, drop: Drop) -> Array:
    """drop(activation(sums + add + bias))."""
    out = sums if add is None else sums + add
    out = out if bias is None else out + bias
    if activation == kernels.RELU:
        out = np.maximum(out, np.float32(0.0))
    elif activation == kernels.ELU:
        out = np.where(out > 0, out, np.expm1(np.minimum(out, np.float32(0.0))))
    return kernels_numpy.dropped(out, *drop.figures)


def finish_back(grad: Array, out: Array, activation: int, drop: Drop) -> Array:
    """Gradient of the sums from that of `finish`."""
    grad = kernels_numpy.dropped(grad, *drop.figures)
    if activation == kernels.RELU:
        return np.where(out > 0, grad, np.float32(0.0))
    if activation == kernels.ELU:
        return np.where(out > 0, grad, grad * (out * np.float32(1.0 / drop.grow) + np.float32(1.0)))
    return grad


def weighted_sum(indptr: Array, indices: Array, weights: Array | None, x: Array) -> Array:
    """Σ_e weights[e] x[indices[e]] of every row."""
    values = np.ones(len(indices), dtype=np.float32) if weights is None else weights
    sums: Array = sp.csr_matrix((values, indices, indptr), shape=(len(indptr) - 1, len(x))) @ x
    return sums
