"""What a rank computes while boundary rows and their gradients are on their way."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from benchmarks.threads import run_threads
from hyperscale.training.engine import models
from hyperscale.training.engine.full import FullTrainer
from hyperscale.training.engine.halo_exchange import Exchange
from hyperscale.training.partition import local_part
from hyperscale.training.runtime.comm import Comm
from tests.builders.training import a_run, labelled_graph

RANKS = 2


def test_graphsages_own_product_is_computed_between_sending_and_waiting_in_both_directions(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = labelled_graph(5, 40, features=12, degree=6.0)
    cut = (np.arange(40) % RANKS).astype(np.int32)
    done: list[list[str]] = [[] for _ in range(RANKS)]
    start, own = Exchange.start, models.SAGELayer._own

    def started(exchange: Exchange, x: torch.Tensor, name: str) -> Callable[[], torch.Tensor]:
        done[exchange.comm.rank].append(f"send {name}")
        wait = start(exchange, x, name)

        def waited() -> torch.Tensor:
            done[exchange.comm.rank].append(f"wait {name}")
            return wait()

        return waited

    def product(layer: models.SAGELayer, graph: object, x: models.Rows) -> torch.Tensor:
        done[graph.exchange.comm.rank].append(f"own {layer._name}")  # type: ignore[attr-defined] # only a part's graph has it
        return own(layer, graph, x)  # type: ignore[arg-type] # the same

    monkeypatch.setattr(Exchange, "start", started)
    monkeypatch.setattr(models.SAGELayer, "_own", product)

    def rank(comm: Comm) -> list[str]:
        model = {"architecture": "GraphSAGE", "hiddenSize": 4, "layers": 2}
        part = local_part(graph, cut, comm.rank, RANKS)
        trainer = FullTrainer(a_run(model, {"dropout": 0.0}, rank=comm.rank, size=RANKS), comm, part, torch.device("cpu"))
        trainer.epoch(1)
        return sorted(trainer.gradients.ready_seconds, key=trainer.gradients.ready_seconds.__getitem__)

    ready = run_threads(RANKS, rank)
    for at in range(RANKS):
        assert done[at] == [f"{what} layer{layer}" for layer in range(2) for what in ("send", "own", "wait")]
        for layer in range(2):
            assert ready[at].index(f"layers.{layer}.weight") < ready[at].index(f"layers.{layer}.neighbour")
