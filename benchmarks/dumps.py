"""Placement problems and answers as files, complete enough to be scored again (`benchmarks/rescore.py`)."""

from __future__ import annotations

import msgspec

from benchmarks.families import Instance
from benchmarks.suites import Options
from hyperscale.model.api.job import JobSpec
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.graph import IntArray
from hyperscale.model.workload import WorkloadProfile


class Case(msgspec.Struct, frozen=True):
    """One placement problem, complete."""

    case: str
    snapshot: ClusterSnapshot
    job: JobSpec
    workload: WorkloadProfile
    workers: int


def dump(options: Options, instance: Instance, method: str, order: IntArray) -> None:
    """One method's answer to an instance, and the instance itself once."""
    name = f"{instance.case} seed {instance.seed}"
    problem = instance.problem
    options.dump_case(name, lambda: Case(name, instance.graph.snapshot, problem.job, problem.workload, len(order)))
    options.dump_assignment(name, method, {"job": instance.names(order)})
