"""Mutations of a plan, of its question and of the cluster, as objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from benchmarks.verify_cases import PlanCase
from benchmarks.verify_draws import (
    Rng,
    arriving,
    free_on,
    move_to,
    node_named,
    pick,
    used_node,
    with_job,
    with_node,
    with_request,
    with_worker,
    with_workers,
)
from hyperscale.model.api.job import JobSpec
from hyperscale.model.cluster import UNKNOWN_SAMPLE, AbsentLink, Link, Quality, Sample, Taint

DEAD: Final = Sample(value=0.0, age_seconds=5.0, quality=Quality.MEASURED)


def _move_to_full(case: PlanCase, rng: Rng) -> PlanCase | None:
    load: dict[str, int] = {}
    for worker in arriving(case):
        load[worker.node] = load.get(worker.node, 0) + worker.gpus
    each = case.request.job.workers.gpus_per_worker
    return move_to(case, rng, [node.name for node in case.snapshot.nodes if free_on(case, node) - load.get(node.name, 0) < each])


def _move_anywhere(case: PlanCase, rng: Rng) -> PlanCase | None:
    return move_to(case, rng, [node.name for node in case.snapshot.nodes])


def _move_to_unknown(case: PlanCase, rng: Rng) -> PlanCase | None:
    return with_worker(case, int(rng.integers(len(case.plan.workers))), node="node-that-left")


def _set_free(case: PlanCase, name: str, free: int) -> PlanCase:
    return with_request(case, free_gpus={**case.request.free_gpus, name: free})


def _one_gpu_less(case: PlanCase, rng: Rng) -> PlanCase | None:
    name = used_node(case, rng)
    load = sum(worker.gpus for worker in arriving(case) if worker.node == name)
    return _set_free(case, name, load - 1)


def _fewer_gpus(case: PlanCase, rng: Rng) -> PlanCase | None:
    name = used_node(case, rng)
    return _set_free(case, name, int(rng.integers(0, free_on(case, node_named(case, name)) + 1)))


def _gpu_memory_short(case: PlanCase, rng: Rng) -> PlanCase | None:
    name = used_node(case, rng)
    smallest = min(node_named(case, worker.node).gpu_memory_bytes or 0 for worker in case.plan.workers)
    asked = with_job(case, workers=replace(case.request.job.workers, gpu_memory=smallest))
    return with_node(asked, name, gpu_memory_bytes=smallest - 1)


def _gpu_memory_unknown(case: PlanCase, rng: Rng) -> PlanCase | None:
    asked = with_job(case, workers=replace(case.request.job.workers, gpu_memory=2**30))
    return with_node(asked, used_node(case, rng), gpu_memory_bytes=None)


def _resource_short(case: PlanCase, rng: Rng) -> PlanCase | None:
    name = used_node(case, rng)
    count = sum(1 for worker in arriving(case) if worker.node == name)
    asked = with_request(case, resources={"cpu": 1.5, "memory": 2.0**33, "vendor.example/fpga": 1.0})
    offered = {worker.node for worker in case.plan.workers}
    for node in sorted(offered):
        here = len(case.plan.workers)
        asked = with_node(asked, node, allocatable={"pods": 110.0, "vendor.example/fpga": float(here)})
        asked = with_node(asked, node, allocatable_cpu_cores=64.0, requested_cpu_cores=0.0, requested_memory_bytes=0)
    short: tuple[dict[str, Any], ...] = (
        {"allocatable_cpu_cores": 1.5 * count - 0.001},
        {"allocatable_memory_bytes": 2**33 * count - 1},
        {"allocatable": {"pods": 110.0, "vendor.example/fpga": float(count - 1)}},
        {"allocatable": {"pods": float(count - 1), "vendor.example/fpga": 99.0}},
    )
    return with_node(asked, name, **pick(rng, short))


def _rank_twice(case: PlanCase, rng: Rng) -> PlanCase | None:
    if len(case.plan.workers) < 2:
        return None
    first, second = rng.choice(len(case.plan.workers), size=2, replace=False)
    return with_worker(case, int(first), first_rank=case.plan.workers[int(second)].first_rank)


def _rank_missing(case: PlanCase, rng: Rng) -> PlanCase | None:
    at = int(rng.integers(len(case.plan.workers)))
    moved = [replace(worker, first_rank=worker.first_rank + (worker.index >= at)) for worker in case.plan.workers]
    return with_workers(case, moved)


def _worker_twice(case: PlanCase, rng: Rng) -> PlanCase | None:
    return with_workers(case, (*case.plan.workers, pick(rng, case.plan.workers)))


def _worker_lost(case: PlanCase, rng: Rng) -> PlanCase | None:
    at = int(rng.integers(len(case.plan.workers)))
    return with_workers(case, (*case.plan.workers[:at], *case.plan.workers[at + 1 :]))


def _workers_swapped(case: PlanCase, rng: Rng) -> PlanCase | None:
    if len(case.plan.workers) < 2:
        return None
    one, other = map(int, rng.choice(len(case.plan.workers), size=2, replace=False))
    workers = list(case.plan.workers)
    workers[one], workers[other] = workers[other], workers[one]
    return with_workers(case, workers)


def _node_state(case: PlanCase, rng: Rng) -> PlanCase | None:
    return with_node(case, used_node(case, rng), **pick(rng, ({"ready": False}, {"schedulable": False})))


def _tainted(case: PlanCase, rng: Rng) -> PlanCase | None:
    taints = (
        Taint("dedicated", "other"),
        Taint("dedicated", "other", "NoExecute"),
        Taint("dedicated", "other", "PreferNoSchedule"),
        Taint("nvidia.com/gpu", "present"),
    )
    return with_node(case, used_node(case, rng), taints=(pick(rng, taints),))


def _label_missing(case: PlanCase, rng: Rng) -> PlanCase | None:
    name, labelled = used_node(case, rng), case
    for node in case.snapshot.nodes:
        labels = {**node.labels, "pool": "blue" if node.name != name else str(pick(rng, ("green", "", "Blue")))}
        labelled = with_node(labelled, node.name, labels=labels)
    return with_request(labelled, required_labels={"pool": "blue"})


def _excluded(case: PlanCase, rng: Rng) -> PlanCase | None:
    name = used_node(case, rng)
    if rng.random() < 0.5:
        return with_request(case, excluded_nodes=(name,))
    return with_request(case, refused_nodes={name: "Insufficient nvidia.com/gpu"})


def _wrong_product(case: PlanCase, rng: Rng) -> PlanCase | None:
    products = sorted({node.gpu_product or "" for node in case.snapshot.nodes})
    return with_job(case, workers=replace(case.request.job.workers, gpu_products=(pick(rng, products),)))


def _pinned_moved(case: PlanCase, rng: Rng) -> PlanCase | None:
    worker, node = pick(rng, case.plan.workers), pick(rng, case.snapshot.nodes)
    return with_request(case, pinned={**case.request.pinned, worker.index: node.name})


def _not_apart(case: PlanCase, rng: Rng) -> PlanCase | None:
    if len(case.plan.workers) < 2:
        return None
    one, other = map(int, rng.choice(len(case.plan.workers), size=2, replace=False))
    return with_request(with_worker(case, one, node=case.plan.workers[other].node), apart=True)


def _two_domains(case: PlanCase, rng: Rng) -> PlanCase | None:
    topology = msgspec.convert(
        {"required": case.snapshot.levels[-1] if case.snapshot.levels else "rack"}, type(_topology(case.request.job))
    )
    placed = with_job(case, placement=replace(case.request.job.placement, topology=topology))
    return move_to(placed, rng, [node.name for node in case.snapshot.nodes])


def _topology(job: JobSpec) -> Any:  # noqa: ANN401 - its type is not public
    return job.placement.topology


def _hop(case: PlanCase, rng: Rng) -> tuple[str, str] | None:
    stops = [worker.node for worker in case.plan.workers]
    hops = sorted({(a, b) for a, b in zip(stops, stops[1:] + stops[:1], strict=True) if a != b})
    return None if not hops else pick(rng, hops)


def _dead_link(case: PlanCase, rng: Rng) -> PlanCase | None:
    hop = _hop(case, rng)
    if hop is None:
        return None
    others = [link for link in case.snapshot.links if (link.source, link.destination) != hop]
    links = tuple(sorted([*others, Link(*hop, UNKNOWN_SAMPLE, DEAD)], key=lambda link: (link.source, link.destination)))
    return replace(case, snapshot=replace(case.snapshot, links=links))


def _absent_link(case: PlanCase, rng: Rng) -> PlanCase | None:
    hop = _hop(case, rng)
    links = tuple(link for link in case.snapshot.links if (link.source, link.destination) != hop)
    return None if hop is None else replace(case, snapshot=replace(case.snapshot, links=links, absent_links=AbsentLink.UNREACHABLE))


def _quota_short(case: PlanCase, rng: Rng) -> PlanCase | None:
    total = sum(worker.gpus for worker in arriving(case))
    return replace(case, quota_gpus=total - 1) if total else None


def _too_many_workers(case: PlanCase, rng: Rng) -> PlanCase | None:
    count = len(case.plan.workers)
    if rng.random() < 0.5 or count < 2:
        return with_request(case, workers_fixed=count + 1)
    return with_request(case, workers_fixed=count - 1)


def _partition_count(case: PlanCase, rng: Rng) -> PlanCase | None:
    return replace(case, plan=replace(case.plan, partitions=max(0, case.plan.partitions + int(rng.choice([-1, 1, 2])))))


def _gpus_changed(case: PlanCase, rng: Rng) -> PlanCase | None:
    at = int(rng.integers(len(case.plan.workers)))
    return with_worker(case, at, gpus=case.plan.workers[at].gpus + int(rng.choice([-1, 1])))


def _share_sum(case: PlanCase, rng: Rng) -> PlanCase | None:
    at = int(rng.integers(len(case.plan.workers)))
    return with_worker(case, at, share=case.plan.workers[at].share * float(rng.choice([0.5, 0.99, 1.01, 1.0001])))


def _share_wrong(case: PlanCase, rng: Rng) -> PlanCase | None:
    return with_worker(case, int(rng.integers(len(case.plan.workers))), share=float(rng.choice([0.0, -0.1, float("nan"), float("inf")])))


def _tally_wrong(case: PlanCase, rng: Rng) -> PlanCase | None:
    name = str(pick(rng, sorted(case.plan.ranks_by_node)))
    ranks = {**case.plan.ranks_by_node, name: case.plan.ranks_by_node[name] + int(rng.choice([-1, 1]))}
    return replace(case, plan=replace(case.plan, ranks_by_node=ranks))


CASE_KINDS: Final[dict[str, Callable[[PlanCase, Rng], PlanCase | None]]] = {
    "worker moved to a full node": _move_to_full,
    "worker moved to any node": _move_anywhere,
    "worker on a node that left": _move_to_unknown,
    "one GPU less than needed": _one_gpu_less,
    "fewer free GPUs": _fewer_gpus,
    "GPU memory one byte short": _gpu_memory_short,
    "GPU memory unknown but asked": _gpu_memory_unknown,
    "CPU, memory, device or pods short": _resource_short,
    "rank twice": _rank_twice,
    "rank missing": _rank_missing,
    "worker twice": _worker_twice,
    "worker lost": _worker_lost,
    "worker order swapped": _workers_swapped,
    "node not ready or cordoned": _node_state,
    "node tainted": _tainted,
    "label missing": _label_missing,
    "node excluded or refused": _excluded,
    "GPU product not allowed": _wrong_product,
    "pinned worker elsewhere": _pinned_moved,
    "two workers together that keep apart": _not_apart,
    "outside the required domain": _two_domains,
    "dead link under the ring": _dead_link,
    "link absent under the ring": _absent_link,
    "quota exceeded": _quota_short,
    "worker count not allowed": _too_many_workers,
    "partition count changed": _partition_count,
    "GPUs of a worker changed": _gpus_changed,
    "share sum wrong": _share_sum,
    "share not a share": _share_wrong,
    "ranks by node wrong": _tally_wrong,
}
