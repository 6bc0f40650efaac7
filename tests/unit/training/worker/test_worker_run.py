"""Whole runs: over Horovod, through the launcher, with metrics, and what happens when they go wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import numpy as np
import prometheus_client
import pytest
import torch

from benchmarks.threads import run_threads
from hyperscale.model.adjacency import Array, LocalPart, TrainingGraph
from hyperscale.model.api.measured import RESULT_PREFIX, Measured
from hyperscale.training.engine.checkpoint import CheckpointProgress
from hyperscale.training.engine.full import FullTrainer
from hyperscale.training.engine.gradients import Gradients
from hyperscale.training.engine.report import Reporter
from hyperscale.training.engine.retune import Adaptive
from hyperscale.training.engine.trainer import EpochStats
from hyperscale.training.partition import local_part
from hyperscale.training.runtime import termination
from hyperscale.training.runtime.comm import Comm
from hyperscale.training.runtime.contract import ContractError
from hyperscale.training.worker import given, launch, load_part
from tests.builders import ranks
from tests.builders.training import a_run, assignment, environment, labelled_graph

TRAIN = (sys.executable, "-W", "ignore", "-m", "hyperscale.training.worker.train")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small Cora in the citation layout."""
    graph = labelled_graph(5, vertices=90, degree=4.0)
    rows = np.repeat(np.arange(90), np.diff(graph.indptr))
    split = np.select([graph.train, graph.validation, graph.test], ["train", "val", "test"], "none")
    split[graph.labels < 0] = "none"
    below = rows < graph.indices
    directory = tmp_path_factory.mktemp("data")
    np.savez(
        directory / "graph.npz",
        edges=np.stack([rows[below], graph.indices[below]], axis=1).astype(np.int64),
        indptr=np.arange(0, 90 * 7 + 1, 7).astype(np.int32),
        indices=np.tile(np.arange(7), 90).astype(np.int32),
        data=graph.features.reshape(-1),
        shape=np.array([90, 7]),
        labels=graph.labels,
        split=split,
    )
    return directory / "graph.npz"


def variables(dataset: Path, directory: Path, **more: str) -> dict[str, str]:
    told = environment({"epochs": 6}, {"dropout": 0.3})
    told = {name: value for name, value in told.items() if not name.startswith("OMPI_")}
    return {
        **ranks.without_a_job(os.environ),
        **told,
        "OMP_NUM_THREADS": "1",
        "HYPERSCALE_DATASET_SOURCE": "persistentVolumeClaim",
        "HYPERSCALE_DATASET_PATH": str(dataset),
        "HYPERSCALE_DATASET_FORMAT": "NPZ",
        "CHECKPOINT_DIR": str(directory / "checkpoints"),
        "HYPERSCALE_CHECKPOINT_EVERY_EPOCHS": "2",
        "HYPERSCALE_TERMINATION_LOG": str(directory / "message"),
        **more,
    }


@ranks.needs_horovod
def test_two_processes_over_horovod_train_and_three_go_on_from_their_checkpoint(dataset: Path, tmp_path: Path) -> None:
    finished = ranks.start(2, TRAIN, variables(dataset, tmp_path, HYPERSCALE_SHARES="0.7,0.3"))
    assert finished.returncode == 0, finished.stderr
    message = msgspec.json.decode((tmp_path / "message").read_bytes(), type=Measured)
    assert RESULT_PREFIX in finished.stdout
    assert (message.epoch, message.finished, message.resumed_epoch) == (6, True, None)
    assert message.peer_bytes == pytest.approx(sum(pair.bytes for pair in message.busiest_pairs))
    assert {(pair.sender, pair.receiver) for pair in message.busiest_pairs} == {(0, 1), (1, 0)}
    assert [one.phase for one in message.phases] == ["forward", "backward", "halo", "allreduce", "step"]
    assert message.loss == pytest.approx(threads(dataset, 2, (0.7, 0.3)), rel=1e-4)

    model = {"architecture": "GCN", "hiddenSize": 5, "epochs": 8}
    told = variables(dataset, tmp_path, HYPERSCALE_MODEL=json.dumps(model), HYPERSCALE_COMPRESSION="FP16")
    finished = ranks.start(3, TRAIN, told)
    assert finished.returncode == 0, finished.stderr
    message = msgspec.json.decode((tmp_path / "message").read_bytes(), type=Measured)
    assert (message.epoch, message.resumed_epoch) == (8, 6)


@pytest.mark.parametrize("batch", [{}, {"batchSize": 8, "fanouts": [3, 3]}], ids=["full graph", "sampled"])
def test_a_process_starts_without_torchs_compiler(dataset: Path, tmp_path: Path, batch: dict[str, object]) -> None:
    model = {"architecture": "GraphSAGE", "hiddenSize": 5, "epochs": 2, **batch}
    told = variables(dataset, tmp_path, HYPERSCALE_MODEL=json.dumps(model), HYPERSCALE_SHARES="1")
    command = [sys.executable, "-W", "ignore", "-X", "importtime", *TRAIN[3:]]
    finished = subprocess.run(command, env=told, capture_output=True, text=True, timeout=300, check=False)
    assert finished.returncode == 0, finished.stderr[-2000:]
    assert "hyperscale.training.engine.adam" in finished.stderr, "imports are listed"
    assert "torch._dynamo" not in finished.stderr


def threads(dataset: Path, size: int, shares: tuple[float, ...]) -> float:
    """The last loss of the same run in threads of this process."""

    def rank(comm: Comm) -> float:
        told = variables(dataset, dataset.parent, HYPERSCALE_SHARES=",".join(map(str, shares)))
        run = a_run(
            {"epochs": 6},
            {"dropout": 0.3},
            comm.rank,
            comm.size,
            **{name: value for name, value in told.items() if name.startswith("HYPERSCALE_") and name != "HYPERSCALE_MODEL"},
        )
        trainer = FullTrainer(run, comm, load_part.part(run, comm, told), torch.device("cpu"))
        return [trainer.epoch(number).loss for number in range(1, 7)][-1]

    losses: list[float] = run_threads(size, rank)
    return losses[0]


@ranks.needs_horovod
def test_wrong_input_ends_with_code_2_and_says_why_in_the_termination_message(dataset: Path, tmp_path: Path) -> None:
    finished = ranks.start(2, TRAIN, variables(dataset, tmp_path, HYPERSCALE_DATASET_VERTICES="7"))
    assert finished.returncode == 2
    assert "Traceback" not in finished.stderr
    assert b"spec.dataset.vertices: the job states 7" in (tmp_path / "message").read_bytes()


def test_one_rank_that_cannot_read_ends_all_with_its_line() -> None:
    def rank(comm: Comm) -> str:
        def work() -> int:
            if comm.rank == 1:
                raise ContractError("HYPERSCALE_DATASET_PATH: no such file")
            return comm.rank

        with pytest.raises(ContractError) as caught:
            load_part.together(comm, "graph", work)
        return str(caught.value)

    assert run_threads(3, rank) == ["HYPERSCALE_DATASET_PATH: no such file"] * 3


def test_ranks_that_read_different_graphs_refuse_to_train(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = iter((1, 2))
    monkeypatch.setattr(given, "read_graph", lambda _: labelled_graph(next(seeds)))

    def rank(comm: Comm) -> str:
        with pytest.raises(ContractError) as caught:
            load_part.part(a_run(rank=comm.rank, size=2), comm, {})
        return str(caught.value)

    assert all("different graphs" in line for line in run_threads(2, rank))


def test_metrics_carry_job_and_rank() -> None:
    reporter = Reporter(a_run(rank=1, size=2))
    stats = EpochStats(0.5, 10, 2.0, 0.5, {"forward": 1.0}, (30, 0))
    reporter.epoch(4, stats, CheckpointProgress(epoch=4, best_test=0.8))
    reporter.epoch(5, stats, CheckpointProgress(epoch=5, best_test=0.8))
    text = prometheus_client.generate_latest(reporter.registry).decode()
    label = 'job_name="training",job_namespace="default",rank="1"'
    for line in (
        f"hyperscale_training_epoch{{{label}}} 5.0",
        f"hyperscale_training_epochs{{{label}}} 3.0",
        f"hyperscale_training_loss{{{label}}} 0.5",
        f"hyperscale_training_accuracy{{{label}}} 0.8",
        f"hyperscale_training_samples_per_second{{{label}}} 5.0",
        'hyperscale_training_peer_bytes_total{job_name="training",job_namespace="default",peer="0",rank="1"} 60.0',
        'hyperscale_training_phase_seconds{job_name="training",job_namespace="default",phase="forward",rank="1"} 1.0',
    ):
        assert line in text, line


def test_the_launcher_keeps_a_failed_commands_last_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(termination.MESSAGE_VARIABLE, str(tmp_path / "message"))
    script = "import sys; sys.stderr.write('a' * 9000 + '\\nlast words\\n'); sys.exit(7)"
    finished = subprocess.run(
        [sys.executable, "-m", "hyperscale.training.worker.launch", "--", sys.executable, "-c", script], check=False, timeout=60
    )
    assert finished.returncode == 7
    message = (tmp_path / "message").read_bytes()
    assert message.endswith(b"last words")
    assert len(message) <= termination.MAX_BYTES


@pytest.mark.parametrize("line", [b"epoch 3\n", f"{RESULT_PREFIX}{{\n".encode(), f"{RESULT_PREFIX}[]\n".encode()])
def test_what_is_no_result_is_no_result(line: bytes) -> None:
    assert launch.result_of(line) is None


def test_a_launcher_without_command_says_how() -> None:
    assert launch.main(["--"]) == 2


def test_groups_change_between_steps_and_sums_stay_the_same() -> None:
    graph, cut = labelled_graph(9), assignment(9, 40, 2)

    def rank(comm: Comm) -> list[float]:
        run = a_run({"layers": 3}, rank=comm.rank, size=2)
        trainer = FullTrainer(run, comm, part(graph, cut, comm), torch.device("cpu"))
        names = [name for name, _ in trainer.model.named_parameters()]
        losses = []
        for number, groups in enumerate((None, [names[:2], names[2:]], [names], [[names[0], names[-1]]]), start=1):
            trainer.gradients.regroup(groups)
            losses.append(trainer.epoch(number).loss)
        return losses

    def plain(comm: Comm) -> list[float]:
        trainer = FullTrainer(a_run({"layers": 3}, rank=comm.rank, size=2), comm, part(graph, cut, comm), torch.device("cpu"))
        return [trainer.epoch(number).loss for number in range(1, 5)]

    assert run_threads(2, rank) == run_threads(2, plain)


def part(graph: TrainingGraph, cut: Array, comm: Comm) -> LocalPart:
    return local_part(graph, cut, comm.rank, comm.size)


def test_measured_times_lead_all_ranks_to_the_same_groups() -> None:
    graph, cut = labelled_graph(9), assignment(9, 40, 2)

    def rank(comm: Comm) -> tuple[object, ...]:
        run = a_run({"layers": 3}, rank=comm.rank, size=2)
        trainer = FullTrainer(run, comm, local_part(graph, cut, comm.rank, 2), torch.device("cpu"))
        adaptive = Adaptive(run, comm, trainer.gradients)
        for number in range(1, 8):
            trainer.epoch(number)
            adaptive.after(number)
        assert sorted(name for group in trainer.gradients.groups for name in group) == sorted(trainer.gradients.bytes)
        return trainer.gradients.groups, adaptive.cost

    first, second = run_threads(2, rank)
    assert first == second


def test_groups_of_unknown_or_repeated_parameters_are_refused() -> None:
    (gradients,) = run_threads(1, lambda comm: Gradients(comm, torch.nn.Linear(2, 2)))
    for groups in ([["nothing"]], [["weight"], ["weight"]]):
        with pytest.raises(ValueError, match="groups name"):
            gradients.regroup(groups)


def test_a_parameter_that_only_one_rank_used_gets_the_sum_on_all() -> None:
    def rank(comm: Comm) -> list[float]:
        model = torch.nn.ModuleList([torch.nn.Linear(1, 1, bias=False), torch.nn.Linear(1, 1, bias=False)])
        gradients = Gradients(comm, model, [["0.weight", "1.weight"]], half=True)
        gradients.start()
        used = list(model) if comm.rank == 0 else [model[0]]
        torch.cat([layer(torch.ones(1, 1)) for layer in used]).sum().backward()  # type: ignore[no-untyped-call]
        gradients.finish()
        return [float(parameter.grad) for parameter in model.parameters() if parameter.grad is not None]

    assert run_threads(2, rank) == [[2.0, 1.0]] * 2
