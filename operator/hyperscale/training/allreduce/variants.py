"""Other ways to move the same gradients: in two levels, in half precision; taken where the prediction says that they pay.

A ring over P ranks moves 2 (P − 1) / P of the bytes over its slowest link in 2 (P − 1) steps (Patarasuk & Yuan 2009).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import msgspec

from hyperscale.model.runplan import AllreduceCost
from hyperscale.training.allreduce.schedule import Schedule, ScheduleError, schedule

LEAST_GAIN: Final = 0.03
"""A variant must be predicted to end so much earlier, as part of the plain schedule's time; below that the model's error decides."""


class NetworkLinks(msgspec.Struct, frozen=True, rename="camel"):
    """Slowest link of a ring, one way."""

    latency_seconds: float
    bytes_per_second: float


class VariantChoice(msgspec.Struct, frozen=True, rename="camel"):
    """How gradients travel."""

    schedule: Schedule
    cost: AllreduceCost
    hierarchical: bool = False
    half: bool = False
    plain_seconds: float = 0.0
    """When the last message would end without either."""

    def environment(self) -> dict[str, str]:
        """Of Horovod; half precision is DistributedOptimizer(compression=hvd.Compression.fp16) instead."""
        return {"HOROVOD_HIERARCHICAL_ALLREDUCE": "1"} if self.hierarchical else {}


def flat(ranks: int, links: NetworkLinks) -> AllreduceCost:
    """One ring over all ranks. Raises ScheduleError."""
    _check(ranks, links)
    return AllreduceCost(2 * (ranks - 1) * links.latency_seconds, 2 * (ranks - 1) / ranks / links.bytes_per_second)


def hierarchical(nodes: int, ranks_per_node: int, inside: NetworkLinks, between: NetworkLinks) -> AllreduceCost:
    """Reduce-scatter in each node, one ring per local rank between the nodes with its part, allgather in each node.

    The rings between the nodes share each node's link, so that a node moves as many bytes as one ring over nodes would. Horovod 0.28.1 has
    this with NCCL only, and only for equal numbers of ranks per node. Raises ScheduleError.
    """
    _check(nodes, between)
    _check(ranks_per_node, inside)
    local, across = ranks_per_node - 1, nodes - 1
    latency = 2 * local * inside.latency_seconds + 2 * across * between.latency_seconds
    return AllreduceCost(latency, 2 * local / ranks_per_node / inside.bytes_per_second + 2 * across / nodes / between.bytes_per_second)


def half_precision(
    ready_seconds: Sequence[float], sizes_bytes: Sequence[float], cost: AllreduceCost, cast_seconds_per_byte: float
) -> Schedule:
    """Send FP16: half of the bytes, each gradient ready later by the casts before it, all cast back at the end.

    sizes_bytes and cast_seconds_per_byte (one way) are of the gradient in single precision. Raises ScheduleError.
    """
    later, sent = halved(ready_seconds, sizes_bytes, cast_seconds_per_byte)
    in_half = schedule(later, sent, cost.latency_seconds, cost.seconds_per_byte)
    spent = cast_seconds_per_byte * math.fsum(sizes_bytes)
    return msgspec.structs.replace(
        in_half, finish_seconds=in_half.finish_seconds + spent, lower_bound_seconds=in_half.lower_bound_seconds + spent
    )


def halved(
    ready_seconds: Sequence[float], sizes_bytes: Sequence[float], cast_seconds_per_byte: float
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """(L,) ready times after the casts before each, and (L,) bytes that travel."""
    later, spent = list(ready_seconds), 0.0
    for at in sorted(range(len(ready_seconds)), key=lambda at: ready_seconds[at]):
        spent += cast_seconds_per_byte * sizes_bytes[at]
        later[at] += spent
    return tuple(later), tuple(size / 2 for size in sizes_bytes)


def choose(
    ready_seconds: Sequence[float],
    sizes_bytes: Sequence[float],
    plain: AllreduceCost,
    *,
    two_levels: AllreduceCost | None = None,
    cast_seconds_per_byte: float | None = None,
    least_gain: float = LEAST_GAIN,
) -> VariantChoice:
    """The plain schedule, unless a variant that is offered ends earlier by `least_gain`; both together only if that gains again as much.

    Raises ScheduleError.
    """
    first = schedule(ready_seconds, sizes_bytes, plain.latency_seconds, plain.seconds_per_byte)
    best = VariantChoice(first, plain, plain_seconds=first.finish_seconds)
    alone, both = [], []
    if two_levels is not None:
        candidate = schedule(ready_seconds, sizes_bytes, two_levels.latency_seconds, two_levels.seconds_per_byte)
        alone.append(VariantChoice(candidate, two_levels, True, False, first.finish_seconds))
    if cast_seconds_per_byte is not None:
        candidate = half_precision(ready_seconds, sizes_bytes, plain, cast_seconds_per_byte)
        alone.append(VariantChoice(candidate, plain, False, True, first.finish_seconds))
    if two_levels is not None and cast_seconds_per_byte is not None:
        candidate = half_precision(ready_seconds, sizes_bytes, two_levels, cast_seconds_per_byte)
        both.append(VariantChoice(candidate, two_levels, True, True, first.finish_seconds))
    for more in (alone, both):
        least = best.schedule.finish_seconds - least_gain * (best.schedule.finish_seconds - min(ready_seconds))
        best = min([best, *(one for one in more if one.schedule.finish_seconds <= least)], key=lambda one: one.schedule.finish_seconds)
    return best


def _check(ranks: int, links: NetworkLinks) -> None:
    if ranks < 1 or not links.bytes_per_second > 0 or not links.latency_seconds >= 0:
        raise ScheduleError(f"{ranks} ranks over {links}; give one rank at least, a bandwidth above 0 and a latency of 0 or more")
