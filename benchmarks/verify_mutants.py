"""Mutations of sound plans: faults in the plan, in its question, in the cluster, and in what the plan's ranks hold.

A mutation may change nothing that matters; `verify_oracle` sorts such equivalent mutants out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
import numpy as np
from msgspec.structs import replace

from benchmarks.verify_cases import PlanCase
from hyperscale.evaluate.verify.normal_form import PlanFacts, PlanLimits
from hyperscale.model.api.job import JobSpec
from hyperscale.model.cluster import UNKNOWN_SAMPLE, AbsentLink, Link, Node, Quality, Sample, Taint
from hyperscale.model.plan import WorkerPlacement

Rng = np.random.Generator
DEAD: Final = Sample(value=0.0, age_seconds=5.0, quality=Quality.MEASURED)


class Mutant(msgspec.Struct, frozen=True):
    """A changed plan: as objects, and in normal form."""

    kind: str
    case: PlanCase
    limits: PlanLimits
    facts: PlanFacts


def mutant(kind: str, case: PlanCase, rng: Rng) -> Mutant | None:
    """Return a mutant of that kind; None where the plan has nothing to change in this way. Raises KeyError for another kind."""
    if kind in FACT_KINDS:
        limits, facts = case.normal()
        changed_facts = FACT_KINDS[kind](facts, limits, rng)
        return None if changed_facts is None else Mutant(kind, case, limits, changed_facts)
    if not _arriving(case):
        return None  # nothing is placed: all workers run already
    changed = CASE_KINDS[kind](case, rng)
    return None if changed is None else Mutant(kind, changed, *changed.normal())


def _pick(rng: Rng, entries: Sequence[Any]) -> Any:  # noqa: ANN401 - an entry
    return entries[int(rng.integers(len(entries)))]


def _put(entries: Sequence[Any], at: int, entry: Any) -> tuple[Any, ...]:  # noqa: ANN401 - an entry
    return (*entries[:at], entry, *entries[at + 1 :])


def _with_workers(case: PlanCase, workers: Sequence[WorkerPlacement]) -> PlanCase:
    """The plan with other workers; ranks by node follow."""
    ranks: dict[str, int] = {}
    for worker in workers:
        ranks[worker.node] = ranks.get(worker.node, 0) + len(worker.ranks)
    return replace(case, plan=replace(case.plan, workers=tuple(workers), ranks_by_node=ranks))


def _with_worker(case: PlanCase, at: int, **fields: object) -> PlanCase:
    return _with_workers(case, _put(case.plan.workers, at, replace(case.plan.workers[at], **fields)))


def _with_node(case: PlanCase, name: str, **fields: object) -> PlanCase:
    nodes = tuple(replace(node, **fields) if node.name == name else node for node in case.snapshot.nodes)
    return replace(case, snapshot=replace(case.snapshot, nodes=nodes))


def _with_request(case: PlanCase, **fields: object) -> PlanCase:
    return replace(case, request=replace(case.request, **fields))


def _with_job(case: PlanCase, **fields: object) -> PlanCase:
    return _with_request(case, job=replace(case.request.job, **fields))


def _arriving(case: PlanCase) -> list[WorkerPlacement]:
    return [worker for worker in case.plan.workers if case.request.pinned.get(worker.index) != worker.node]


def _free(case: PlanCase, node: Node) -> int:
    return min(case.request.free_gpus.get(node.name, node.allocatable_gpus - node.requested_gpus), node.allocatable_gpus)


def _used(case: PlanCase, rng: Rng) -> str:
    """A node that an arriving worker is planned for."""
    return str(_pick(rng, sorted({worker.node for worker in _arriving(case)})))


def _node(case: PlanCase, name: str) -> Node:
    return next(node for node in case.snapshot.nodes if node.name == name)


def _move_to(case: PlanCase, rng: Rng, names: Sequence[str]) -> PlanCase | None:
    arriving = _arriving(case)
    if not names or not arriving:
        return None
    worker, name = _pick(rng, arriving), _pick(rng, names)
    return None if worker.node == name else _with_worker(case, worker.index, node=name, product=_node(case, name).gpu_product)


def _move_to_full(case: PlanCase, rng: Rng) -> PlanCase | None:
    load: dict[str, int] = {}
    for worker in _arriving(case):
        load[worker.node] = load.get(worker.node, 0) + worker.gpus
    each = case.request.job.workers.gpus_per_worker
    return _move_to(case, rng, [node.name for node in case.snapshot.nodes if _free(case, node) - load.get(node.name, 0) < each])


def _move_anywhere(case: PlanCase, rng: Rng) -> PlanCase | None:
    return _move_to(case, rng, [node.name for node in case.snapshot.nodes])


def _move_to_unknown(case: PlanCase, rng: Rng) -> PlanCase | None:
    return _with_worker(case, int(rng.integers(len(case.plan.workers))), node="node-that-left")


def _set_free(case: PlanCase, name: str, free: int) -> PlanCase:
    return _with_request(case, free_gpus={**case.request.free_gpus, name: free})


def _one_gpu_less(case: PlanCase, rng: Rng) -> PlanCase | None:
    name = _used(case, rng)
    load = sum(worker.gpus for worker in _arriving(case) if worker.node == name)
    return _set_free(case, name, load - 1)


def _fewer_gpus(case: PlanCase, rng: Rng) -> PlanCase | None:
    name = _used(case, rng)
    return _set_free(case, name, int(rng.integers(0, _free(case, _node(case, name)) + 1)))


def _gpu_memory_short(case: PlanCase, rng: Rng) -> PlanCase | None:
    name = _used(case, rng)
    smallest = min(_node(case, worker.node).gpu_memory_bytes or 0 for worker in case.plan.workers)
    asked = _with_job(case, workers=replace(case.request.job.workers, gpu_memory=smallest))
    return _with_node(asked, name, gpu_memory_bytes=smallest - 1)


def _gpu_memory_unknown(case: PlanCase, rng: Rng) -> PlanCase | None:
    asked = _with_job(case, workers=replace(case.request.job.workers, gpu_memory=2**30))
    return _with_node(asked, _used(case, rng), gpu_memory_bytes=None)


def _resource_short(case: PlanCase, rng: Rng) -> PlanCase | None:
    name = _used(case, rng)
    count = sum(1 for worker in _arriving(case) if worker.node == name)
    asked = _with_request(case, resources={"cpu": 1.5, "memory": 2.0**33, "vendor.example/fpga": 1.0})
    offered = {worker.node for worker in case.plan.workers}
    for node in sorted(offered):
        here = len(case.plan.workers)
        asked = _with_node(asked, node, allocatable={"pods": 110.0, "vendor.example/fpga": float(here)})
        asked = _with_node(asked, node, allocatable_cpu_cores=64.0, requested_cpu_cores=0.0, requested_memory_bytes=0)
    short: tuple[dict[str, Any], ...] = (
        {"allocatable_cpu_cores": 1.5 * count - 0.001},
        {"allocatable_memory_bytes": 2**33 * count - 1},
        {"allocatable": {"pods": 110.0, "vendor.example/fpga": float(count - 1)}},
        {"allocatable": {"pods": float(count - 1), "vendor.example/fpga": 99.0}},
    )
    return _with_node(asked, name, **_pick(rng, short))


def _rank_twice(case: PlanCase, rng: Rng) -> PlanCase | None:
    if len(case.plan.workers) < 2:
        return None
    first, second = rng.choice(len(case.plan.workers), size=2, replace=False)
    return _with_worker(case, int(first), first_rank=case.plan.workers[int(second)].first_rank)


def _rank_missing(case: PlanCase, rng: Rng) -> PlanCase | None:
    at = int(rng.integers(len(case.plan.workers)))
    moved = [replace(worker, first_rank=worker.first_rank + (worker.index >= at)) for worker in case.plan.workers]
    return _with_workers(case, moved)


def _worker_twice(case: PlanCase, rng: Rng) -> PlanCase | None:
    return _with_workers(case, (*case.plan.workers, _pick(rng, case.plan.workers)))


def _worker_lost(case: PlanCase, rng: Rng) -> PlanCase | None:
    at = int(rng.integers(len(case.plan.workers)))
    return _with_workers(case, (*case.plan.workers[:at], *case.plan.workers[at + 1 :]))


def _workers_swapped(case: PlanCase, rng: Rng) -> PlanCase | None:
    if len(case.plan.workers) < 2:
        return None
    one, other = map(int, rng.choice(len(case.plan.workers), size=2, replace=False))
    workers = list(case.plan.workers)
    workers[one], workers[other] = workers[other], workers[one]
    return _with_workers(case, workers)


def _node_state(case: PlanCase, rng: Rng) -> PlanCase | None:
    return _with_node(case, _used(case, rng), **_pick(rng, ({"ready": False}, {"schedulable": False})))


def _tainted(case: PlanCase, rng: Rng) -> PlanCase | None:
    taints = (
        Taint("dedicated", "other"),
        Taint("dedicated", "other", "NoExecute"),
        Taint("dedicated", "other", "PreferNoSchedule"),
        Taint("nvidia.com/gpu", "present"),
    )
    return _with_node(case, _used(case, rng), taints=(_pick(rng, taints),))


def _label_missing(case: PlanCase, rng: Rng) -> PlanCase | None:
    name, labelled = _used(case, rng), case
    for node in case.snapshot.nodes:
        labels = {**node.labels, "pool": "blue" if node.name != name else str(_pick(rng, ("green", "", "Blue")))}
        labelled = _with_node(labelled, node.name, labels=labels)
    return _with_request(labelled, required_labels={"pool": "blue"})


def _excluded(case: PlanCase, rng: Rng) -> PlanCase | None:
    name = _used(case, rng)
    if rng.random() < 0.5:
        return _with_request(case, excluded_nodes=(name,))
    return _with_request(case, refused_nodes={name: "Insufficient nvidia.com/gpu"})


def _wrong_product(case: PlanCase, rng: Rng) -> PlanCase | None:
    products = sorted({node.gpu_product or "" for node in case.snapshot.nodes})
    return _with_job(case, workers=replace(case.request.job.workers, gpu_products=(_pick(rng, products),)))


def _pinned_moved(case: PlanCase, rng: Rng) -> PlanCase | None:
    worker, node = _pick(rng, case.plan.workers), _pick(rng, case.snapshot.nodes)
    return _with_request(case, pinned={**case.request.pinned, worker.index: node.name})


def _not_apart(case: PlanCase, rng: Rng) -> PlanCase | None:
    if len(case.plan.workers) < 2:
        return None
    one, other = map(int, rng.choice(len(case.plan.workers), size=2, replace=False))
    return _with_request(_with_worker(case, one, node=case.plan.workers[other].node), apart=True)


def _two_domains(case: PlanCase, rng: Rng) -> PlanCase | None:
    topology = msgspec.convert(
        {"required": case.snapshot.levels[-1] if case.snapshot.levels else "rack"}, type(_topology(case.request.job))
    )
    placed = _with_job(case, placement=replace(case.request.job.placement, topology=topology))
    return _move_to(placed, rng, [node.name for node in case.snapshot.nodes])


def _topology(job: JobSpec) -> Any:  # noqa: ANN401 - its type is not public
    return job.placement.topology


def _hop(case: PlanCase, rng: Rng) -> tuple[str, str] | None:
    stops = [worker.node for worker in case.plan.workers]
    hops = sorted({(a, b) for a, b in zip(stops, stops[1:] + stops[:1], strict=True) if a != b})
    return None if not hops else _pick(rng, hops)


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
    total = sum(worker.gpus for worker in _arriving(case))
    return replace(case, quota_gpus=total - 1) if total else None


def _too_many_workers(case: PlanCase, rng: Rng) -> PlanCase | None:
    count = len(case.plan.workers)
    if rng.random() < 0.5 or count < 2:
        return _with_request(case, workers_fixed=count + 1)
    return _with_request(case, workers_fixed=count - 1)


def _partition_count(case: PlanCase, rng: Rng) -> PlanCase | None:
    return replace(case, plan=replace(case.plan, partitions=max(0, case.plan.partitions + int(rng.choice([-1, 1, 2])))))


def _gpus_changed(case: PlanCase, rng: Rng) -> PlanCase | None:
    at = int(rng.integers(len(case.plan.workers)))
    return _with_worker(case, at, gpus=case.plan.workers[at].gpus + int(rng.choice([-1, 1])))


def _share_sum(case: PlanCase, rng: Rng) -> PlanCase | None:
    at = int(rng.integers(len(case.plan.workers)))
    return _with_worker(case, at, share=case.plan.workers[at].share * float(rng.choice([0.5, 0.99, 1.01, 1.0001])))


def _share_wrong(case: PlanCase, rng: Rng) -> PlanCase | None:
    return _with_worker(case, int(rng.integers(len(case.plan.workers))), share=float(rng.choice([0.0, -0.1, float("nan"), float("inf")])))


def _tally_wrong(case: PlanCase, rng: Rng) -> PlanCase | None:
    name = str(_pick(rng, sorted(case.plan.ranks_by_node)))
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

FactMutation = Callable[[PlanFacts, PlanLimits, Rng], PlanFacts | None]


def _parts(facts: PlanFacts, rng: Rng, change: Callable[[list[list[int]], int], object]) -> PlanFacts | None:
    held = [list(parts) for parts in facts.parts_by_rank]
    change(held, int(rng.integers(len(held))))
    return replace(facts, parts_by_rank=tuple(map(tuple, held)))


def _partition_lost(facts: PlanFacts, limits: PlanLimits, rng: Rng) -> PlanFacts | None:
    return _parts(facts, rng, lambda held, at: held[at].pop())


def _partition_twice(facts: PlanFacts, limits: PlanLimits, rng: Rng) -> PlanFacts | None:
    if len(facts.parts_by_rank) < 2:
        return None
    other = int(rng.integers(len(facts.parts_by_rank)))
    return _parts(facts, rng, lambda held, at: held[at].__setitem__(0, facts.parts_by_rank[other][0]))


def _partition_moved(facts: PlanFacts, limits: PlanLimits, rng: Rng) -> PlanFacts | None:
    other = int(rng.integers(len(facts.parts_by_rank)))
    return _parts(facts, rng, lambda held, at: held[other].append(held[at].pop()))


def _ring_repeated(facts: PlanFacts, limits: PlanLimits, rng: Rng) -> PlanFacts | None:
    return replace(facts, ring=_put(facts.ring, int(rng.integers(len(facts.ring))), _pick(rng, facts.ring)))


def _ring_lost(facts: PlanFacts, limits: PlanLimits, rng: Rng) -> PlanFacts | None:
    at = int(rng.integers(len(facts.ring)))
    return replace(facts, ring=facts.ring[:at] + facts.ring[at + 1 :])


def _schedule_repeated(facts: PlanFacts, limits: PlanLimits, rng: Rng) -> PlanFacts | None:
    return replace(facts, schedule=_put(facts.schedule, int(rng.integers(len(facts.schedule))), _pick(rng, facts.schedule)))


def _schedule_lost(facts: PlanFacts, limits: PlanLimits, rng: Rng) -> PlanFacts | None:
    return replace(facts, schedule=facts.schedule[1:] if rng.random() < 0.5 else (*facts.schedule, len(facts.schedule)))


def _rank_too_large(facts: PlanFacts, limits: PlanLimits, rng: Rng) -> PlanFacts | None:
    at = int(rng.integers(len(facts.workers)))
    worker = facts.workers[at]
    has = limits.nodes[worker.node].gpu_memory_bytes
    return replace(facts, workers=_put(facts.workers, at, replace(worker, rank_bytes=has + 1)))


FACT_KINDS: Final[dict[str, FactMutation]] = {
    "partition lost": _partition_lost,
    "partition twice": _partition_twice,
    "partitions uneven": _partition_moved,
    "ring entry repeated": _ring_repeated,
    "ring entry lost": _ring_lost,
    "schedule entry repeated": _schedule_repeated,
    "schedule entry lost": _schedule_lost,
    "rank needs a byte too much": _rank_too_large,
}
KINDS: Final = (*CASE_KINDS, *FACT_KINDS)
