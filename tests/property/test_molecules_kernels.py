"""Compiled passes over batches of graphs against torch's own operations: figures, gradients, and dropout to the bit."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.threads import solo
from hyperscale.training.modelgraph.kernels import Drop
from hyperscale.training.molecules import molecules_linear, molecules_ops
from hyperscale.training.molecules.molecules_batch import MoleculeBatch
from hyperscale.training.molecules.molecules_norm import SharedNorm, Sums

pytestmark = pytest.mark.skipif(not molecules_ops.COMPILED, reason="built without a C compiler")
Tensor = torch.Tensor
KINDS = 3


@dataclass(frozen=True)
class Case:
    """A random batch, rows for its vertices, a table for the kinds of edges."""

    batch: MoleculeBatch
    x: Tensor
    table: Tensor
    heads: int
    generator: torch.Generator

    def rows(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self.generator)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Up to 90 vertices in up to 4 graphs; degrees 0 to 4."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    vertices = draw(st.integers(1, 90))
    heads, depth = draw(st.sampled_from([(1, 1), (1, 20), (2, 3), (4, 16)]))
    degree = torch.randint(0, 5, (vertices,), generator=generator)
    edges = int(degree.sum())
    inner = torch.randint(0, vertices + 1, (draw(st.integers(0, 3)),), generator=generator).sort().values
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), inner, torch.tensor([vertices])])
    graphs = len(offsets) - 1
    batch = MoleculeBatch(
        vertices=torch.arange(vertices),
        ids=torch.randint(0, 2**40, (vertices,), generator=generator),
        graph_of=torch.repeat_interleave(torch.arange(graphs), offsets.diff()),
        offsets=offsets,
        indptr=torch.cat([torch.zeros(1, dtype=torch.int64), degree.cumsum(0)]),
        sources=torch.randint(0, vertices, (edges,), generator=generator, dtype=torch.int32),
        destinations=torch.repeat_interleave(torch.arange(vertices), degree),
        kinds=torch.randint(0, KINDS, (edges,), generator=generator, dtype=torch.int32),
        weights=torch.rand((edges, 1), generator=generator),
        sizes=offsets.diff().float(),
        graphs=torch.arange(graphs),
    )
    x, table = (torch.randn((rows, heads * depth), generator=generator) for rows in (vertices, KINDS))
    return Case(batch, x, table.double(), heads, generator)


def both(inputs: list[Tensor], grad: Tensor, monkeypatch: pytest.MonkeyPatch, run: Callable[..., Tensor]) -> None:
    """`run(*inputs)` compiled and by torch: outputs and all gradients agree."""
    results = []
    for compiled in (True, False):
        with monkeypatch.context() as patched:
            patched.setattr(molecules_ops, "COMPILED", compiled)
            leaves = [tensor.clone().requires_grad_() for tensor in inputs]
            out = run(*leaves)
            results.append((out.detach(), torch.autograd.grad(out, leaves, grad)))
    (out, gradients), (expected, expected_gradients) = results
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)
    for found, wanted in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)


@settings(max_examples=40, deadline=None)
@given(cases(), st.booleans())
def test_messages_and_their_gradients_are_torchs(case: Case, relu: bool) -> None:
    inputs = [case.x, case.table, case.rows(len(case.batch.sources), case.heads)]
    with pytest.MonkeyPatch.context() as patch:
        both(
            inputs,
            case.rows(*case.x.shape),
            patch,
            lambda x, table, weights: molecules_ops.gather(x, table, weights, case.batch, relu=relu),
        )


@settings(max_examples=40, deadline=None)
@given(cases())
def test_attention_and_its_gradients_are_torchs(case: Case) -> None:
    left = case.rows(case.heads, case.x.shape[1] // case.heads).double()
    inputs = [3.0 * case.rows(len(case.x), 2 * case.heads), case.table, left]
    with pytest.MonkeyPatch.context() as patch:
        grad = case.rows(len(case.batch.sources), case.heads)
        both(inputs, grad, patch, lambda ends, table, left: molecules_ops.attention(ends, table, left, 0.2, case.batch))


@settings(max_examples=40, deadline=None)
@given(cases(), st.booleans(), st.sampled_from([0.0, 0.1, 0.5]), st.integers(0, 2**62))
def test_normalisation_and_dropout_are_torchs(case: Case, relu: bool, probability: float, seed: int) -> None:
    width = case.x.shape[1]
    norm = SharedNorm(width, Sums(solo(), torch.device("cpu")), "n")
    drop = Drop(probability, seed if probability else 0)

    def run(leaves: list[Tensor]) -> Tensor:
        norm.weight, norm.bias = (torch.nn.Parameter(leaf.detach()) for leaf in leaves[1:])
        x = leaves[0]
        result: Tensor = norm(x, case.batch, drop, relu=relu)
        return result

    with pytest.MonkeyPatch.context() as patch:
        results = []
        for compiled in (True, False):
            patch.setattr(molecules_ops, "COMPILED", compiled)
            x = (5.0 + 2.0 * case.x).requires_grad_()
            out = run([x, case.table[0], case.table[1]])
            grad = torch.sin(torch.arange(out.numel(), dtype=torch.float32)).view(out.shape)
            results.append((out.detach(), torch.autograd.grad(out, [x, norm.weight, norm.bias], grad)))
    torch.testing.assert_close(results[0], results[1], atol=2e-3, rtol=2e-3)
    assert torch.equal(results[0][0] == 0, results[1][0] == 0)


@settings(max_examples=20, deadline=None)
@given(cases())
def test_the_gradient_of_normalisation_is_that_of_torchs_batch_norm(case: Case) -> None:
    if len(case.x) < 2:
        return
    width = case.x.shape[1]
    norm, theirs = SharedNorm(width, Sums(solo(), torch.device("cpu")), "n"), torch.nn.BatchNorm1d(width)
    norm.weight.data, theirs.weight.data = case.table[0].clone(), case.table[0].float()
    grad = case.rows(*case.x.shape)
    found, wanted = case.x.clone().requires_grad_(), case.x.clone().requires_grad_()
    out = norm(found, case.batch, Drop(), relu=False)
    expected = theirs(wanted)
    torch.testing.assert_close(out, expected, atol=1e-4, rtol=1e-4)
    ours = torch.autograd.grad(out, [found, norm.weight, norm.bias], grad)
    expected_gradients = torch.autograd.grad(expected, [wanted, theirs.weight, theirs.bias], grad)
    for one, other in zip(ours, expected_gradients, strict=True):
        torch.testing.assert_close(one.float(), other, atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(norm.variance.float(), theirs.running_var)
    torch.testing.assert_close(norm.mean.float(), theirs.running_mean)


def test_dropout_keeps_the_wanted_part_and_follows_from_the_id_alone() -> None:
    ids = torch.arange(2000)
    kept = molecules_ops.kept(ids, 32, Drop(0.3, 5))
    assert float((kept > 0).float().mean()) == pytest.approx(0.7, abs=0.01)
    assert float(kept.max()) == pytest.approx(1 / 0.7)
    assert torch.equal(kept[500:600], molecules_ops.kept(ids[500:600], 32, Drop(0.3, 5)))
    assert not torch.equal(kept, molecules_ops.kept(ids, 32, Drop(0.3, 6)))


@settings(max_examples=40, deadline=None)
@given(cases(), st.sampled_from([1, 3, 16, 37]), st.booleans())
def test_products_and_their_gradients_are_torchs(case: Case, outputs: int, biased: bool) -> None:
    inputs = [case.x, case.rows(outputs, case.x.shape[1]).double(), case.rows(outputs).double()]

    def run(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return molecules_linear.linear(x, weight, bias if biased else 0.0 * bias, case.batch.offsets)

    with pytest.MonkeyPatch.context() as patch:
        both(inputs, case.rows(len(case.x), outputs), patch, run)


@settings(max_examples=40, deadline=None)
@given(cases())
def test_looked_up_rows_and_sums_over_graphs_are_torchs(case: Case) -> None:
    batch, kind_of = case.batch, torch.randint(0, KINDS, (len(case.x),), generator=case.generator)
    with pytest.MonkeyPatch.context() as patch:
        both([case.table], case.rows(*case.x.shape), patch, lambda table: molecules_linear.lookup(table, kind_of))
        graphs = case.rows(len(batch.sizes), case.x.shape[1])
        both([case.x], graphs, patch, lambda x: molecules_linear.pool(x, batch.graph_of, batch.offsets))


@settings(max_examples=40, deadline=None)
@given(cases(), st.booleans(), st.floats(0.5, 200.0))
def test_losses_and_their_gradients_are_torchs(case: Case, classes: bool, weight: float) -> None:
    rows, columns = case.x.shape
    if classes:
        labels = torch.randint(-1, columns, (rows,), generator=case.generator)
    else:
        labels = torch.randint(0, 2, (rows, columns), generator=case.generator).float()
        labels[case.rows(rows, columns) > 1.0] = torch.nan
    with pytest.MonkeyPatch.context() as patch:
        for scale in (1.0, 30.0):
            run = lambda x: molecules_linear.loss(x, labels, weight).float()  # noqa: E731
            both([scale * case.x], torch.tensor(1.0), patch, run)


@settings(max_examples=40, deadline=None)
@given(cases(), st.randoms(use_true_random=False))
def test_what_graphs_add_up_to_does_not_depend_on_their_order(case: Case, random: Random) -> None:
    """Every sum over rows, with the graphs in another order: the same bits, and each row's product too."""
    offsets = case.batch.offsets.tolist()
    order = list(range(len(offsets) - 1))
    random.shuffle(order)
    rows = torch.tensor([row for graph in order for row in range(offsets[graph], offsets[graph + 1])])
    moved = torch.tensor([0, *itertools.accumulate(offsets[graph + 1] - offsets[graph] for graph in order)])
    width = case.x.shape[1]
    weight, grad = case.rows(11, width).double().requires_grad_(), case.rows(len(case.x), 11)
    bias = torch.zeros(11, dtype=torch.float64, requires_grad=True)
    one = molecules_linear.linear(case.x, weight, bias, case.batch.offsets)
    other = molecules_linear.linear(case.x[rows], weight, bias, moved)
    assert torch.equal(one[rows], other)
    for found, again in zip(
        torch.autograd.grad(one, [weight, bias], grad), torch.autograd.grad(other, [weight, bias], grad[rows]), strict=True
    ):
        assert torch.equal(found, again)
    sums = molecules_ops.column_sums(case.x, case.batch.offsets)
    assert torch.equal(sums, molecules_ops.column_sums(case.x[rows], moved))
    whole, parts = molecules_linear.pool(case.x, case.batch.graph_of, case.batch.offsets), torch.tensor(order)
    graph_of = torch.repeat_interleave(torch.arange(len(order)), moved.diff())
    assert torch.equal(whole[parts], molecules_linear.pool(case.x[rows], graph_of, moved))


def test_rows_that_do_not_fit_are_refused() -> None:
    batch = MoleculeBatch(*([torch.zeros(1, dtype=torch.int64)] * 11))
    with pytest.raises(ValueError, match="do not fit"):
        molecules_ops.gather(torch.zeros(3, 4), torch.zeros(1, 4), torch.zeros(1, 1), batch, relu=True)
    with pytest.raises(ValueError, match="do not fit"):
        molecules_ops.attention(torch.zeros(3, 4), torch.zeros(1, 2), torch.zeros(2, 1), 0.2, batch)
