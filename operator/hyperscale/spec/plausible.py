"""Whether recorded plans and statuses can be this operator's own: users who may write one of them may write anything. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import accumulate, count
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from hyperscale.model.api.job import MAX_GPUS_PER_WORKER, MAX_WORKERS
from hyperscale.model.history.corrections import MAX_RATE
from hyperscale.model.plan import Plan, WorkerPlacement
from hyperscale.model.status import JobStatus
from hyperscale.util.rfc3339 import CLOCK_SKEW_SECONDS, is_future, timestamp, unix_seconds

MAX_FIGURE: Final = 1e15
"""Seconds, bytes a second, epochs: no figure of a plan or status comes near, but those of `_LARGEST`."""
ROUNDED: Final = 1e-3
"""More than a figure of a status differs from its own for being rounded."""
MAX_PARTITIONS: Final = 1_000_000
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
"""Characters of no text of the operator's: terminals obey them, and PostgreSQL refuses a NUL."""
_SIGNED: Final = frozenset({"learned_score", "objective", "optimality_gap", "regret", "rule_score", "saved_seconds"})
_LARGEST: Final = {"rate": MAX_RATE}
"""Bounds of fields that may be larger than MAX_FIGURE."""


def is_plan(plan: Plan) -> bool:
    """Whether workers, ranks, nodes, GPUs and figures are within what any plan can have."""
    workers, first_ranks = plan.workers, accumulate((worker.gpus for worker in plan.workers), initial=0)
    return (
        0 < len(workers) <= MAX_WORKERS
        and 0 < plan.partitions <= MAX_PARTITIONS
        and all(_is_worker(*numbered) for numbered in zip(workers, count(), first_ranks, strict=False))
        and plan.ranks_by_node == plan.gpus_by_node()
        and (plan.predicted.calibration is None or plan.predicted.calibration.factor > 0.0)
        and _in_bounds((replace(plan, workers=()),))
    )


def _is_worker(worker: WorkerPlacement, index: int, first_rank: int) -> bool:
    """Whether a worker has its place in the plan, a node, and GPUs and a share within bounds."""
    return (
        worker.index == index
        and worker.first_rank == first_rank
        and 0 < worker.gpus <= MAX_GPUS_PER_WORKER
        and 0.0 <= worker.share <= 1.0
        and worker.node != ""
        and not _CONTROL.search(f"{worker.node}{worker.product}")
    )


def is_status(status: JobStatus) -> bool:
    """Whether its times can be read, its figures are in bounds and its plan is one. What the run measured is not judged here."""
    if status.plan is not None and not is_plan(status.plan):
        return False
    own = replace(status, plan=None, measured=None)
    dated = all(last.start_time for last in (status.last_migration, status.last_preemption) if last is not None)
    return dated and _in_bounds((own,)) and _with_times(own, readable_time) == own


def settled(status: JobStatus, now: float, created: float) -> JobStatus:
    """The status without times after `now`, which become `now`, preemptions before the job and waits longer than it is old.

    now, created: Unix seconds

    A user who may write a status could else hold other jobs back for as long as the time lies ahead. Itself where all is in order.
    """

    def at(time: str) -> str:
        return timestamp(now) if is_future(time, now) else time

    corrected: JobStatus = replace(_with_times(replace(status, plan=None), at), plan=status.plan)
    if (stop := corrected.last_preemption) is not None:
        age = max(0.0, now - created)
        too_long = stop.waited_seconds > age * (1.0 + ROUNDED) + CLOCK_SKEW_SECONDS
        too_early = unix_seconds(stop.start_time) < created - CLOCK_SKEW_SECONDS
        start, waited = timestamp(created) if too_early else stop.start_time, age if too_long else stop.waited_seconds
        corrected = replace(corrected, last_preemption=replace(stop, start_time=start, waited_seconds=waited))
    return status if corrected == status else corrected


def readable_time(text: object) -> str:
    """An RFC 3339 time; "" where it is none."""
    return text if isinstance(text, str) and _is_time(text) else ""


def _with_times(value: Any, at: Callable[[str], str]) -> Any:  # noqa: ANN401 - any value of a status
    """`value` with `at` applied to each of its times."""
    if isinstance(value, tuple):
        return tuple(_with_times(one, at) for one in value)
    if not isinstance(value, msgspec.Struct):
        return value
    given = {name: field for name in value.__struct_fields__ if (field := getattr(value, name))}
    return replace(value, **{name: at(field) if name.endswith("_time") else _with_times(field, at) for name, field in given.items()})


def _is_time(text: str) -> bool:
    try:
        unix_seconds(text)
    except (ValueError, OverflowError):
        return False
    return True


def _in_bounds(values: Iterable[object], signed: bool = False, largest: float = MAX_FIGURE) -> bool:
    """Every number below these values, a few fields of which may be negative, and no control character in any text."""
    return all(_is_sound(value, signed, largest) for value in values)


def _is_sound(value: object, signed: bool, largest: float) -> bool:
    if isinstance(value, str):
        return not _CONTROL.search(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return abs(value) <= largest and (signed or value >= 0)  # NaN is no figure either; integers may be beyond any float
    if isinstance(value, tuple):
        return _in_bounds(value, signed, largest)
    if isinstance(value, msgspec.Struct):
        return all(_is_sound(getattr(value, name), name in _SIGNED, _LARGEST.get(name, MAX_FIGURE)) for name in value.__struct_fields__)
    return True
