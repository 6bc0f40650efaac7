"""Runs of the published simulator of Sia (SOSP 2023, siasosp23/artifacts, folder sia-simulator), imported where it lies.

The simulator has no licence file, so nothing of it is here. Its `multi_simulate` runs as published; what is replaced from outside:

- calls that newer pandas, numpy and rich no longer have, or that print every round;
- the log of each round, of which the last is all that is read;
- figures that depend on nothing but their arguments are remembered (largest local batch of a placement, the split of a fixed batch,
  the speed model of a job between two measurements);
- the gradient of the fit (sia_fit.py).

None changes a figure. Every allocation of every policy is checked: the simulator itself checks none.
"""

# ruff: noqa: ANN401 - the simulator has no types

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks.peers import sia_fit

INTERVALS = {"gavel": 360}
"""Seconds of a round, as published; 60 for the others."""
GPU = "nvidia.com/gpu"


class _Silent:
    """Stands in for tables and consoles of rich."""

    def __init__(self, *_: object, **__: object) -> None: ...

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


class OverCapacityError(Exception):
    """A policy gave away more GPUs of a node than it has."""


def load(root: Path) -> None:
    """Make the simulator importable, run from its folder, and put the replacements in place. Raises ImportError for a missing package."""
    os.chdir(root)
    sys.path.insert(0, str(root))
    _mend_pandas()
    config: Any = importlib.import_module("simulator_config")
    config.sia_solver_verbose = False
    config.sia_solver_num_threads = 1
    with contextlib.redirect_stdout(None):
        simulator = importlib.import_module("multi_simulator")
    for name in ("Table", "Console"):
        setattr(simulator, name, _Silent)
    sia_fit.install()
    _remember(importlib.import_module("applications").Application, importlib.import_module("job").Job)
    importlib.import_module("cluster").Cluster.step_log = _last_round  # the figures of earlier rounds are summed up as they pass


def _mend_pandas() -> None:
    pandas = importlib.import_module("pandas")
    if not hasattr(pandas.DataFrame, "append"):
        pandas.DataFrame.append = lambda frame, other, ignore_index=False: pandas.concat([frame, other], ignore_index=ignore_index)


def _remember(application: Any, job: Any) -> None:
    """Remember the figures that depend on their arguments alone."""
    application.get_max_local_bsz = functools.lru_cache(maxsize=None)(application.get_max_local_bsz)
    published = job.update_local_bsz
    batches: dict[tuple[object, ...], tuple[int, int]] = {}

    def update(self: Any, placement: Any) -> None:
        if self.enable_bsz_tuning:
            published(self, tuple(placement))
            return
        key = (self.app_name, self.current_cluster, tuple(placement), self.target_batch_size)
        if key not in batches:
            published(self, tuple(placement))
            batches[key] = (self.atomic_bsz, self.accum_steps)
        self.atomic_bsz, self.accum_steps = batches[key]

    job.update_local_bsz = update
    built = job.get_speedup_fn

    def speedup(self: Any, cluster_name: str | None = None) -> Any:
        if self.grad_params is None or self.perf_params[cluster_name] is None:
            return None
        key = (self.perf_params[cluster_name], tuple(self.grad_params), self.enable_bsz_tuning)
        models = self.__dict__.setdefault("speed_models", {})
        if cluster_name not in models or models[cluster_name][0] != key:
            models[cluster_name] = (key, built(self, cluster_name))
        return models[cluster_name][1]

    job.get_speedup_fn = speedup


def _last_round(cluster: Any) -> None:
    """Keep the state of the jobs as `multi_simulate` reads it, of the last round only."""
    jobs = [
        {
            "name": job.name,
            "epoch": job.epoch,
            "num_restarts": job.num_restarts,
            "cluster": job.current_cluster,
            "placement": job.placement,
            "batch_size": 0,
            "submission_time": job.submission_time,
            "completion_time": job.completion_time,
            "n_avg": 0.0,
            "category": job.category,
        }
        for job in cluster.jobs
        if job.submission_time <= cluster.current_time
    ]
    cluster.logs = [{"submitted_jobs": jobs}]


def simulate(workload: Path, policy: str, *, fixed_batch: bool, policy_class: Any = None) -> dict[str, float]:
    """Run a workload to its end; figures by name, times in hours.

    policy:       `sia` or `gavel`
    policy_class: a subclass of SiaPolicy that decides in the place of Sia
    """
    simulator, cluster_module = importlib.import_module("multi_simulator"), importlib.import_module("cluster")
    held: list[Any] = []
    seconds: list[float] = []
    if policy_class is not None:
        simulator.SiaPolicy = policy_class  # type: ignore[attr-defined] # of a module that is loaded at run time
    _watch(cluster_module.Cluster, held, seconds)
    interval = INTERVALS.get(policy, 60)
    arguments = SimpleNamespace(
        workload=str(workload), cluster_scale=None, policy=policy, policy_p_val=-0.5, mip_lambda_a=0.01, mip_lambda_n=1.1,
        project_throughputs=True, share_max_replicas=True, disable_bsz_tuning=fixed_batch, oracle_num_nodes=0, oracle_num_replicas=0,
        interval=interval, debug=False, output=None,
    )  # fmt: skip
    began = time.perf_counter()
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        simulator.multi_simulate(arguments)
    return _figures(held[0], seconds, time.perf_counter() - began)


def _watch(cluster: Any, held: list[Any], seconds: list[float]) -> None:
    """Keep the cluster, time its policy and check what the policy answers."""
    build = cluster.__init__

    def built(self: Any, workload: Any, policy: Any, *others: Any, **more: Any) -> None:
        build(self, workload, policy, *others, **more)
        held.append(self)
        published = policy.optimize

        def optimize(jobs: Any, nodes: Any, before: Any) -> Any:
            began = time.perf_counter()
            answer = published(jobs, nodes, before)
            seconds.append(time.perf_counter() - began)
            check(answer, nodes)
            return answer

        policy.optimize = optimize

    cluster.__init__ = built


def check(answer: dict[str, tuple[str | None, Any]], nodes: Any) -> None:
    """Raise OverCapacityError where a node gives more GPUs than it has."""
    used = Counter((kind, node) for kind, ids in answer.values() for node in ids)
    for (kind, node), count in used.items():
        if count > nodes[kind][node].resources[GPU]:
            raise OverCapacityError(f"{count} GPUs of node {node} of {kind}")


def _figures(cluster: Any, seconds: list[float], wall: float) -> dict[str, float]:
    jobs = cluster.jobs
    done = [job for job in jobs if job.completion_time is not None]
    times = sorted((job.completion_time - job.submission_time) / 3600 for job in done)
    last, first = max(job.completion_time for job in done), min(job.submission_time for job in jobs)
    figures = {
        "jobs": float(len(jobs)),
        "done": float(len(done)),
        "mean completion": float(np.mean(times)),
        "median completion": float(np.median(times)),
        "p99 completion": times[int(0.99 * len(times))],
        "makespan": (last - first) / 3600,
        "restarts a job": float(np.mean([job.num_restarts or 0 for job in jobs])),
        "GPU hours a job": float(np.mean([job.attained_service for job in jobs])) / 3600,
        "decision p50": 1e3 * float(np.median(seconds)),
        "decision p95": 1e3 * float(np.percentile(seconds, 95)),
        "wall": wall,
    }
    return figures | _by_application(done)


def _by_application(done: list[Any]) -> dict[str, float]:
    hours: dict[str, list[float]] = {}
    for job in done:
        hours.setdefault(job.app_name, []).append((job.completion_time - job.submission_time) / 3600)
    return {f"mean completion of {name}": float(np.mean(values)) for name, values in sorted(hours.items())}
