"""Draws and changes that mutations share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from benchmarks.verify_cases import PlanCase
from hyperscale.model.cluster import Node
from hyperscale.model.plan import WorkerPlacement

Rng = np.random.Generator


def pick(rng: Rng, entries: Sequence[Any]) -> Any:  # noqa: ANN401 - an entry
    """Return one of the entries."""
    return entries[int(rng.integers(len(entries)))]


def put(entries: Sequence[Any], at: int, entry: Any) -> tuple[Any, ...]:  # noqa: ANN401 - an entry
    """Return the entries with another one at that position."""
    return (*entries[:at], entry, *entries[at + 1 :])


def with_workers(case: PlanCase, workers: Sequence[WorkerPlacement]) -> PlanCase:
    """Return the case with other workers; ranks by node follow."""
    ranks: dict[str, int] = {}
    for worker in workers:
        ranks[worker.node] = ranks.get(worker.node, 0) + len(worker.ranks)
    return replace(case, plan=replace(case.plan, workers=tuple(workers), ranks_by_node=ranks))


def with_worker(case: PlanCase, at: int, **fields: object) -> PlanCase:
    """Return the case with fields of one worker changed."""
    return with_workers(case, put(case.plan.workers, at, replace(case.plan.workers[at], **fields)))


def with_node(case: PlanCase, name: str, **fields: object) -> PlanCase:
    """Return the case with fields of one node changed."""
    nodes = tuple(replace(node, **fields) if node.name == name else node for node in case.snapshot.nodes)
    return replace(case, snapshot=replace(case.snapshot, nodes=nodes))


def with_request(case: PlanCase, **fields: object) -> PlanCase:
    """Return the case with fields of its question changed."""
    return replace(case, request=replace(case.request, **fields))


def with_job(case: PlanCase, **fields: object) -> PlanCase:
    """Return the case with fields of its job changed."""
    return with_request(case, job=replace(case.request.job, **fields))


def arriving(case: PlanCase) -> list[WorkerPlacement]:
    """Return the workers that do not run yet."""
    return [worker for worker in case.plan.workers if case.request.pinned.get(worker.index) != worker.node]


def free_on(case: PlanCase, node: Node) -> int:
    """Return the free GPUs of a node."""
    return min(case.request.free_gpus.get(node.name, node.allocatable_gpus - node.requested_gpus), node.allocatable_gpus)


def used_node(case: PlanCase, rng: Rng) -> str:
    """Return a node that an arriving worker is planned for."""
    return str(pick(rng, sorted({worker.node for worker in arriving(case)})))


def node_named(case: PlanCase, name: str) -> Node:
    """Return the node of that name."""
    return next(node for node in case.snapshot.nodes if node.name == name)


def move_to(case: PlanCase, rng: Rng, names: Sequence[str]) -> PlanCase | None:
    """Return the case with one arriving worker on one of the nodes; None where there is nothing to move."""
    workers = arriving(case)
    if not names or not workers:
        return None
    worker, name = pick(rng, workers), pick(rng, names)
    return None if worker.node == name else with_worker(case, worker.index, node=name, product=node_named(case, name).gpu_product)
