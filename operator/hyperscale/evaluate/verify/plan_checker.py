"""The Python checker: which constraints a plan breaks, each in one sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from hyperscale.evaluate.verify.normal_form import NO_DOMAIN, SHARE_SLACK, WHOLE_SHARE, Constraint, PlacedWorker, PlanFacts, PlanLimits
from hyperscale.evaluate.verify.plan_constraints import facts_of, limits_of, planned_part
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.plan import Plan
from hyperscale.model.planning import PlanRequest


class BrokenConstraint(NamedTuple):
    """One constraint that a plan breaks."""

    constraint: Constraint
    sentence: str


def check_plan(plan: Plan, request: PlanRequest, snapshot: ClusterSnapshot, quota_gpus: int | None = None) -> tuple[str, ...]:
    """Return one sentence for each broken constraint, with the constraint's name first; empty for a consistent plan."""
    part = planned_part(plan, request, snapshot)
    faults = broken_constraints(limits_of(request, part, quota_gpus), facts_of(plan, request, part))
    return tuple(f"{fault.constraint}: {fault.sentence}" for fault in faults)


def broken_constraints(limits: PlanLimits, facts: PlanFacts) -> tuple[BrokenConstraint, ...]:
    """Return the broken constraints in the order of `Constraint`, each with its first fault."""
    faults = ((constraint, next(rule(limits, facts), None)) for constraint, rule in RULES.items())
    return tuple(BrokenConstraint(constraint, sentence) for constraint, sentence in faults if sentence is not None)


def is_permutation(entries: Sequence[int], size: int) -> bool:
    """Whether the entries are 0 to size - 1, each once, in any order."""
    return len(entries) == size and set(entries) == set(range(size))


def node_name(limits: PlanLimits, node: int) -> str:
    """Name of a node, or words for a node that the cluster lacks."""
    return limits.nodes[node].name if 0 <= node < len(limits.nodes) else "a node that is not in the cluster"


def arriving(limits: PlanLimits, facts: PlanFacts) -> list[PlacedWorker]:
    """Workers that do not already run on their node."""
    pins = set(limits.pins)
    return [worker for worker in facts.workers if (worker.index, worker.node) not in pins]


def _arriving_on_nodes(limits: PlanLimits, facts: PlanFacts) -> list[PlacedWorker]:
    return [worker for worker in arriving(limits, facts) if 0 <= worker.node < len(limits.nodes)]


def _workers(limits: PlanLimits, facts: PlanFacts) -> Iterator[str]:
    indices = [worker.index for worker in facts.workers]
    if indices != list(range(len(indices))):
        yield f"workers are {indices[:8]}; they must be 0 to {len(indices) - 1}, each once and in order"


def _count(limits: PlanLimits, facts: PlanFacts) -> Iterator[str]:
    count = len(facts.workers)
    if count == 0 or not limits.workers_min <= count <= limits.workers_max:
        yield f"{count} workers are planned, the job allows {limits.workers_min} to {limits.workers_max}"


def _ranks(limits: PlanLimits, facts: PlanFacts) -> Iterator[str]:
    ranks = [rank for worker in facts.workers for rank in worker.ranks]
    total = sum(worker.gpus for worker in facts.workers)
    if ranks == list(range(total)):
        return
    times = Counter(ranks)
    missing = [rank for rank in range(total) if not times[rank]]
    twice = [rank for rank, count in sorted(times.items()) if count > 1]
    words = [f"rank {missing[0]} has no place"] if missing else []
    words += [f"rank {twice[0]} has {times[twice[0]]} places"] if twice else []
    yield "; ".join(words) or f"ranks must be 0 to {total - 1} in the order of the workers"


def _gpus(limits: PlanLimits, facts: PlanFacts) -> Iterator[str]:
    for worker in facts.workers:
        if worker.gpus != limits.gpus_each or len(worker.ranks) != limits.gpus_each:
            yield f"worker {worker.index} has {worker.gpus} GPUs and {len(worker.ranks)} ranks, the job gives each {limits.gpus_each}"


def _place(limits: PlanLimits, facts: PlanFacts) -> Iterator[str]:
    for worker in facts.workers:
        if not 0 <= worker.node < len(limits.nodes):
            yield f"worker {worker.index} is planned for a node that is not in the cluster"


def _pins(limits: PlanLimits, facts: PlanFacts) -> Iterator[str]:
    places = {(worker.index, worker.node) for worker in facts.workers}
    for index, node in limits.pins:
        if (index, node) not in places:
            yield f"worker {index} runs on {node_name(limits, node)} and must stay there"


def _open(limits: PlanLimits, facts: PlanFacts) -> Iterator[str]:
    for worker in _arriving_on_nodes(limits, facts):
        node = limits.nodes[worker.node]
        if not node.takes_workers:
            yield f"worker {worker.index}: {node.name} {node.closed_by[0][1] if node.closed_by else 'takes no workers'}"


def _capacity(limits: PlanLimits, facts: PlanFacts) -> Iterator[str]:
    needed: Counter[int] = Counter()
    for worker in _arriving_on_nodes(limits, facts):
        needed[worker.node] += worker.gpus
    for node, gpus in sorted(needed.items()):
        if gpus > limits.nodes[node].gpus:
            yield f"{limits.nodes[node].name} has {limits.nodes[node].gpus} free GPUs, the plan takes {gpus} there"


def _memory(limits: PlanLimits, facts: PlanFacts) -> Iterator[str]:
    for worker in _arriving_on_nodes(limits, facts):
        needed, node = max(limits.memory_each_bytes, worker.rank_bytes), limits.nodes[worker.node]
        if needed > node.gpu_memory_bytes:
            has = f"has {node.gpu_memory_bytes}" if node.gpu_memory_bytes else "states none"
            yield f"a rank of worker {worker.index} needs {needed} bytes of GPU memory, {node.name} {has}"


def _amounts(limits: PlanLimits, facts: PlanFacts) -> Iterator[str]:
    for node, count in sorted(Counter(worker.node for worker in _arriving_on_nodes(limits, facts)).items()):
        offers = limits.nodes[node]
        for (name, scale), each, free in zip(limits.resources, limits.amounts_each, offers.amounts, strict=True):
            if count * each > free:
                yield f"{offers.name} has {free / scale:g} of {name} free, the plan takes {count * each / scale:g} there"


def _apart(limits: PlanLimits, facts: PlanFacts) -> Iterator[str]:
    for node, count in sorted(Counter(worker.node for worker in facts.workers).items()):
        if limits.apart and count > 1:
            yield f"{count} workers are planned for {node_name(limits, node)}, the pods keep apart"


def _one_domain(limits: PlanLimits, facts: PlanFacts) -> Iterator[str]:
    domains = {limits.nodes[worker.node].domain for worker in facts.workers if 0 <= worker.node < len(limits.nodes)}
    if limits.one_domain and (NO_DOMAIN in domains or len(domains) > 1):
        yield f"the topology requires one domain of {limits.topology_key}, the plan spans {len(domains)} or a node has no such label"


def _dead_links(limits: PlanLimits, facts: PlanFacts) -> Iterator[str]:
    planned, new = {worker.node for worker in facts.workers}, {worker.node for worker in arriving(limits, facts)}
    for source, destination in limits.dead:
        if {source, destination} <= planned and {source, destination} & new:
            yield f"the link from {node_name(limits, source)} to {node_name(limits, destination)} is dead, both nodes are planned"


def _ring(limits: PlanLimits, facts: PlanFacts) -> Iterator[str]:
    if not is_permutation(facts.ring, len(facts.workers)):
        yield f"the ring has entries {list(facts.ring[:8])}; it must have each of {len(facts.workers)} workers once"


def _hops(limits: PlanLimits, facts: PlanFacts) -> Iterator[str]:
    places: dict[int, int] = {}
    for worker in facts.workers:
        places.setdefault(worker.index, worker.node)
    stops = [places[index] for index in facts.ring if index in places]
    broken = set(limits.unreachable)
    for source, destination in zip(stops, stops[1:] + stops[:1], strict=True):
        if (source, destination) in broken:
            yield f"{node_name(limits, source)} cannot reach {node_name(limits, destination)}, the next node of the ring"


def _partitions(limits: PlanLimits, facts: PlanFacts) -> Iterator[str]:
    wanted = limits.partitions_asked or sum(worker.gpus for worker in facts.workers)
    if facts.partitions != wanted:
        yield f"{facts.partitions} partitions are planned, {wanted} are needed"


def _cover(limits: PlanLimits, facts: PlanFacts) -> Iterator[str]:
    parts = [part for ranks in facts.parts_by_rank for part in ranks]
    if not is_permutation(parts, facts.partitions):
        lost = sorted(set(range(facts.partitions)) - set(parts))
        yield f"partition {lost[0]} is on no rank" if lost else "a partition is on more than one rank, or beyond the count"


def _even(limits: PlanLimits, facts: PlanFacts) -> Iterator[str]:
    ranks = sum(worker.gpus for worker in facts.workers)
    if len(facts.parts_by_rank) != ranks or any(len(parts) * ranks != facts.partitions for parts in facts.parts_by_rank):
        yield f"{facts.partitions} partitions are not dealt out evenly to {ranks} ranks"


def _schedule(limits: PlanLimits, facts: PlanFacts) -> Iterator[str]:
    if not is_permutation(facts.schedule, limits.tensors):
        yield f"the allreduce schedule must have each of {limits.tensors} gradient tensors once"


def _quota(limits: PlanLimits, facts: PlanFacts) -> Iterator[str]:
    taken = sum(worker.gpus for worker in arriving(limits, facts))
    if limits.quota_gpus is not None and taken > limits.quota_gpus:
        yield f"the plan takes {taken} GPUs, the namespace may take {limits.quota_gpus}"


def _shares(limits: PlanLimits, facts: PlanFacts) -> Iterator[str]:
    total = sum(worker.share for worker in facts.workers)
    for worker in facts.workers:
        if not 0 < worker.share <= WHOLE_SHARE + SHARE_SLACK:
            yield f"worker {worker.index} has share {worker.share / WHOLE_SHARE:g}, which is not above 0 and at most 1"
    if abs(total - WHOLE_SHARE) > SHARE_SLACK:
        yield f"shares sum to {total / WHOLE_SHARE:.9f}, not 1"


def _tally(limits: PlanLimits, facts: PlanFacts) -> Iterator[str]:
    ranks: Counter[int] = Counter()
    for worker in facts.workers:
        ranks[worker.node] += len(worker.ranks)
    if tuple(sorted(ranks.items())) != facts.ranks_by_node:
        yield "ranks by node are not those of the workers"


RULES: Final[dict[Constraint, Callable[[PlanLimits, PlanFacts], Iterator[str]]]] = {
    Constraint.WORKERS: _workers,
    Constraint.COUNT: _count,
    Constraint.RANKS: _ranks,
    Constraint.GPUS: _gpus,
    Constraint.PLACE: _place,
    Constraint.PINS: _pins,
    Constraint.OPEN: _open,
    Constraint.CAPACITY: _capacity,
    Constraint.MEMORY: _memory,
    Constraint.AMOUNTS: _amounts,
    Constraint.APART: _apart,
    Constraint.DOMAIN: _one_domain,
    Constraint.DEAD_LINKS: _dead_links,
    Constraint.RING: _ring,
    Constraint.HOPS: _hops,
    Constraint.PARTITIONS: _partitions,
    Constraint.COVER: _cover,
    Constraint.EVEN: _even,
    Constraint.SCHEDULE: _schedule,
    Constraint.QUOTA: _quota,
    Constraint.SHARES: _shares,
    Constraint.TALLY: _tally,
}
