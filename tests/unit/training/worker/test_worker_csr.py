"""The layers for GPUs, run on the processor: sums over edges are products of sparse matrices, and no tensor has a row for each edge."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchmarks.threads import solo
from hyperscale.training.data.generate import Kind, Recipe, generate
from hyperscale.training.engine.full import FullTrainer
from hyperscale.training.modelgraph import csr, tails
from hyperscale.training.modelgraph.attention_scores import scored
from hyperscale.training.modelgraph.kernels import AttentionRows, Drop
from hyperscale.training.modelgraph.places import Weighted, places_of
from hyperscale.training.partition import local_part
from tests.builders.training import a_run

CPU = torch.device("cpu")
ARCHITECTURES = ("GCN", "GraphSAGE", "GAT")
DROPPED = {"dropout": 0.4, "attentionDropout": 0.3}
WIDTH, HEADS = 32, 4


class Largest(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Remembers the numbers in the largest tensor that any operation returned."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(made):
            if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided:
                self.numbers = max(self.numbers, leaf.untyped_storage().nbytes() // leaf.element_size())
        return made


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("hyper", [{}, DROPPED], ids=["whole", "dropped"])
def test_no_tensor_of_an_epoch_has_a_row_for_each_edge(architecture: str, hyper: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tails, "BLOCK_FLOATS", 1 << 14)
    graph = generate(Recipe(Kind.SBM, 1500, 60_000, 24, 5), 1)
    part = local_part(graph, np.zeros(1500, np.int32), 0, 1)
    width = WIDTH // HEADS if architecture == "GAT" else WIDTH
    model = {"architecture": architecture, "layers": 3, "hiddenSize": width, "heads": HEADS}
    trainer = FullTrainer(a_run(model, hyper), solo(), part, CPU, csr)
    with Largest() as largest:
        trainer.epoch(1)
        trainer.evaluate()
    edges = len(part.indices) + 1500
    assert largest.numbers <= max(edges * HEADS, 1500 * WIDTH), f"{largest.numbers / edges:.1f} numbers an edge"


@pytest.mark.parametrize(("first", "last"), [(0, 4), (1, 3), (3, 4)])
def test_products_along_edges_are_the_same_by_the_library_that_a_gpu_uses(first: int, last: int) -> None:
    generator = np.random.default_rng(5)
    counts = generator.integers(0, 9, 60)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    places = places_of(indptr, generator.integers(0, 60, indptr[-1]), 60, CPU)
    x, inner = torch.randn(60, WIDTH), torch.randn(60, WIDTH)
    vectors = torch.randn(HEADS, WIDTH // HEADS), torch.randn(HEADS, WIDTH // HEADS)
    scores = scored(places, AttentionRows(HEADS, 0.2), x, vectors, None)
    torch.testing.assert_close(scores.sampled_products(first, last, x, inner), scores.products(first, last, x, inner))


def test_a_product_adds_to_what_it_is_given_and_leaves_fresh_memory_otherwise() -> None:
    places = places_of(np.array([0, 2, 2, 3]), np.array([0, 1, 2]), 3, CPU)
    matrix, x, given = Weighted(places, torch.tensor([1.0, 2.0, 3.0])), torch.arange(6.0).view(3, 2), torch.ones(3, 2)
    fresh = matrix.times(x)
    assert fresh.tolist() == [[4.0, 7.0], [0.0, 0.0], [12.0, 15.0]]
    added = matrix.times(x, add=given)
    assert added is given
    assert added.tolist() == [[5.0, 8.0], [1.0, 1.0], [13.0, 16.0]]
    assert matrix.turned.times(fresh).tolist() == [[4.0, 7.0], [8.0, 14.0], [36.0, 45.0]]


def test_dropout_in_double_precision_keeps_its_share_and_follows_the_seed() -> None:
    x = torch.ones(2_000, 50, dtype=torch.float64)
    thin = tails.thinned(x, Drop(0.25, 7))
    assert sorted(set(thin.flatten().tolist())) == [0.0, pytest.approx(1.0 / 0.75)]
    assert float((thin > 0.0).double().mean()) == pytest.approx(0.75, abs=0.01)
    assert torch.equal(thin, tails.thinned(x, Drop(0.25, 7)))
    assert not torch.equal(thin, tails.thinned(x, Drop(0.25, 8)))
    assert float(x.min()) == 1.0
