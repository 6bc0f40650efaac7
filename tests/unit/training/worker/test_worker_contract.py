"""The environment of a rank: what is read from it, and what each wrong value is answered with."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from hyperscale.model.api.hyperparameters import StatedHyperparameters
from hyperscale.model.api.job import Architecture, Compression
from hyperscale.model.plan import WorkerPlacement
from hyperscale.model.runplan import AllreduceCost, RunPlan
from hyperscale.training.runtime import contract
from hyperscale.training.runtime.contract import ContractError
from hyperscale.training.runtime.published_settings import Hyperparameters
from tests.builders.training import a_run, environment


def test_a_rank_reads_its_place_and_the_papers_figures() -> None:
    run = a_run({"architecture": "GAT", "heads": 4}, rank=3, size=4, HYPERSCALE_GPUS_PER_WORKER="2", HYPERSCALE_SHARES="0.75,0.25")
    assert (run.rank, run.size, run.namespace, run.name) == (3, 4, "default", "training")
    assert run.shares == (0.375, 0.375, 0.125, 0.125)
    assert run.model.architecture is Architecture.GAT
    assert run.hyper.learning_rate == 0.005
    assert run.compression is Compression.NONE
    assert run.plan is None


def test_each_rank_of_a_pod_serves_its_metrics_on_its_own_port() -> None:
    run = a_run(rank=1, size=2, HYPERSCALE_METRICS_PORT="9464", OMPI_COMM_WORLD_LOCAL_RANK="1")
    assert run.metrics_port == 9465


def test_the_plan_file_is_read_and_checked(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    placement = WorkerPlacement(index=0, first_rank=0, node="a", gpus=1, product=None, share=1.0)
    plan = RunPlan(1, "default/training", "abc", 7, 1, (placement,), allreduce=AllreduceCost(1e-4, 1e-9, measured=True))
    file.write_bytes(msgspec.json.encode(plan))
    assert a_run(HYPERSCALE_PLAN_FILE=str(file)).plan == plan
    file.write_bytes(msgspec.json.encode(msgspec.structs.replace(plan, version=9)))
    with pytest.raises(ContractError, match=r"^HYPERSCALE_PLAN_FILE: .*version 9, this image reads 1"):
        a_run(HYPERSCALE_PLAN_FILE=str(file))
    file.write_text("{")
    with pytest.raises(ContractError, match=r"^HYPERSCALE_PLAN_FILE: .*schema"):
        a_run(HYPERSCALE_PLAN_FILE=str(file))
    with pytest.raises(ContractError, match=r"^HYPERSCALE_PLAN_FILE: .*cannot be read"):
        a_run(HYPERSCALE_PLAN_FILE=str(tmp_path))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HYPERSCALE_SHARES", "0.5,x"),
        ("HYPERSCALE_SHARES", "0.5,0.6"),
        ("HYPERSCALE_SHARES", "1.5,-0.5"),
        ("HYPERSCALE_SHARES", "nan,1"),
        ("HYPERSCALE_SHARES", "1"),
        ("HYPERSCALE_WORKERS", "3"),
        ("HYPERSCALE_WORKERS", "two"),
        ("HYPERSCALE_SEED", "-1"),
        ("HYPERSCALE_PARTITIONS", "0"),
        ("HYPERSCALE_METRICS_PORT", "65536"),
        ("HYPERSCALE_JOB", "cora"),
        ("HYPERSCALE_MODEL", "{"),
        ("HYPERSCALE_MODEL", '{"architecture": "CNN"}'),
        ("HYPERSCALE_MODEL", '{"architecture": "GCN", "layers": 0}'),
        ("HYPERSCALE_MODEL", '{"architecture": "GCN", "hyperparameters": {"dropout": 1.0}}'),
        ("HYPERSCALE_HYPERPARAMETERS", '{"learningrate": 0.1}'),
        ("HYPERSCALE_HYPERPARAMETERS", '{"dropout": 1.0}'),
        ("HYPERSCALE_HYPERPARAMETERS", "[]"),
        ("HYPERSCALE_DATASET_SOURCE", "ftp"),
        ("HYPERSCALE_DATASET_PATH", ""),
        ("HYPERSCALE_DATASET_VERTICES", "many"),
        ("HYPERSCALE_PARTITIONING_METHOD", "Metis"),
        ("HYPERSCALE_ALLREDUCE_SCHEDULE", "Fast"),
        ("HYPERSCALE_COMPRESSION", "fp16"),
        ("HYPERSCALE_CHECKPOINT_EVERY_EPOCHS", "0"),
    ],
)
def test_a_wrong_value_is_one_line_that_begins_with_its_variable(name: str, value: str) -> None:
    with pytest.raises(ContractError) as caught:
        contract.read(environment(size=2) | {name: value})
    assert str(caught.value).startswith(f"{name}: ")
    assert "\n" not in str(caught.value)


def test_the_jobs_hyperparameters_come_before_the_published_and_the_variables_before_both() -> None:
    job = {"architecture": "GAT", "hyperparameters": {"learningRate": 0.5, "patienceEpochs": 7}}
    run = a_run(job, HYPERSCALE_HYPERPARAMETERS='{"learningRate": 0.25}')
    assert (run.hyper.learning_rate, run.hyper.patience_epochs, run.hyper.dropout) == (0.25, 7, 0.6)
    assert (run.hyper_for_graphs.learning_rate, run.hyper_for_graphs.patience_epochs, run.hyper_for_graphs.weight_decay) == (0.25, 7, 0.0)


def test_a_job_may_state_every_hyperparameter_within_the_workers_own_bounds() -> None:
    own = {field.name: field.type for field in msgspec.structs.fields(Hyperparameters)}
    stated = {field.name: field.type for field in msgspec.structs.fields(StatedHyperparameters)}
    assert stated == {name: kind | None for name, kind in own.items()}


def test_the_model_must_be_stated() -> None:
    variables = environment()
    del variables["HYPERSCALE_MODEL"]
    with pytest.raises(ContractError, match=r"^HYPERSCALE_MODEL: missing"):
        contract.read(variables)
