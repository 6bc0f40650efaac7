"""What a round is decided from, and what it decides. Pure; nothing here knows of Kubernetes or of a clock.

A pool is all GPUs of one type. An option is a number of GPUs of one pool that a job may be given, with the speed predicted for it.
"""

from __future__ import annotations

import msgspec


class GpuPool(msgspec.Struct, frozen=True, rename="camel"):
    """GPUs of one type that the rounds may give away."""

    name: str
    gpus: int
    """All of them, those that jobs of the question hold included."""


class GpuOption(msgspec.Struct, frozen=True, rename="camel"):
    """A number of GPUs of one pool for one job."""

    pool: int
    """Index into the question's pools."""
    gpus: int
    """At least 1. A shape that no node can hold must not be offered: the rounds count GPUs, not nodes."""
    rate: float
    """Useful work a second, e.g. examples a second; 0 where the job cannot run. All options of a job have the same unit."""


class RoundJob(msgspec.Struct, frozen=True, rename="camel"):
    """A job that runs or waits."""

    key: str
    """namespace/name; ties go to the smaller one."""
    options: tuple[GpuOption, ...]
    """All that it may be given, its present GPUs among them. A job of a fixed count has one option a pool."""
    current: int | None = None
    """Index into `options` of what it holds; None: it holds nothing."""
    attained: float = 0.0
    """Work that it has done, in seconds times the unit of `GpuOption.rate`."""
    remaining: float | None = None
    """Work that is left in the same unit; None: unknown, and estimated from the work that it has done."""
    restart_seconds: float = 60.0
    """Seconds without progress after a start or a change of its GPUs."""
    unchanged_seconds: float = 0.0
    """Since it last started or changed."""
    weight: float = 1.0
    """What a second of its completion time counts."""
    movable: bool = True
    """Whether what it holds may change or be taken; False: it keeps what it holds, and a job that waits starts as others do."""


class RoundSettings(msgspec.Struct, frozen=True, rename="camel"):
    """How rounds decide; docs/explanation/rounds.md says what was tried."""

    prior_seconds: float = 900.0
    """Work left of a job that has done nothing, in seconds on its fastest single GPU; only where it is unknown."""
    growth: float = 0.5
    """Work left is longer by so much for each unit of work done; only where it is unknown."""
    priority: float = 0.1
    """Power of the work left by which short jobs count more."""
    curve: float = -0.5
    """Power of the speed in a job's value. Lower spreads GPUs more evenly; 1 gives them where they add the most speed."""
    idle_speed: float = 0.05
    """Speed that a waiting job counts with, relative to its fastest single GPU."""
    hold_seconds: float = 60.0
    """A job keeps what it holds for so long after a start or change."""
    min_gain_ratio: float = 0.5
    """A change must make the job's end so much sooner than it is predicted to: smaller gains change nothing."""
    gain_seconds: float = 600.0
    """After so long without a change the ratio falls, in proportion to 1 / time; long jobs may still take small gains."""
    max_changes: int | None = None
    """Running jobs that may change or stop in one round; None: any number. Starts are not counted."""


KNOWN_WORK = RoundSettings(priority=1.0, curve=1.0, idle_speed=0.0, hold_seconds=0.0, min_gain_ratio=0.0)
"""For rigid jobs whose remaining work is known: the assignment that finishes the most weighted jobs a second (Smith 1956)."""


class RoundGrant(msgspec.Struct, frozen=True, rename="camel"):
    """What one job is given in the next round."""

    key: str
    option: int | None
    """Index into the job's options; None: it waits, or stops where it runs."""
    changes: bool
    """Whether it is something else than the job holds."""
