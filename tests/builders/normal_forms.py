"""Plans in normal form, drawn without a planner: most break several constraints, some break none."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from hyperscale.evaluate.verify.normal_form import UNLIMITED, NodeLimits, PlacedWorker, PlanFacts, PlanLimits

Rng = np.random.Generator


def random_case(rng: Rng) -> tuple[PlanLimits, PlanFacts]:
    """A sound plan on a small cluster in which up to three entries are drawn again."""
    nodes, workers, gpus = int(rng.integers(1, 5)), int(rng.integers(1, 5)), int(rng.integers(1, 3))
    limits = PlanLimits(
        nodes=tuple(_node(rng, at) for at in range(nodes)),
        gpus_each=gpus,
        memory_each_bytes=int(rng.choice([0, 0, 2**34])),
        resources=(("cpu", 10**6), ("pods", 10**6)),
        amounts_each=(int(rng.integers(1, 4)) * 10**6, 10**6),
        workers_min=int(rng.choice([1, workers, workers, workers + 1])),
        workers_max=workers,
        apart=bool(rng.random() < 0.2),
        one_domain=bool(rng.random() < 0.2),
        topology_key="zone",
        pins=_some(rng, workers, nodes, 0.1),
        dead=_some(rng, nodes, nodes, 0.05),
        unreachable=_some(rng, nodes, nodes, 0.05),
        partitions_asked=int(rng.choice([0, workers * gpus, workers * gpus * 2])),
        tensors=int(rng.integers(1, 4)),
        quota_gpus=None if rng.random() < 0.5 else int(rng.integers(0, 9)),
    )
    return limits, _drawn_again(rng, _sound(rng, limits, workers))


def _node(rng: Rng, at: int) -> NodeLimits:
    amounts = (int(rng.choice([2, 4, 8])) * 10**6, int(rng.choice([10**8, UNLIMITED])))
    return NodeLimits(
        f"n{at}", bool(rng.random() < 0.9), int(rng.integers(0, 9)), int(rng.choice([0, 2**34, 2**36])), int(rng.integers(0, 3)), amounts
    )


def _some(rng: Rng, rows: int, columns: int, part: float) -> tuple[tuple[int, int], ...]:
    return tuple((row, column) for row in range(rows) for column in range(columns) if rng.random() < part)


def _sound(rng: Rng, limits: PlanLimits, count: int) -> PlanFacts:
    gpus = limits.gpus_each
    total, places = count * gpus, [int(rng.integers(len(limits.nodes))) for _ in range(count)]
    workers = tuple(
        PlacedWorker(at, node, tuple(range(at * gpus, (at + 1) * gpus)), gpus, 10**9 // count) for at, node in enumerate(places)
    )
    parts = limits.partitions_asked or total
    each = parts // total
    return PlanFacts(
        workers=workers,
        ring=tuple(map(int, rng.permutation(count))),
        partitions=parts,
        parts_by_rank=tuple(tuple(range(rank * each, (rank + 1) * each)) for rank in range(total)),
        schedule=tuple(map(int, rng.permutation(limits.tensors))),
        ranks_by_node=tuple(sorted({node: places.count(node) * gpus for node in places}.items())),
    )


def _drawn_again(rng: Rng, facts: PlanFacts) -> PlanFacts:
    for _ in range(int(rng.integers(0, 4))):
        at, entry = int(rng.integers(len(facts.workers))), int(rng.integers(0, 5))
        worker = facts.workers[at]
        changed = (
            replace(worker, index=entry),
            replace(worker, node=entry),
            replace(worker, ranks=(*worker.ranks[1:], entry)),
            replace(worker, ranks=worker.ranks[1:]),
            replace(worker, gpus=entry),
            replace(worker, share=int(rng.choice([0, worker.share + 1, worker.share * 2]))),
            replace(worker, rank_bytes=int(rng.choice([0, 2**35]))),
        )
        put = (*facts.workers[:at], changed[int(rng.integers(len(changed)))], *facts.workers[at + 1 :])
        choices = (
            replace(facts, workers=put),
            replace(facts, ring=(*facts.ring[1:], entry)),
            replace(facts, ring=facts.ring[1:]),
            replace(facts, partitions=entry),
            replace(facts, parts_by_rank=(*facts.parts_by_rank[1:], (entry,))),
            replace(facts, schedule=(*facts.schedule[1:], entry)),
            replace(facts, ranks_by_node=(*facts.ranks_by_node[1:], (entry, entry))),
        )
        facts = choices[int(rng.choice(len(choices), p=(0.4, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1)))]
    return replace(facts, ranks_by_node=tuple(sorted(facts.ranks_by_node)))
