"""Our rounds behind the interface of Sia's simulator, without the simulator."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks.peers.sia_fit import objective
from benchmarks.peers.sia_rounds import _job, _placed, _rates, _Record
from benchmarks.peers.sia_simulator import OverCapacityError, check
from benchmarks.peers.sia_speeds import Speeds, kind_of
from benchmarks.sia import _workload

SHAPES = [("aws", 4, 1, 1), ("aws", 4, 1, 2), ("aws", 4, 1, 4), ("aws", 4, 2, 8), ("rtx", 8, 1, 1), ("rtx", 8, 1, 8)]


def _nodes(**counts: tuple[int, int]) -> dict[str, dict[int, Any]]:
    """Types with nodes and GPUs a node."""
    return {
        name: {index: SimpleNamespace(resources={"nvidia.com/gpu": gpus}) for index in range(count)}
        for name, (count, gpus) in counts.items()
    }


class _Model:
    """A learnt goodput function: `speed` a GPU, nothing lost."""

    tune_bsz = False
    _max_batch_size = 64

    def __init__(self, speed: float) -> None:
        self._goodput_fn = SimpleNamespace(_perf_params=speed, _grad_params=None, efficiency=lambda batch: 1.0)
        self.speed = speed

    def get_goodput(self, nodes: Any, gpus: Any) -> Any:
        assert nodes.dtype == gpus.dtype == np.float32
        return self.speed * gpus


def _info(aws: _Model | None = None, *, underway: bool = False) -> SimpleNamespace:
    return SimpleNamespace(
        speedup_fn={"aws": aws, "rtx": None},
        cluster_throughputs={"aws": 10.0, "rtx": 30.0},
        cluster_throughput_ratios={"aws": {"rtx": 1 / 3}, "rtx": {"aws": 3.0}},
        scaling_underway=underway,
    )


def test_a_job_that_never_ran_is_offered_one_node_by_its_profiles() -> None:
    rates = _rates(_info(), SHAPES)
    assert set(rates) == {(0, 1), (0, 2), (0, 4), (1, 1), (1, 8)}
    assert rates[0, 1] == 10.0
    assert rates[1, 1] == 30.0
    assert rates[1, 8] == pytest.approx(30.0 * 8**0.9)


def test_a_type_where_the_job_never_ran_is_projected() -> None:
    rates = _rates(_info(_Model(5.0)), SHAPES)
    assert rates[0, 8] == 40.0
    assert rates[1, 8] == 120.0


def test_work_done_is_counted_without_the_restart() -> None:
    record = _Record(lost_seconds=40.0)
    job = _job("cifar10-1", _info(_Model(5.0)), (0, 4), record, SHAPES, 40.0)
    assert record.work == pytest.approx((60.0 - 40.0) * 20.0)
    assert job.attained == pytest.approx(record.work)
    assert record.lost_seconds == 0.0
    assert job.current is not None
    assert job.options[job.current].gpus == 4


def test_a_job_in_its_restart_may_not_move() -> None:
    assert not _job("cifar10-1", _info(_Model(5.0), underway=True), (0, 4), _Record(), SHAPES, 40.0).movable


def test_placements_keep_to_whole_nodes_and_to_one_node() -> None:
    nodes = _nodes(aws=(3, 4), rtx=(1, 8))
    placed = _placed({"a": (0, 8), "b": (0, 2), "c": (0, 1), "d": (1, 8)}, ["aws", "rtx"], nodes)
    check(placed, nodes)
    assert placed == {"a": ("aws", [0] * 4 + [1] * 4), "b": ("aws", [2, 2]), "c": ("aws", [2]), "d": ("rtx", [0] * 8)}


def test_more_gpus_than_a_node_has_are_an_error() -> None:
    with pytest.raises(OverCapacityError, match="5 GPUs of node 1 of aws"):
        check({"a": ("aws", [1, 1, 1]), "b": ("aws", [1, 1])}, _nodes(aws=(2, 4)))


def test_the_gradient_of_the_fit_is_that_of_its_value() -> None:
    nodes, gpus, batch = np.array([1.0, 1.0, 2.0, 1.0]), np.array([1.0, 4.0, 8.0, 2.0]), np.array([64.0, 32.0, 64.0, 128.0])
    fit = objective(nodes, gpus, batch, np.array([0.2, 0.11, 0.22, 0.4]), np.array([0.21, 0.2, 0.4, 0.45]))
    point = np.array([0.05, 0.003, 0.04, 0.01, 0.02, 0.005, 1.7])
    gradient = fit(point)[1]
    for index in range(7):
        step = np.zeros(7)
        step[index] = 1e-6
        assert gradient[index] == pytest.approx((fit(point + step)[0] - fit(point - step)[0]) / 2e-6, rel=1e-4, abs=1e-7)


def test_without_the_simulator_the_benchmark_says_so_and_ends_well(tmp_path: Path) -> None:
    script = Path(__file__).resolve().parents[3] / "benchmarks" / "sia.py"
    done = subprocess.run([sys.executable, str(script), "--simulator", str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "no simulator in" in done.stdout


def test_a_job_takes_the_speed_that_another_of_its_kind_has_measured() -> None:
    speeds, mate = Speeds(), _info(_Model(5.0))
    speeds.measured(mate, "aws", (0, 2), 4, {(0, 2)})
    own = _rates(_info(_Model(9.0)), SHAPES)
    shared = speeds.shared(_info(_Model(9.0)), own, {(0, 1)}, SHAPES)
    assert shared[0, 1] == own[0, 1] == 9.0
    assert shared[0, 2] == 10.0
    assert shared[1, 1] == own[1, 1]


def test_a_job_that_never_ran_is_offered_all_that_its_kind_has_measured() -> None:
    speeds = Speeds()
    speeds.measured(_info(_Model(5.0)), "aws", (0, 2), 4, {(0, 2)})
    assert speeds.shared(_info(), _rates(_info(), SHAPES), set(), SHAPES) == _rates(_info(_Model(5.0)), SHAPES)


def test_a_job_of_another_kind_takes_nothing() -> None:
    speeds, other = Speeds(), _info()
    speeds.measured(_info(_Model(5.0)), "aws", (0, 2), 4, {(0, 2)})
    other.cluster_throughputs = {"aws": 11.0, "rtx": 30.0}
    own = _rates(other, SHAPES)
    assert speeds.shared(other, own, set(), SHAPES) == own


def test_an_equal_measurement_is_no_news() -> None:
    speeds, mate = Speeds(), _info(_Model(5.0))
    for _ in range(3):
        speeds.measured(mate, "aws", (0, 2), 4, {(0, 2)})
    assert list(speeds.versions.values()) == [1]
    assert speeds.versions.keys() == {kind_of(mate)}


def test_the_first_jobs_of_a_trace_are_those_that_were_submitted_first(tmp_path: Path) -> None:
    workloads = tmp_path / "workloads" / "philly"
    workloads.mkdir(parents=True)
    (workloads / "workload-6.csv").write_text("name,time\nb,20\nc,30\na,10\n")
    folder = tmp_path / "part"
    folder.mkdir()
    assert _workload(tmp_path, "philly-6:2", folder).read_text() == "name,time\na,10\nb,20\n"
    assert _workload(tmp_path, "philly-6", folder) == workloads / "workload-6.csv"
