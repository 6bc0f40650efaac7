"""What other rules make of the same gradients: Horovod's own engine, buckets as in PyTorch DDP, MG-WFBP's greedy, one each, all in one.

Everything is judged as in `schedule`: one channel, alpha + beta × bytes a message. All ready times are seconds, all sizes bytes, (L,).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from typing import Final

import msgspec

from hyperscale.training.allreduce.schedule import Groups, ordered

THRESHOLD_BYTES: Final = 128 * 2**20
"""Default of HOROVOD_FUSION_THRESHOLD (horovod/common/operations.cc)."""
CYCLE_SECONDS: Final = 1e-3
"""Default of HOROVOD_CYCLE_TIME."""
BUCKET_BYTES: Final = 25 * 2**20
"""`bucket_cap_mb` of torch.nn.parallel.DistributedDataParallel."""
FIRST_BUCKET_BYTES: Final = 2**20
"""Its first bucket is smaller, so that something starts early (torch.distributed._DEFAULT_FIRST_BUCKET_BYTES)."""


class Message(msgspec.Struct, frozen=True, rename="camel"):
    """One allreduce."""

    members: tuple[int, ...]
    bytes: float
    ready_seconds: float
    start_seconds: float
    end_seconds: float


class Engine(msgspec.Struct, frozen=True, rename="camel"):
    """Horovod's settings: what is ready when a cycle begins is fused up to the threshold."""

    threshold_bytes: float = THRESHOLD_BYTES
    cycle_seconds: float = CYCLE_SECONDS
    phase_seconds: float = 0.0
    """A cycle begins at this time; where it lies to the backward pass is chance."""


def sequence(groups: Groups, ready_seconds: Sequence[float], sizes_bytes: Sequence[float], alpha: float, beta: float) -> list[Message]:
    """`groups` one after another, each as soon as it is ready and the channel is free."""
    sent: list[Message] = []
    for group in groups:
        sent.append(_message(group, ready_seconds, sizes_bytes, (alpha, beta), sent[-1].end_seconds if sent else -math.inf))
    return sent


def horovod(
    ready_seconds: Sequence[float],
    sizes_bytes: Sequence[float],
    alpha: float,
    beta: float,
    engine: Engine | None = None,
    groups: Groups | None = None,
) -> list[Message]:
    """What Horovod 0.28.1 sends (RunLoopOnce, FuseResponses): each cycle fuses whatever is ready, and the next one waits for its messages.

    With `groups`: as DistributedOptimizer(groups=...) under HOROVOD_DISABLE_GROUP_FUSION=1; a group is handed over whole, fuses with
    nothing else and is cut only by the threshold. A cycle begins a cycle time after the last one began, or when its messages have ended.
    """
    chosen = engine or Engine()
    order = ordered(ready_seconds, sizes_bytes, alpha, beta).order

    def ready(unit: tuple[int, ...]) -> float:
        return max(ready_seconds[at] for at in unit)

    waiting = sorted(groups if groups is not None else ((at,) for at in order), key=ready)
    sent: list[Message] = []
    begin = chosen.phase_seconds
    while waiting:
        tick = end = _tick(begin, ready(waiting[0]), chosen.cycle_seconds)
        due = [unit for unit in waiting if ready(unit) <= tick]
        waiting = waiting[len(due) :]
        units = due if groups is not None else [tuple(chain.from_iterable(due))]
        for members in chain.from_iterable(_fused(unit, sizes_bytes, chosen.threshold_bytes) for unit in units):
            sent.append(_message(tuple(members), ready_seconds, sizes_bytes, (alpha, beta), end))
            end = sent[-1].end_seconds
        begin = max(tick + chosen.cycle_seconds, end)
    return sent


def buckets(
    ready_seconds: Sequence[float], sizes_bytes: Sequence[float], limit_bytes: float = BUCKET_BYTES, first_bytes: float = FIRST_BUCKET_BYTES
) -> Groups:
    """Buckets of PyTorch DDP: filled in the order of readiness, closed by the gradient with which they reach their limit."""
    groups: list[list[int]] = [[]]
    filled, limit = 0.0, first_bytes
    for at in ordered(ready_seconds, sizes_bytes, 0.0, 0.0).order:
        groups[-1].append(at)
        filled += sizes_bytes[at]
        if filled >= limit:
            groups.append([])
            filled, limit = 0.0, limit_bytes
    return tuple(tuple(bucket) for bucket in groups if bucket)


def greedy(ready_seconds: Sequence[float], sizes_bytes: Sequence[float], alpha: float, beta: float) -> Groups:
    """MG-WFBP as released: a gradient joins the next one where the channel is busy until that is ready, or the wait is below alpha.

    The paper calls the result optimal; it is not, because a merge is judged by the next gradient alone.
    """
    sizes = ordered(ready_seconds, sizes_bytes, alpha, beta)
    groups: list[list[int]] = [[]]
    start, message_bytes = sizes.ready[0], 0.0
    for place, at in enumerate(sizes.order):
        groups[-1].append(at)
        message_bytes += sizes_bytes[at]
        if place + 1 == len(sizes.order):
            break
        following, end = sizes.ready[place + 1], start + alpha + beta * message_bytes
        if following < end and (start > following or following - start < alpha):
            start = max(start, following)
        else:
            start, message_bytes = max(end, following), 0.0
            groups.append([])
    return tuple(tuple(group) for group in groups)


def each_alone(ready_seconds: Sequence[float], sizes_bytes: Sequence[float]) -> Groups:
    """One message for each gradient (WFBP; Horovod with a fusion threshold of 0)."""
    return tuple((at,) for at in ordered(ready_seconds, sizes_bytes, 0.0, 0.0).order)


def all_in_one(ready_seconds: Sequence[float], sizes_bytes: Sequence[float]) -> Groups:
    """One message after the backward pass."""
    return (ordered(ready_seconds, sizes_bytes, 0.0, 0.0).order,)


def _message(
    group: tuple[int, ...], ready_seconds: Sequence[float], sizes_bytes: Sequence[float], cost: tuple[float, float], free_seconds: float
) -> Message:
    ready = float(max(ready_seconds[at] for at in group))
    carried = math.fsum(sizes_bytes[at] for at in group)
    start = max(ready, free_seconds)
    return Message(group, carried, ready, start, start + cost[0] + cost[1] * carried)


def _tick(from_seconds: float, ready_seconds: float, cycle_seconds: float) -> float:
    """First beginning of a cycle, of those from `from_seconds` on, at which something that is ready then is seen."""
    if ready_seconds <= from_seconds or cycle_seconds <= 0.0:
        return max(from_seconds, ready_seconds)
    tick = from_seconds + math.ceil((ready_seconds - from_seconds) / cycle_seconds) * cycle_seconds
    return tick if tick >= ready_seconds else tick + cycle_seconds


def _fused(pending: Sequence[int], sizes_bytes: Sequence[float], threshold_bytes: float) -> list[list[int]]:
    """Messages of one cycle: each takes along what follows it while that fits.

    FuseResponses also looks past what does not fit, but only as far as even that would fit: with gradients of one type, never.
    """
    messages: list[list[int]] = []
    message_bytes = 0.0
    for at in pending:
        if messages and message_bytes + sizes_bytes[at] <= threshold_bytes:
            messages[-1].append(at)
            message_bytes += sizes_bytes[at]
        else:
            messages.append([at])
            message_bytes = sizes_bytes[at]
    return messages
