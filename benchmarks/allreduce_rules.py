"""Rules that group gradients into messages, and when the last message of an instance ends by each of them."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from hyperscale.learn.agents.allreduce_instances import AllreduceInstance
from hyperscale.training.allreduce import horovod, simulate
from hyperscale.training.allreduce.schedule import Schedule, finish, schedule

HOROVOD: Final = "Horovod default"
EMITTED: Final = "as emitted"
DDP: Final = "DDP 25 MiB"
GREEDY: Final = "MG-WFBP greedy"
EACH: Final = "one each"
ONE: Final = "one message"
RULES: Final = (EMITTED, HOROVOD, DDP, GREEDY, EACH, ONE)
PHASES: Final = (0.0, 0.2, 0.4, 0.6, 0.8)
"""Starts of Horovod's first cycle, as a fraction of a cycle."""


def rule_seconds(instance: AllreduceInstance) -> dict[str, float]:
    """End of the last message by rule."""
    ready, sizes, cost = instance.ready_seconds, instance.sizes_bytes, (instance.alpha, instance.beta)
    optimum = scheduled(instance)
    settings = simulate.Engine(math.inf, horovod.cycle_seconds(optimum.finish_seconds))
    plain = {
        DDP: simulate.buckets(ready, sizes),
        GREEDY: simulate.greedy(ready, sizes, *cost),
        EACH: simulate.each_alone(ready, sizes),
        ONE: simulate.all_in_one(ready, sizes),
    }
    return {
        EMITTED: engine_seconds(instance, settings, optimum),
        HOROVOD: engine_seconds(instance, simulate.Engine()),
        **{rule: finish(groups, ready, sizes, *cost) for rule, groups in plain.items()},
    }


def engine_seconds(instance: AllreduceInstance, settings: simulate.Engine, optimum: Schedule | None = None) -> float:
    """In Horovod's cycles, on average over where they lie."""
    groups = optimum.groups if optimum is not None else None
    ends = []
    for phase in PHASES:
        engine = simulate.Engine(settings.threshold_bytes, settings.cycle_seconds, phase * settings.cycle_seconds)
        ends.append(
            simulate.horovod(instance.ready_seconds, instance.sizes_bytes, instance.alpha, instance.beta, engine, groups)[-1].end_seconds
        )
    return float(np.mean(ends))


def scheduled(instance: AllreduceInstance) -> Schedule:
    """The exact schedule, once for each instance."""
    if instance not in _SCHEDULES:
        _SCHEDULES[instance] = schedule(instance.ready_seconds, instance.sizes_bytes, instance.alpha, instance.beta)
    return _SCHEDULES[instance]


_SCHEDULES: Final[dict[AllreduceInstance, Schedule]] = {}


def tuned(instance: AllreduceInstance, threshold_mib: int, cycle_ms: float) -> float:
    """End of the last message with these settings, on average over phases."""
    return engine_seconds(instance, simulate.Engine(threshold_mib * 2**20, cycle_ms * 1e-3))


def exhaustive(instance: AllreduceInstance) -> float:
    """The earliest end of all 2^(L-1) groupings of neighbours; bit i says whether a message ends after gradient i."""
    count = len(instance.ready_seconds)
    cuts = np.arange(1 << (count - 1))
    end, waiting_bytes = np.full(len(cuts), -np.inf), np.zeros(len(cuts))
    for at in range(count):
        waiting_bytes = waiting_bytes + instance.sizes_bytes[at]
        closes = ((cuts >> at) & 1).astype(bool) if at < count - 1 else np.ones(len(cuts), dtype=bool)
        end = np.where(closes, np.maximum(end, instance.ready_seconds[at]) + instance.alpha + instance.beta * waiting_bytes, end)
        waiting_bytes = np.where(closes, 0.0, waiting_bytes)
    return float(end.min())
