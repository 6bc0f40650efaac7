"""Ranks on GPUs in an image whose Horovod knows no GPU: they refuse, with the fix, unless the job accepts copies through host memory."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import prometheus_client
import pytest
import torch

from hyperscale.control.render.environment import contract
from hyperscale.model.api.measured import Measured
from hyperscale.observe.prometheus.progress_query import progress
from hyperscale.training.engine.report import Reporter
from hyperscale.training.runtime import termination
from hyperscale.training.runtime.contract import ContractError
from hyperscale.training.worker import gpu_check, launch
from tests.builders import ranks
from tests.builders.placement import job, metadata
from tests.builders.training import a_run, environment

GPU_SEEN = "import torch\ntorch.cuda.is_available = lambda: True\n"
TRAIN = (sys.executable, "-W", "ignore", "-m", "hyperscale.training.worker.train")
NO_DRIVER = Path("/nowhere/nvidiactl")


@ranks.needs_horovod
def test_ranks_with_a_gpu_end_with_code_2_and_the_fix_as_the_launchers_last_words(tmp_path: Path) -> None:
    """Horovod, mpirun and the launcher are real; that PyTorch sees a GPU is played."""
    (tmp_path / "sitecustomize.py").write_text(GPU_SEEN)
    told = {name: value for name, value in environment().items() if not name.startswith("OMPI_")}
    more = {"HYPERSCALE_TERMINATION_LOG": str(tmp_path / "message"), "OMP_NUM_THREADS": "1"}
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    finished = ranks.start(2, TRAIN, {**ranks.without_a_job(os.environ), **told, **more, "PYTHONPATH": path})
    assert finished.returncode == 2, finished.stderr
    assert "Traceback" not in finished.stderr
    message = (tmp_path / "message").read_text()
    assert message.startswith("hyperscale.training.worker: spec.workers.template: the image's Horovod was built without CUDA and NCCL")
    assert "HOROVOD_GPU_OPERATIONS=NCCL" in message
    assert "spec.allreduce.hostStaging: true" in message
    assert "\n" not in message.strip()


@pytest.fixture
def on_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)


@ranks.needs_horovod
@pytest.mark.usefixtures("on_gpu")
def test_a_job_that_accepts_copies_runs_and_every_figure_of_it_says_so() -> None:
    run = a_run(size=2, HYPERSCALE_HOST_STAGING="true")
    assert gpu_check.host_staging(run, NO_DRIVER)
    reporter = Reporter(replace(run, metrics_port=0))
    reporter.flag("host_staging")
    text = prometheus_client.generate_latest(reporter.registry).decode()
    assert "hyperscale_training_host_staging{" in text


@ranks.needs_horovod
@pytest.mark.usefixtures("on_gpu")
def test_one_rank_alone_needs_no_horovod() -> None:
    assert not gpu_check.host_staging(a_run(size=1), NO_DRIVER)


@ranks.needs_horovod
def test_ranks_without_a_gpu_train_on_the_processor_as_on_the_local_cluster() -> None:
    assert not gpu_check.host_staging(a_run(size=2), NO_DRIVER)


def test_a_driver_that_pytorch_cannot_use_is_named_and_nothing_trains_on_the_processor(tmp_path: Path) -> None:
    device = tmp_path / "nvidiactl"
    device.touch()
    with pytest.raises(ContractError, match=rf"^spec.workers.template: the pod has .* PyTorch {re.escape(torch.__version__)}"):
        gpu_check.host_staging(a_run(size=2), device)


@pytest.mark.parametrize("text", ["yes", "1", "True"])
def test_another_value_than_true_or_false_is_refused(text: str) -> None:
    with pytest.raises(ContractError, match="HYPERSCALE_HOST_STAGING"):
        a_run(size=2, HYPERSCALE_HOST_STAGING=text)


def test_only_a_job_that_accepts_copies_tells_its_ranks() -> None:
    assert "HYPERSCALE_HOST_STAGING" not in contract(metadata(), job(), None)
    assert contract(metadata(), job(allreduce={"hostStaging": True}), None)["HYPERSCALE_HOST_STAGING"] == "true"


def test_progress_and_results_say_it_only_where_it_was() -> None:
    from hyperscale.model.metrics_reading import Series

    labels = {"job_namespace": "team", "job_name": "cora", "namespace": "team"}
    series = [Series({"__name__": f"hyperscale_training_{name}", **labels}, 1.0, 1.0) for name in ("epoch", "host_staging")]
    assert progress(series)["team", "cora"].host_staging
    assert b"hostStaging" not in msgspec.json.encode(Measured(epoch=1, epochs=1))


def test_a_ranks_own_error_is_kept_however_much_mpirun_says_after_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(termination.MESSAGE_VARIABLE, str(tmp_path / "message"))
    script = "import sys; sys.stderr.write('[0] hyperscale.training.worker: HYPERSCALE_SEED: wrong\\n' + 'noise\\n' * 50); sys.exit(2)"
    assert launch.main(["--", sys.executable, "-c", script]) == 2
    assert (tmp_path / "message").read_text() == "hyperscale.training.worker: HYPERSCALE_SEED: wrong"
