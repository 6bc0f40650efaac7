"""A schedule as Horovod takes it: groups for DistributedOptimizer, and the variables that must be set before `hvd.init()`.

HOROVOD_DISABLE_GROUP_FUSION=1 keeps a group from being fused with others that are ready in the same cycle. It also makes a group of every
tensor that is handed over alone (EnqueueTensorAllreduces), so nothing fuses automatically: every gradient belongs into a group, and a
job that wants Horovod's own fusion must not set it. The threshold still cuts larger groups, so it is raised where a group needs it. The
cycle is what a ready group waits at most for its start.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from hyperscale.training.allreduce.schedule import Schedule, ScheduleError
from hyperscale.training.allreduce.simulate import CYCLE_SECONDS, THRESHOLD_BYTES

LEAST_CYCLE_SECONDS: Final = 1e-4
"""Each cycle negotiates with all ranks: at ten times the default rate that costs a few per cent of a core."""
CYCLE_SHARE: Final = 0.001
"""Of the time until the last message ends; so much a cycle may add to it."""
ATOMIC_BYTES: Final = 64 * 2**10
"""Thresholds are rounded up to whole units of this; Horovod rounds as well, to units that depend on the ranks of a node."""
MOST_THRESHOLD_BYTES: Final = 2**30
"""Horovod keeps a buffer of the threshold's size on every rank; beyond this, what a message costs besides its bytes is nothing."""
CYCLE: Final = "HOROVOD_CYCLE_TIME"
THRESHOLD: Final = "HOROVOD_FUSION_THRESHOLD"
GROUPS_APART: Final = "HOROVOD_DISABLE_GROUP_FUSION"
DEFAULTS: Final = {CYCLE: f"{CYCLE_SECONDS * 1e3:.4g}", THRESHOLD: str(THRESHOLD_BYTES)}
"""What Horovod does without these variables."""


def options(schedule: Schedule, names: Sequence[str], sizes_bytes: Sequence[float] = ()) -> tuple[list[list[str]], dict[str, str]]:
    """Names of the parameters by group, in the order of sending, and environment variables.

    names: (L,) by gradient; `DistributedOptimizer(groups=[[parameters[name] for name in group] for group in groups])`. sizes_bytes: (L,),
    without it groups are taken to fit the default threshold. Raises ScheduleError where names do not fit the schedule.
    """
    count = sum(len(group) for group in schedule.groups)
    if len(names) != count or len(set(names)) != count:
        raise ScheduleError(f"{len(names)} names, {len(set(names))} of them different, for {count} gradients; give one name for each")
    groups = [[names[at] for at in group] for group in schedule.groups]
    largest = (
        max((math.fsum(sizes_bytes[at] for at in group) for group in schedule.groups if len(group) > 1), default=0.0)
        if sizes_bytes
        else 0.0
    )
    return groups, environment(cycle_seconds(schedule.finish_seconds), largest)


def environment(cycle: float, largest_group_bytes: float = 0.0) -> dict[str, str]:
    """Variables for a cycle of `cycle` seconds and groups of at most `largest_group_bytes`.

    The default threshold is kept where it is enough: later schedules of the same run may then fuse up to it without a restart.
    """
    threshold = max(THRESHOLD_BYTES, math.ceil(largest_group_bytes / ATOMIC_BYTES) * ATOMIC_BYTES)
    return {CYCLE: f"{cycle * 1e3:.4g}", GROUPS_APART: "1", THRESHOLD: str(threshold)}


def settings(cycle: float, gradient_bytes: float) -> dict[str, str]:
    """Before the groups are known: `environment` for all gradients in one message, without Horovod's own defaults.

    A variable that is set is one that Horovod's autotuning leaves alone.
    """
    variables = environment(cycle, min(gradient_bytes, MOST_THRESHOLD_BYTES))
    return {name: value for name, value in variables.items() if value != DEFAULTS.get(name)}


def threshold_bytes(variables: Mapping[str, str]) -> float:
    """The fusion threshold of a Horovod that was started with these variables: no group should be larger."""
    text = variables.get(THRESHOLD, "").strip()
    return float(int(text)) if text.isascii() and text.isdigit() else float(THRESHOLD_BYTES)


def cycle_seconds(finish_seconds: float) -> float:
    """How long a cycle should take where the last message ends after `finish_seconds`; never above Horovod's default."""
    return min(CYCLE_SECONDS, max(LEAST_CYCLE_SECONDS, CYCLE_SHARE * finish_seconds))
