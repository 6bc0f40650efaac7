"""From a cold start: `hyperscale plan` on 47 nodes as a user runs it, and a warm planner process as the operator asks it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.common import Row, goal, median, percentile
from benchmarks.families import HULK, HULK_MACHINES, POLICY, snapshot_of
from benchmarks.methods import OURS
from benchmarks.productsjob import products_job
from benchmarks.suites import Options
from hyperscale.learn.topologies import GPUS_PER_WORKER, generate
from hyperscale.model.api.job import JobSpec
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.plan import Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.observe.files.snapshot_files import read_snapshot, write_snapshot
from hyperscale.planner.service.process import PlannerProcess

BENCHMARK: Final = "cold"
COLD_LIMIT_SECONDS: Final = 1.5
WARM_LIMIT_SECONDS: Final = 0.05
WORKERS: Final = 8
COMMANDS: Final = 9
QUICK_COMMANDS: Final = 3
QUESTIONS: Final = 40
QUICK_QUESTIONS: Final = 10
DEADLINE_SECONDS: Final = 5.0


def run(options: Options) -> list[Row]:
    """Rows and both goals, on Hulk's machines where they are at hand, else on as many generated ones."""
    name, snapshot, gpus = cluster()
    commands = QUICK_COMMANDS if options.quick else COMMANDS
    with tempfile.TemporaryDirectory() as folder:
        cold = [_command(Path(folder), snapshot, gpus) for _ in range(commands)]
    rows = [Row(BENCHMARK, name, "hyperscale plan", "wall, imports included", seconds, "s", at) for at, seconds in enumerate(cold)]
    first, warm = asyncio.run(_warm(snapshot, gpus, QUICK_QUESTIONS if options.quick else QUESTIONS))
    rows.append(Row(BENCHMARK, name, "planner process", "first plan, start of the process included", first * 1e3, "ms"))
    rows += [Row(BENCHMARK, name, "planner process", "warm plan, jobs that differ", each * 1e3, "ms", at) for at, each in enumerate(warm)]
    return [
        *rows,
        goal(BENCHMARK, f"{name}: median of {commands} commands", OURS, median(cold), COLD_LIMIT_SECONDS, "s"),
        goal(BENCHMARK, f"{name}: p95 of {len(warm)} warm plans", OURS, percentile(warm, 0.95) * 1e3, WARM_LIMIT_SECONDS * 1e3, "ms"),
    ]


def cluster() -> tuple[str, ClusterSnapshot, int]:
    """Name, snapshot and GPUs of a worker."""
    if HULK.is_dir():
        return f"Hulk, {HULK_MACHINES} machines", read_snapshot(HULK), 1
    return f"generated wan, {HULK_MACHINES} nodes", snapshot_of(generate("wan", HULK_MACHINES, 0)), GPUS_PER_WORKER


def _spec(gpus: int, hidden: int) -> dict[str, Any]:
    """A job as a user writes it; another hidden size is another problem."""
    return products_job({"architecture": "GraphSAGE", "layers": 3, "hiddenSize": hidden}, (1, WORKERS), gpus)


def _command(folder: Path, snapshot: ClusterSnapshot, gpus: int) -> float:
    file, manifest = folder / "snapshot.json", folder / "job.yaml"
    write_snapshot(file, snapshot)
    resource = {"apiVersion": "hyperscale.dev/v1alpha1", "kind": "GNNTrainingJob", "metadata": {"name": "bench"}, "spec": _spec(gpus, 256)}
    manifest.write_bytes(msgspec.json.encode(resource))
    command = [sys.executable, "-m", "hyperscale.cli.main", "plan", "-f", str(manifest), "--snapshot", str(file), "-o", "json"]
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=60)
    return time.perf_counter() - started


async def _warm(snapshot: ClusterSnapshot, gpus: int, questions: int) -> tuple[float, list[float]]:
    """Seconds of the first plan of a new process, and of further plans for jobs that are not alike."""
    process = PlannerProcess()
    try:
        times = [await _asked(process, snapshot, gpus, 128 + 8 * at) for at in range(questions + 1)]
    finally:
        await process.stop()
    return times[0], times[1:]


async def _asked(process: PlannerProcess, snapshot: ClusterSnapshot, gpus: int, hidden: int) -> float:
    request = PlanRequest(job_key="bench/gnn", job=msgspec.convert(_spec(gpus, hidden), JobSpec), deadline_seconds=DEADLINE_SECONDS)
    started = time.perf_counter()
    plan = await process.plan(request, snapshot, POLICY)
    seconds = time.perf_counter() - started
    if not isinstance(plan, Plan):
        raise RuntimeError(f"no plan: {plan.reason}: {plan.message}")
    return seconds
