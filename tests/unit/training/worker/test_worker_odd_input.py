"""What a user may hand to a worker by mistake: nothing to learn, features of nothing, commands that say nothing. One line, or it trains."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.threads import run_threads, solo
from hyperscale.model.adjacency import Array
from hyperscale.model.api.measured import RESULT_PREFIX
from hyperscale.training.engine.full import FullTrainer
from hyperscale.training.engine.loop import Loop
from hyperscale.training.engine.report import Reporter
from hyperscale.training.partition import local_part
from hyperscale.training.runtime.comm import Comm
from hyperscale.training.runtime.contract import ContractError, read
from hyperscale.training.sampling.sampled_trainer import SampledTrainer
from hyperscale.training.worker import load_part
from hyperscale.training.worker.launch import result_of
from hyperscale.training.worker.train import train as train_run
from tests.builders.training import a_run, environment, labelled_graph

EDGES = np.array([[at, at + 1] for at in range(19)])


def variables(file: Path, form: str = "NPZ") -> dict[str, str]:
    return environment(
        {"epochs": 2, "hiddenSize": 4},
        HYPERSCALE_DATASET_SOURCE="persistentVolumeClaim",
        HYPERSCALE_DATASET_PATH=str(file),
        HYPERSCALE_DATASET_FORMAT=form,
        HYPERSCALE_METRICS_PORT="0",
        HYPERSCALE_PLAN_FILE=str(file.parent / "no-plan.json"),
    )


def test_a_graph_without_labels_is_refused_on_every_rank_instead_of_trained_to_nothing(tmp_path: Path) -> None:
    file = tmp_path / "g.npz"
    np.savez(file, edges=EDGES)
    told = variables(file)
    refused = []

    def rank(comm: Comm) -> None:
        run = read({**told, "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": str(comm.rank)})
        with pytest.raises(ContractError, match="HYPERSCALE_DATASET_PATH: nothing in train has a label") as caught:
            load_part.part(run, comm, {})
        refused.append(str(caught.value))

    run_threads(2, rank)
    assert len(refused) == 2


def test_molecules_without_labels_in_train_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("rdkit")
    file = tmp_path / "m.csv"
    file.write_text(
        "smiles,active,split\n" + "".join(f"{'C' * at},{'' if at < 9 else 1},{'train' if at < 9 else 'test'}\n" for at in range(1, 12))
    )
    with pytest.raises(ContractError, match="no graph in train has a label"):
        train_run(read(variables(file, "SMILES")), solo())


@pytest.mark.parametrize("features", [np.zeros((20, 3)), np.full((20, 3), 3e38)], ids=["nothing", "more than 32 bits add up to"])
def test_features_of_nothing_and_of_almost_too_much_are_trained_on(features: Array, tmp_path: Path) -> None:
    file = tmp_path / "g.npz"
    np.savez(file, edges=EDGES, labels=np.arange(20) % 2, features=features)
    result = train_run(read(variables(file)), solo())
    assert result.finished
    assert np.isfinite(result.loss or np.nan)


def test_a_rank_beyond_the_size_is_refused() -> None:
    with pytest.raises(ContractError, match="OMPI_COMM_WORLD_RANK: 5 is out of range; write 0 to 1"):
        read(environment({"epochs": 1}, OMPI_COMM_WORLD_SIZE="2", OMPI_COMM_WORLD_RANK="5"))


@pytest.mark.parametrize("document", [b'{"epoch": "\xff"}', b"[" * 100_000, b"\xff\xfe", b"", b'{"epoch": NaN}'])
def test_result_lines_that_are_none_are_passed_over(document: bytes) -> None:
    assert result_of(RESULT_PREFIX.encode() + document + b"\n") is None


@pytest.mark.parametrize(
    ("script", "code", "message"),
    [
        ("raise SystemExit(3)", 3, "ended with 3 and printed nothing"),
        (
            f"import sys; sys.stdout.buffer.write({RESULT_PREFIX!r}.encode() + b'{{\\xff\\n' + b'x' * 200_000); raise SystemExit(1)",
            1,
            "xxx",
        ),
        ("print('only this'); raise SystemExit(4)", 4, "only this"),
    ],
    ids=["silent", "no result", "on standard output"],
)
def test_the_last_words_of_a_users_script_are_left_whatever_it_does(script: str, code: int, message: str, tmp_path: Path) -> None:
    left = tmp_path / "message"
    command = [sys.executable, "-m", "hyperscale.training.worker.launch", "--", sys.executable, "-c", script]
    ran = subprocess.run(command, env={**os.environ, "HYPERSCALE_TERMINATION_LOG": str(left)}, capture_output=True, timeout=60, check=False)
    assert ran.returncode == code
    assert message in left.read_text(encoding="utf-8")


def test_a_log_that_is_gone_does_not_stop_the_command(tmp_path: Path) -> None:
    done = tmp_path / "done"
    script = f"print('x' * 1_000_000, flush=True); open({str(done)!r}, 'w').close()"
    command = [sys.executable, "-m", "hyperscale.training.worker.launch", "--", sys.executable, "-c", script]
    reader, writer = os.pipe()
    os.close(reader)
    told = {**os.environ, "HYPERSCALE_TERMINATION_LOG": str(tmp_path / "message")}
    ran = subprocess.run(command, env=told, stdout=writer, stderr=subprocess.DEVNULL, timeout=60, check=False)
    os.close(writer)
    assert ran.returncode in (0, 120), "120: Python's own flush at its end"
    assert done.exists()


@pytest.mark.parametrize("architecture", ["GCN", "GraphSAGE", "GAT"])
@pytest.mark.parametrize("batch", [None, 8], ids=["whole", "sampled"])
def test_a_rank_without_any_vertices_trains_along_to_the_loss_of_one_rank_alone(architecture: str, batch: int | None) -> None:
    graph = labelled_graph(3)
    nothing = np.zeros(len(graph.indptr) - 1, np.int32)
    trainer_of = FullTrainer if batch is None else SampledTrainer

    def rank(comm: Comm) -> float:
        model = {"architecture": architecture, "epochs": 3, "hiddenSize": 8}
        # As many steps and as large batches over all ranks whichever their number is.
        model |= {} if batch is None else {"batchSize": batch // comm.size}
        run = a_run(model, {"dropout": 0.0, "attentionDropout": 0.0}, rank=comm.rank, size=comm.size)
        trainer = trainer_of(run, comm, local_part(graph, nothing, comm.rank, comm.size), torch.device("cpu"))
        return Loop(run, comm, trainer, Reporter(run)).train().loss or np.nan

    alone, *_ = run_threads(1, rank)
    assert run_threads(2, rank) == pytest.approx([alone, alone], rel=1e-5)
