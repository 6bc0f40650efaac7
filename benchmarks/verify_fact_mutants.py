"""Mutations of what a plan's ranks hold, in normal form: partitions, ring, allreduce schedule, memory of a rank."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from benchmarks.verify_draws import Rng, pick, put
from hyperscale.evaluate.verify.normal_form import PlanFacts, PlanLimits

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
    return replace(facts, ring=put(facts.ring, int(rng.integers(len(facts.ring))), pick(rng, facts.ring)))


def _ring_lost(facts: PlanFacts, limits: PlanLimits, rng: Rng) -> PlanFacts | None:
    at = int(rng.integers(len(facts.ring)))
    return replace(facts, ring=facts.ring[:at] + facts.ring[at + 1 :])


def _schedule_repeated(facts: PlanFacts, limits: PlanLimits, rng: Rng) -> PlanFacts | None:
    return replace(facts, schedule=put(facts.schedule, int(rng.integers(len(facts.schedule))), pick(rng, facts.schedule)))


def _schedule_lost(facts: PlanFacts, limits: PlanLimits, rng: Rng) -> PlanFacts | None:
    return replace(facts, schedule=facts.schedule[1:] if rng.random() < 0.5 else (*facts.schedule, len(facts.schedule)))


def _rank_too_large(facts: PlanFacts, limits: PlanLimits, rng: Rng) -> PlanFacts | None:
    at = int(rng.integers(len(facts.workers)))
    worker = facts.workers[at]
    has = limits.nodes[worker.node].gpu_memory_bytes
    return replace(facts, workers=put(facts.workers, at, replace(worker, rank_bytes=has + 1)))


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
