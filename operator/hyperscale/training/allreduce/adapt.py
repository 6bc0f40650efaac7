"""Groups follow what is measured while training runs: one step of a pure state, once an epoch, on figures that all ranks share.

Every rank must hold the same groups, or their allreduces wait for each other for ever. So `observe` takes one observation for all ranks:
rank 0 collects, broadcasts, and each rank does the same step on the same figures. A gradient is ready when the last rank has it.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Final

import msgspec

from hyperscale.model.runplan import AllreduceCost
from hyperscale.training.allreduce.latency_fit import Sample, fit, medians
from hyperscale.training.allreduce.schedule import Groups, ScheduleError, finish, schedule
from hyperscale.training.allreduce.simulate import THRESHOLD_BYTES

LEAST_GAIN: Final = 0.03
"""New groups must be predicted to end so much earlier; below that noise would make them change every epoch."""
WITHIN: Final = 0.005
"""New groups may end so much later where that saves messages: each costs the processor something that no link's figures know."""
REMEMBERED: Final = 5
"""Epochs whose figures count, and epochs whose messages do: messages are timed more rarely. Their median lets one bad epoch pass."""


class Observation(msgspec.Struct, frozen=True, rename="camel"):
    """One epoch, the same for all ranks."""

    ready_seconds: tuple[float, ...]
    """(L,) by gradient, from the beginning of the backward pass; the slowest rank's, the median of the epoch's steps."""
    messages: tuple[Sample, ...] = ()
    """Bytes and seconds of allreduces that had nothing to wait for."""


class AdaptState(msgspec.Struct, frozen=True, rename="camel"):
    """What is used now, and what it rests on."""

    groups: Groups
    cost: AllreduceCost
    sizes_bytes: tuple[float, ...]
    most_bytes: float = THRESHOLD_BYTES
    """The fusion threshold that Horovod was started with; it cannot change while training runs."""
    observations: tuple[Observation, ...] = ()
    """The last REMEMBERED epochs."""
    timed: tuple[tuple[Sample, ...], ...] = ()
    """Messages of the last REMEMBERED epochs that timed any, one of each size, smallest first."""


def begin(
    sizes_bytes: Sequence[float], cost: AllreduceCost, order: Sequence[int] | None = None, most_bytes: float = THRESHOLD_BYTES
) -> AdaptState:
    """Before anything is measured: everything in as few messages as the threshold allows, in `order` (default: last gradient first).

    Raises ScheduleError.
    """
    count = len(sizes_bytes)
    ranks = list(order) if order is not None else list(range(count - 1, -1, -1))
    if sorted(ranks) != list(range(count)):
        raise ScheduleError(f"order names {len(ranks)} gradients of {count}; name each of 0..{count - 1} once")
    place = {at: float(number) for number, at in enumerate(ranks)}
    first = schedule([place[at] * 1e-12 for at in range(count)], sizes_bytes, max(cost.latency_seconds, 1e-9), 0.0, most_bytes=most_bytes)
    return AdaptState(first.groups, cost, tuple(float(size) for size in sizes_bytes), most_bytes)


def observe(state: AdaptState, observation: Observation, *, least_gain: float = LEAST_GAIN) -> AdaptState:
    """The next state; its groups differ from the last ones only where they gain `least_gain` by the figures of the last epochs.

    The same state and observation give the same result on every rank. Raises ScheduleError where the observation is of another model.
    """
    if len(observation.ready_seconds) != len(state.sizes_bytes):
        raise ScheduleError(f"{len(observation.ready_seconds)} ready times for {len(state.sizes_bytes)} gradients; give one for each")
    kept = (*state.observations, observation)[-REMEMBERED:]
    news = tuple(medians(observation.messages))
    timed = (*state.timed, news)[-REMEMBERED:] if news else state.timed
    cost = fit(_usual(timed), state.cost) if news else state.cost
    ready = [statistics.median(epoch.ready_seconds[at] for epoch in kept) for at in range(len(state.sizes_bytes))]
    constants = (cost.latency_seconds, cost.seconds_per_byte)
    now = finish(state.groups, ready, state.sizes_bytes, *constants)
    best = schedule(ready, state.sizes_bytes, *constants, most_bytes=state.most_bytes, within=WITHIN)
    changes = best.groups != state.groups and now - best.finish_seconds > least_gain * (now - min(ready))
    return msgspec.structs.replace(
        state,
        groups=best.groups if changes else state.groups,
        cost=cost,
        observations=kept,
        timed=timed,
    )


def _usual(timed: Sequence[Sequence[Sample]]) -> list[Sample]:
    """One message of each size: the median over epochs, of an even number the shorter, because what disturbs a message only delays it."""
    by_size: dict[float, list[float]] = {}
    for size, seconds in (sample for epoch in timed for sample in epoch):
        by_size.setdefault(size, []).append(seconds)
    return [(size, statistics.median_low(by_size[size])) for size in sorted(by_size)]
