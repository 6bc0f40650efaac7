"""Compiled passes over batches of graphs against torch's own operations: figures, gradients, and dropout to the bit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperscale.modelgraph.kernels import Drop
from hyperscale.worker import molecules_ops
from hyperscale.worker.comm import solo
from hyperscale.worker.molecules_batch import Batch
from hyperscale.worker.molecules_norm import SharedNorm, Sums

pytestmark = pytest.mark.skipif(not molecules_ops.COMPILED, reason="built without a C compiler")
Tensor = torch.Tensor
KINDS = 3


@dataclass(frozen=True)
class Case:
    """A random batch, rows for its vertices, a table for the kinds of edges."""

    batch: Batch
    x: Tensor
    table: Tensor
    heads: int
    generator: torch.Generator

    def rows(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self.generator)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Up to 90 vertices: more than what the passes add up in one go; degrees 0 to 4."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    vertices = draw(st.integers(1, 90))
    heads, depth = draw(st.sampled_from([(1, 1), (1, 20), (2, 3), (4, 16)]))
    degree = torch.randint(0, 5, (vertices,), generator=generator)
    edges = int(degree.sum())
    batch = Batch(
        vertices=torch.arange(vertices),
        ids=torch.randint(0, 2**40, (vertices,), generator=generator),
        graph_of=torch.zeros(vertices, dtype=torch.int64),
        indptr=torch.cat([torch.zeros(1, dtype=torch.int64), degree.cumsum(0)]),
        sources=torch.randint(0, vertices, (edges,), generator=generator, dtype=torch.int32),
        destinations=torch.repeat_interleave(torch.arange(vertices), degree),
        kinds=torch.randint(0, KINDS, (edges,), generator=generator, dtype=torch.int32),
        weights=torch.rand((edges, 1), generator=generator),
        sizes=torch.ones(1),
        graphs=torch.zeros(1, dtype=torch.int64),
    )
    x, table = (torch.randn((rows, heads * depth), generator=generator) for rows in (vertices, KINDS))
    return Case(batch, x, table, heads, generator)


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
    inputs = [3.0 * case.rows(len(case.x), 2 * case.heads), case.rows(KINDS, case.heads)]
    with pytest.MonkeyPatch.context() as patch:
        grad = case.rows(len(case.batch.sources), case.heads)
        both(inputs, grad, patch, lambda ends, of_kind: molecules_ops.attention(ends, of_kind, 0.2, case.batch))


@settings(max_examples=40, deadline=None)
@given(cases(), st.booleans(), st.sampled_from([0.0, 0.1, 0.5]), st.integers(0, 2**62))
def test_normalisation_and_dropout_are_torchs(case: Case, relu: bool, probability: float, seed: int) -> None:
    width = case.x.shape[1]
    norm = SharedNorm(width, Sums(solo()), "n")
    drop = Drop(probability, seed if probability else 0)

    def run(leaves: list[Tensor]) -> Tensor:
        norm.weight, norm.bias = (torch.nn.Parameter(leaf.detach()) for leaf in leaves[1:])
        x = leaves[0]
        result: Tensor = norm(x, case.batch.ids, drop, relu=relu)
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
    norm, theirs = SharedNorm(width, Sums(solo()), "n"), torch.nn.BatchNorm1d(width)
    norm.weight.data = theirs.weight.data = case.table[0].clone()
    grad = case.rows(*case.x.shape)
    found, wanted = case.x.clone().requires_grad_(), case.x.clone().requires_grad_()
    out = norm(found, case.batch.ids, Drop(), relu=False)
    expected = theirs(wanted)
    torch.testing.assert_close(out, expected, atol=1e-4, rtol=1e-4)
    ours = torch.autograd.grad(out, [found, norm.weight, norm.bias], grad)
    torch.testing.assert_close(ours, torch.autograd.grad(expected, [wanted, theirs.weight, theirs.bias], grad), atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(norm.variance, theirs.running_var)
    torch.testing.assert_close(norm.mean, theirs.running_mean)


def test_dropout_keeps_the_wanted_part_and_follows_from_the_id_alone() -> None:
    ids = torch.arange(2000)
    kept = molecules_ops.kept(ids, 32, Drop(0.3, 5))
    assert float((kept > 0).float().mean()) == pytest.approx(0.7, abs=0.01)
    assert float(kept.max()) == pytest.approx(1 / 0.7)
    assert torch.equal(kept[500:600], molecules_ops.kept(ids[500:600], 32, Drop(0.3, 5)))
    assert not torch.equal(kept, molecules_ops.kept(ids, 32, Drop(0.3, 6)))


def test_rows_that_do_not_fit_are_refused() -> None:
    batch = Batch(*([torch.zeros(1, dtype=torch.int64)] * 10))
    with pytest.raises(ValueError, match="do not fit"):
        molecules_ops.gather(torch.zeros(3, 4), torch.zeros(1, 4), torch.zeros(1, 1), batch, relu=True)
    with pytest.raises(ValueError, match="do not fit"):
        molecules_ops.attention(torch.zeros(3, 4), torch.zeros(1, 2), 0.2, batch)
