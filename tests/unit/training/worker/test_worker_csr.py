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
