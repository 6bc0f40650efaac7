"""Messages of more numbers than MPI can count are refused before anything is sent; long documents travel in pieces."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmarks.threads import run_threads, solo
from hyperscale.model.adjacency import TrainingGraph
from hyperscale.training.engine.full import FullTrainer
from hyperscale.training.partition import local_part
from hyperscale.training.runtime import comm as comms
from hyperscale.training.runtime.comm import Comm
from hyperscale.training.runtime.contract import ContractError
from hyperscale.training.sampling.sampled_trainer import SampledTrainer
from tests.builders.training import a_run, labelled_graph

WORDS = r"spec.workers: .* numbers in one message .*MPI counts up to 2147483647.*write more workers"


def test_an_exchange_whose_numbers_do_not_fit_32_bits_is_refused() -> None:
    rows = torch.empty((2**16, 2**15), device="meta")
    assert rows.numel() == comms.MAX_COUNT + 1
    with pytest.raises(ContractError, match=WORDS):
        solo().alltoall(rows, [2**16], "halo.layer0")


def test_a_sum_of_more_numbers_than_32_bits_count_is_refused() -> None:
    with pytest.raises(ContractError, match=WORDS):
        solo().start_allreduce_([torch.empty(2**31, device="meta")], "gradient")


def star() -> TrainingGraph:
    """Vertex 0 and its 60 neighbours, which have no other."""
    graph = labelled_graph(5, 61, features=12)
    indptr = np.concatenate([[0], 60 + np.arange(61)]).astype(np.int64)
    return replace(graph, indptr=indptr, indices=np.concatenate([np.arange(1, 61), np.zeros(60)]).astype(np.int32))


@pytest.mark.parametrize(
    ("kind", "model"),
    [(FullTrainer, {}), (SampledTrainer, {"layers": 1, "fanouts": [60], "batchSize": 61})],
    ids=["copies of vertices", "fetched features"],
)
def test_what_a_rank_would_receive_is_counted_too(
    kind: type[FullTrainer], model: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two ranks send 30 rows of 12 numbers each; the third, with the star's centre, would get 720."""
    graph, cut = star(), np.array([2, *[0] * 30, *[1] * 30], np.int32)
    monkeypatch.setattr(comms, "MAX_COUNT", 500)
    raised = []

    def rank(comm: Comm) -> None:
        run = a_run({"hiddenSize": 12, "layers": 2} | model, {"cacheSize": 0}, rank=comm.rank, size=3)
        try:
            kind(run, comm, local_part(graph, cut, comm.rank, 3), torch.device("cpu")).epoch(1)
        except ContractError as error:
            raised.append((comm.rank, str(error)))
            raise

    with pytest.raises(ContractError, match="MPI counts up to 500"):
        run_threads(3, rank)
    assert [(at, "would receive 720 numbers" in said) for at, said in raised] == [(2, True)]


def test_a_document_longer_than_a_message_arrives_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comms, "MAX_COUNT", 10)
    document = bytes(range(256))
    assert run_threads(2, lambda comm: comm.broadcast_bytes(document if comm.rank == 0 else b"", "checkpoint")) == [document] * 2
