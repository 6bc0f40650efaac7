"""What a rank sets for Horovod before it starts."""

from __future__ import annotations

import os

import pytest
import torch

from hyperscale.worker import memory, train
from tests.builders.training import a_run


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The process's own, empty but for what keeps torch as it is."""
    found: dict[str, str] = {"OMP_NUM_THREADS": "1"}
    monkeypatch.setattr(os, "environ", found)
    monkeypatch.setattr(memory, "keep", lambda _: None)
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)
    return found


@pytest.mark.parametrize(("dataset", "tick"), [("SMILES", "0.05"), ("NPZ", None)])
def test_ranks_on_many_small_graphs_look_for_messages_more_often(variables: dict[str, str], dataset: str, tick: str | None) -> None:
    train.tune(a_run(size=2, HYPERSCALE_DATASET_FORMAT=dataset))
    assert variables.get("HOROVOD_CYCLE_TIME") == tick


def test_what_the_user_sets_for_horovod_stays(variables: dict[str, str]) -> None:
    variables["HOROVOD_CYCLE_TIME"] = "3"
    train.tune(a_run(size=2, HYPERSCALE_DATASET_FORMAT="SMILES"))
    assert variables["HOROVOD_CYCLE_TIME"] == "3"


def test_stock_horovod_stays_stock_on_many_small_graphs(variables: dict[str, str]) -> None:
    train.tune(a_run(size=2, HYPERSCALE_DATASET_FORMAT="SMILES", HYPERSCALE_ALLREDUCE_SCHEDULE="Default"))
    assert not any(name.startswith("HOROVOD") for name in variables)
