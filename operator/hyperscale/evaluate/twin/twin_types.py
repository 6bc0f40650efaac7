"""What the twin of a job takes and gives: laws of failure, nodes with their risks, futures, and the outlook that follows from them."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from hyperscale.model.evaluation import TimePart
from hyperscale.model.graph import FloatArray

SMALL_INTERVAL_SECONDS: Final = 1e-3
"""Shortest checkpoint interval that the twin takes."""


class LawFamily(enum.StrEnum):
    """Families of the time to an event."""

    EXPONENTIAL = "exponential"
    WEIBULL = "weibull"
    LOGNORMAL = "lognormal"
    GAMMA = "gamma"
    EMPIRICAL = "empirical"
    FIXED = "fixed"
    """The same time always: for repairs and preemptions of a stated length."""


class LifeLaw(msgspec.Struct, frozen=True, omit_defaults=True):
    """The distribution of a time to an event: a failure, the end of a repair, the end of a preemption."""

    family: LawFamily
    scale_seconds: float
    """Mean (exponential), scale (Weibull, gamma), median (lognormal), the time (fixed), or mean beyond the table (empirical)."""
    shape: float = 1.0
    """k of Weibull and gamma, sigma of lognormal; the others have none."""
    ages_seconds: tuple[float, ...] = ()
    """Empirical only: rising ages above 0 at which the cumulative hazard is stated; linear between them."""
    hazards: tuple[float, ...] = ()
    """Empirical only: cumulative hazard at each age, never falling."""


def exponential(mean_seconds: float) -> LifeLaw:
    """Return the law without memory; an infinite mean never ends."""
    return LifeLaw(LawFamily.EXPONENTIAL, mean_seconds)


def fixed(seconds: float) -> LifeLaw:
    """Return the law of a time that is always the same."""
    return LifeLaw(LawFamily.FIXED, seconds)


class Slowdown(msgspec.Struct, frozen=True, omit_defaults=True):
    """A period in which a node computes slower; the slowest node of a job sets its pace."""

    factor: float
    """Time of a step / time of a step of a sound node: at least 1."""
    start_seconds: float = 0.0
    """From the start of the job."""
    end_seconds: float = math.inf


class NodeRisk(msgspec.Struct, frozen=True, omit_defaults=True):
    """One node as the twin knows it."""

    name: str
    """Names are distinct in a job: each node's chance follows from its name, not from its place."""
    laws: Mapping[str, LifeLaw] = {}
    """Cause -> time to failure of a new unit; causes compete. Empty: the node never fails."""
    repair: LifeLaw = fixed(0.0)
    """Time from a failure until the node can take part again, as a new unit."""
    age_seconds: float = 0.0
    """Time in service at the start of the job, or when a spare node first joins: an idle spare does not age."""
    lemon_factor: float = 1.0
    """Multiplies the hazard of every cause, also after repairs; 1 is an ordinary node."""
    slowdowns: tuple[Slowdown, ...] = ()


class PreemptionRisk(msgspec.Struct, frozen=True, omit_defaults=True):
    """How often the cluster takes a job's nodes away, and for how long."""

    per_second: float
    """Rate while the job has its nodes (running or restarting)."""
    length: LifeLaw


class JobRisk(msgspec.Struct, frozen=True, omit_defaults=True):
    """A job on its nodes, as the twin plays it."""

    nodes: tuple[NodeRisk, ...]
    """All are needed: the job stops when one fails."""
    work_seconds: float
    """Of training without failures, checkpoints and slow nodes."""
    checkpoint_interval_seconds: float
    """Of work between two checkpoints."""
    write_seconds: float
    """Of one checkpoint; training stands still. One is written at the end too."""
    restart_seconds: float
    """To detect, reschedule and load; begins when the job has all nodes. Another failure begins it again."""
    spares: tuple[NodeRisk, ...] = ()
    preemption: PreemptionRisk | None = None
    horizon_seconds: float | None = None
    """Futures are followed no longer; None: `MAX_STRETCH` times the time without failures."""
    epoch_seconds: float | None = None
    """Work of one epoch; the best interval is then a whole number of epochs."""


@dataclass(frozen=True)
class Futures:
    """Simulated futures of one job; row i follows from the seed, i and the job alone.

    The parts add up: end (or horizon) = useful + checkpoint + lost + restart + waiting + slow.
    """

    horizon_seconds: float
    names: tuple[str, ...]
    """Of the nodes, then of the spares."""
    end_seconds: FloatArray
    """(n,) from the start of the job; +inf past the horizon."""
    failures: npt.NDArray[np.int32]
    """(n,) failures of nodes that took part."""
    preemptions: npt.NDArray[np.int32]
    """(n,)"""
    useful_seconds: FloatArray
    """(n,) work that counts at the end; the job's whole work where it ended."""
    checkpoint_seconds: FloatArray
    """(n,) writing checkpoints that were finished."""
    lost_seconds: FloatArray
    """(n,) work and writing since the last checkpoint, lost at failures and preemptions."""
    restart_seconds: FloatArray
    """(n,)"""
    waiting_seconds: FloatArray
    """(n,) for a repaired node, or preempted."""
    slow_seconds: FloatArray
    """(n,) that saved work took longer because of slow nodes."""
    node_delay_seconds: FloatArray
    """(nodes + spares + 1,) mean over futures of lost, restart, waiting and slow seconds by the node that caused them; last: preemption."""


class IntervalChoice(msgspec.Struct, frozen=True):
    """The checkpoint interval that ends soonest in the mean, with two well-known formulas for comparison."""

    seconds: float
    expected_end_seconds: float
    current_end_seconds: float
    """Same futures, with the job's own interval."""
    young_seconds: float | None
    """Young 1974; None where nothing fails."""
    young_end_seconds: float | None
    daly_seconds: float | None
    """Daly 2006."""
    daly_end_seconds: float | None
    epochs: int | None = None
    """The interval as whole epochs, where the job states the length of one."""


class SpareWorth(msgspec.Struct, frozen=True):
    """What one more spare node changes, on the same futures."""

    spares: int
    """Without the one more."""
    saved_seconds: float
    """Expected end without it - with it."""
    p_gain: float | None
    """P(ends by deadline) with it - without it; None without a deadline."""


class CostlyNode(msgspec.Struct, frozen=True):
    """A node and the expected delay that it causes."""

    name: str
    delay_seconds: float
    """Mean over futures of lost, restart, waiting and slow seconds that it caused."""
    lemon_factor: float


class Outlook(msgspec.Struct, frozen=True):
    """What thousands of futures say of a job."""

    futures: int
    deadline_seconds: float | None
    p_by_deadline: float | None
    """Part of the futures that end by the deadline; None without one."""
    low: float | None
    """Exact 95 % binomial bounds of `p_by_deadline`: what the number of futures leaves open, not what the laws do."""
    high: float | None
    past_horizon: int
    """Futures that do not end within the horizon."""
    expected_end_seconds: float | None
    """None where a future passed the horizon: the mean is then unknown."""
    median_end_seconds: float | None
    late_end_seconds: float | None
    """95 of 100 futures end by then; None where that is past the horizon."""
    ettr: float
    """Effective training time ratio: useful / wall-clock seconds, mean over futures."""
    expected_failures: float
    best_interval: IntervalChoice
    spare_worth: SpareWorth
    costly_nodes: tuple[CostlyNode, ...]
    """Largest delay first, at most `MAX_COSTLY`; nodes without a delay are left out."""
    time_parts: tuple[TimePart, ...] = ()
    """What the time goes to."""
