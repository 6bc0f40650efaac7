"""Rows of vertices with very many edges: sums of floats stay as exact as those of short rows."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import torch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # escape sequences in the source of DGL 1.1
    import dgl

from benchmarks import fusion, fusion_exact
from hyperscale.model.adjacency import Array
from hyperscale.training.modelgraph import kernels
from hyperscale.training.modelgraph.edges import Edges, edges_of
from hyperscale.training.modelgraph.fuse import fuse
from hyperscale.training.modelgraph.fusion_rules import EVERY, HOIST, GraphStatistics
from hyperscale.training.modelgraph.kernels import AttentionRows

HUB_EDGES = 40_000
needs_compiler = pytest.mark.skipif(not kernels.COMPILED, reason="numpy sums its own way")


def hub() -> Edges:
    """Vertex 0 hears from all, the others from 0 and themselves."""
    others = np.arange(1, HUB_EDGES)
    indptr = np.concatenate([[0], HUB_EDGES + 2 * np.arange(HUB_EDGES)])
    indices = np.concatenate([np.arange(HUB_EDGES), np.stack([np.zeros_like(others), others], axis=1).ravel()])
    return edges_of(indptr, indices, HUB_EDGES)


@needs_compiler
@pytest.mark.parametrize("width", [1, 3, 7, 12, 16, 40, 200])
def test_the_sum_over_a_hub_is_right_to_a_few_roundings(width: int) -> None:
    edges = hub()
    rng = np.random.default_rng(width)
    x = (1.0 + rng.random((HUB_EDGES, width))).astype(np.float32)
    found = kernels.aggregate(edges.matrix("none"), x)
    matrix = sp.csr_matrix((np.ones(edges.count), edges.indices, edges.indptr), shape=(HUB_EDGES, HUB_EDGES))
    expected = matrix @ x.astype(np.float64)
    assert np.abs(found / expected - 1).max() < 2e-6


@needs_compiler
def test_the_gradient_of_a_hubs_score_is_right_where_its_terms_cancel() -> None:
    edges = hub()
    rng = np.random.default_rng(3)
    heads, depth = 2, 16
    x = (1.0 + 0.01 * rng.standard_normal((HUB_EDGES, heads * depth))).astype(np.float32)
    left, right = (0.1 * rng.standard_normal((HUB_EDGES, heads)).astype(np.float32) for _ in range(2))
    inner = np.ones_like(x)
    how = AttentionRows(heads, 0.2)
    done = kernels.attend(edges, x, left, right, how)
    dots = (inner * done.sums).reshape(HUB_EDGES, heads, depth).sum(axis=2)
    found = kernels.attend_back(edges, x, left, right, how, done, inner, dots)[2]
    assert np.abs(found[0] - hub_gradient(x, left, right, how)).max() < 2e-6


def hub_gradient(x: Array, left: Array, right: Array, how: AttentionRows) -> Array:
    """(H,) of the hub's own score in float64, where the gradient of its sums is 1 everywhere."""
    scores = (left + right[0]).astype(np.float64)
    slopes = np.where(scores > 0, 1.0, how.slope)
    weights = np.exp(scores * slopes)
    weights /= weights.sum(axis=0)
    products = x.astype(np.float64).reshape(len(x), how.heads, -1).sum(axis=2)
    found: Array = (weights * (products - (weights * products).sum(axis=0)) * slopes).sum(axis=0)
    return found


@pytest.mark.parametrize("kind", ["GCN", "GraphSAGE", "GAT"])
def test_gradients_of_both_forms_are_those_of_float64_on_their_own_sides(kind: str) -> None:
    torch.manual_seed(0)
    graph = fusion.grid(12)
    count = graph.num_nodes()
    x, labels = torch.randn(count, fusion.WIDE), torch.randint(0, fusion.CLASSES, (count,))
    model = fusion.Model(kind)
    fused = fuse(model, GraphStatistics(count, graph.num_edges()), EVERY - {HOIST}).model
    for form in (model, fused):
        expected, elsewhere = fusion_exact.gradients(model, form, graph, x, labels)
        assert fusion.error(fusion.stepper(form, graph, x, labels)()[1:], expected) < 1e-5
        assert elsewhere <= 2


def test_sides_of_scores_are_found_in_dgls_layer_and_in_the_fused_one() -> None:
    torch.manual_seed(0)
    graph = dgl.add_self_loop(dgl.graph(([0, 1, 2, 3], [1, 2, 3, 0])))
    model = fusion.Model("GAT")
    fused = fuse(model, GraphStatistics(4, 8)).model
    x = torch.randn(4, fusion.WIDE)
    ours, theirs = (fusion_exact.attention_sides(form, graph, x) for form in (fused, model))
    assert sorted(ours) == sorted(theirs) == ["first", "second"]
    for name, sides in ours.items():
        assert torch.equal(sides, theirs[name])
        assert 0 < int(sides.sum()) < sides.numel() or name == "second"


def test_a_sided_leaky_relu_counts_what_lies_elsewhere() -> None:
    sided = fusion_exact.Sided(torch.tensor([[[True]], [[False]], [[False]]]), 0.2)
    given = torch.tensor([[[-1.0]], [[-1.0]], [[1.0]]])
    assert sided(given).flatten().tolist() == pytest.approx([-1.0, -0.2, 0.2])
    assert sided.apart == 2
