"""The fastest way to put gradients into allreduces, exactly: the end in O(L), the fewest messages that reach it in O(L²) at most.

L gradients become ready one after another while a backward pass runs; one channel carries one message at a time, and a message of m bytes
takes alpha + beta × m seconds (MG-WFBP, INFOCOM 2019). Wanted: messages and their order with the earliest end of the last one.

Groups of neighbours in the order of readiness, sent in that order, are enough. Let messages 1..k be sent in that order, message l ready at
R_l and followed by messages of together B_l bytes, itself included; they end at max over l of R_l + (k − l + 1) × alpha + beta × B_l. Take
gradients i in message a and j in a later message b with j ready before i, and move j into a: R_a stays (i is later), R_b does not grow, no
B_l grows. So the end does not grow, and after finitely many moves no such pair is left. The best grouping of neighbours is therefore the
best of all groupings in all orders. Its end E(j) for the first j gradients follows E(j) = min over i < j of
max(E(i), ready_j) + alpha + beta × (bytes of i+1..j), because nothing gets faster when the messages before end later.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

Groups = tuple[tuple[int, ...], ...]
"""Numbers of gradients by message, in the order of sending."""

SLACK: Final = 1e-12
"""Relative rounding that two equally fast schedules may differ by."""


class ScheduleError(ValueError):
    """The figures cannot be scheduled; the message says which and what to give instead."""


class Schedule(msgspec.Struct, frozen=True, rename="camel"):
    """What is sent together, and when the last message ends."""

    groups: Groups
    finish_seconds: float
    """On the clock of the ready times."""
    lower_bound_seconds: float
    """Nothing ends earlier, whatever is grouped or reordered."""


class LowerBounds(msgspec.Struct, frozen=True, rename="camel"):
    """No schedule ends before these; seconds on the clock of the ready times."""

    last_seconds: float
    """The last gradient is sent once it is ready: its ready time + alpha + beta × its bytes."""
    whole_seconds: float
    """Everything passes the channel, from the first ready time on: that + alpha + beta × all bytes."""
    best_seconds: float
    """The same for what is ready not before any given gradient; the largest of them, at least the two above."""


class GradientSizes(msgspec.Struct, frozen=True):
    """Checked figures in the order of readiness."""

    order: tuple[int, ...]
    ready: tuple[float, ...]
    before: tuple[float, ...]
    """(L + 1,) bytes of the first 0..L gradients."""


def schedule(
    ready_seconds: Sequence[float],
    sizes_bytes: Sequence[float],
    alpha: float,
    beta: float,
    *,
    most_bytes: float = math.inf,
    within: float = 0.0,
) -> Schedule:
    """The schedule that ends first, and of those the one with the fewest messages.

    ready_seconds, sizes_bytes: (L,) by gradient, in any order; alpha in seconds, beta in seconds per byte. most_bytes: no message of two or
    more gradients is larger (Horovod's fusion threshold); with such a bound the result is the best of groups of neighbours. within: the end
    may be later by this part of the time from the first ready gradient on, where that saves messages. Raises ScheduleError.
    """
    sizes = ordered(ready_seconds, sizes_bytes, alpha, beta)
    if not within >= 0:
        raise ScheduleError(f"within is {within}; give a part of the time, 0 or more, for example 0.005")
    ends = _earliest(sizes, alpha, beta, most_bytes)
    ranges = _fewest(sizes, ends, alpha, beta, most_bytes, within)
    groups = tuple(sizes.order[first:last] for first, last in ranges)
    return Schedule(groups, finish(groups, ready_seconds, sizes_bytes, alpha, beta), _bounds(sizes, alpha, beta).best_seconds)


def finish(groups: Groups, ready_seconds: Sequence[float], sizes_bytes: Sequence[float], alpha: float, beta: float) -> float:
    """When the last message ends if `groups` are sent one after another, each as soon as all its gradients are ready."""
    end = -math.inf
    for group in groups:
        end = max(end, max(ready_seconds[at] for at in group)) + alpha + beta * math.fsum(sizes_bytes[at] for at in group)
    return float(end)


def lower_bounds(ready_seconds: Sequence[float], sizes_bytes: Sequence[float], alpha: float, beta: float) -> LowerBounds:
    """What no schedule can beat. Raises ScheduleError."""
    return _bounds(ordered(ready_seconds, sizes_bytes, alpha, beta), alpha, beta)


def ordered(ready_seconds: Sequence[float], sizes_bytes: Sequence[float], alpha: float, beta: float) -> GradientSizes:
    """The gradients in the order of readiness, equally ready ones in the order given. Raises ScheduleError."""
    if len(ready_seconds) != len(sizes_bytes) or not len(sizes_bytes):
        raise ScheduleError(f"{len(ready_seconds)} ready times for {len(sizes_bytes)} sizes; give one of each per gradient, one at least")
    for name, value in (("alpha", alpha), ("beta", beta)):
        if not (math.isfinite(value) and value >= 0):
            raise ScheduleError(f"{name} is {value}; give seconds and seconds per byte, 0 or more")
    _check_figures("ready_seconds", ready_seconds, -math.inf)
    _check_figures("sizes_bytes", sizes_bytes, 0.0)
    order = tuple(sorted(range(len(sizes_bytes)), key=lambda at: ready_seconds[at]))
    before = [0.0]
    for at in order:
        before.append(before[-1] + float(sizes_bytes[at]))
    return GradientSizes(order, tuple(float(ready_seconds[at]) for at in order), tuple(before))


def _check_figures(name: str, values: Sequence[float], least: float) -> None:
    """Raise ScheduleError for a figure that is not finite or below `least`."""
    wrong = next((at for at, value in enumerate(values) if not (math.isfinite(value) and value >= least)), None)
    if wrong is not None:
        raise ScheduleError(f"{name}[{wrong}] is {values[wrong]}; give a finite number, and of bytes 0 or more")


def _bounds(sizes: GradientSizes, alpha: float, beta: float) -> LowerBounds:
    ready, before = sizes.ready, sizes.before
    tails = [at + alpha + beta * (before[-1] - sent) for at, sent in zip(ready, before, strict=False)]
    return LowerBounds(tails[-1], tails[0], max(tails))


def _earliest(sizes: GradientSizes, alpha: float, beta: float, most_bytes: float) -> list[float]:
    """(L + 1,) earliest end of the first 0..L gradients, in linear time.

    Of the ends that are not after ready_j the latest is best, it leaves the fewest bytes; of the others the least E(i) − beta × before_i.
    Both ranges only move forward, so a queue of falling candidates holds the least one at its head.
    """
    ready, before = sizes.ready, sizes.before
    ends = [-math.inf]
    waiting: deque[int] = deque()
    idle = least = 0
    for j in range(1, len(before)):
        while waiting and ends[waiting[-1]] - beta * before[waiting[-1]] >= ends[j - 1] - beta * before[j - 1]:
            waiting.pop()
        waiting.append(j - 1)
        while least < j - 1 and before[j] - before[least] > most_bytes:
            least += 1
        while idle < j and ends[idle] <= ready[j - 1]:
            idle += 1
        while waiting and waiting[0] < max(idle, least):
            waiting.popleft()
        at_once = ready[j - 1] + beta * (before[j] - before[idle - 1]) if idle > least else math.inf
        later = ends[waiting[0]] + beta * (before[j] - before[waiting[0]]) if waiting else math.inf
        ends.append(min(at_once, later) + alpha)
    return ends


def _fewest(sizes: GradientSizes, ends: list[float], alpha: float, beta: float, most_bytes: float, within: float) -> list[tuple[int, int]]:
    """Ranges of the schedule with the fewest messages among those that are fast enough, from the last gradient back.

    With g messages left after the first j gradients these may end at `end − g × alpha − beta × (bytes after j)`, whatever those messages
    are: fewer messages left never hurts, so for each j only the least g counts.
    """
    ready, before = np.asarray(sizes.ready), np.asarray(sizes.before)
    count = len(ready)
    limit = ends[-1] + within * (ends[-1] - ready[0]) + SLACK * (abs(ends[-1]) + alpha + beta * before[-1])
    none = float(count + 1)
    left = np.full(count + 1, none)
    left[count] = 0.0
    following = [0] * count
    for i in range(count - 1, -1, -1):
        latest = limit - alpha - beta * (before[-1] - before[i])
        # Not beyond what is ready in time where one message is enough, nor beyond the largest message.
        reach = min(np.searchsorted(ready, latest, "right"), max(np.searchsorted(before, before[i] + most_bytes, "right") - 1, i + 1))
        if latest < ends[i] or reach <= i:
            continue
        messages = left[i + 1 : reach + 1]
        start = latest - messages * alpha
        fits = (messages < none) & (start >= ready[i:reach]) & (start >= ends[i])
        best = int(np.argmin(np.where(fits, messages, none)))
        if fits[best]:
            left[i], following[i] = messages[best] + 1.0, i + 1 + best
    ranges, at = [], 0
    while at < count:
        ranges.append((at, following[at]))
        at = following[at]
    return ranges
