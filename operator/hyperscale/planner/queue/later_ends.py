"""The ends of running jobs that pending ones may wait for, and what is free then. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import msgspec

from hyperscale.model.admission_query import LATER_ENDS, Claim
from hyperscale.model.plan import Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.check.drained_snapshot import added
from hyperscale.planner.problem.amounts import amounts_of
from hyperscale.planner.queue.queue_types import ArrivalHistory
from hyperscale.planner.queue.rule import RuleSettings, enough_sooner

Ending = tuple[float, Mapping[str, Claim]]
"""Seconds until a job ends, and what it leaves by node."""


@dataclass(frozen=True)
class LaterEnd:
    """The end of one running job, and of those that end before it."""

    wait_seconds: float
    left: Mapping[str, Claim]
    """What jobs leave by node that ran before this decision."""
    unplanned: Mapping[str, Claim]
    """The same of jobs that this decision starts: of what it has counted as taken."""

    @cached_property
    def key(self) -> bytes:
        """What the cluster then depends on, apart from what is free now."""
        return msgspec.msgpack.encode((self.left, self.unplanned))

    @property
    def freed_gpus(self) -> int:
        """GPUs that all of them leave, at least one."""
        return max(1, sum(claim.gpus for claims in (self.left, self.unplanned) for claim in claims.values()))


def later_ends(running: Iterable[Ending], started: Iterable[Ending]) -> tuple[LaterEnd, ...]:
    """The next ends, LATER_ENDS of them, `started` by this decision; not of jobs of which it is unknown what they leave."""
    none: Mapping[str, Claim] = {}
    single = [LaterEnd(seconds, claims, none) for seconds, claims in running if claims]
    single += [LaterEnd(seconds, none, claims) for seconds, claims in started]
    ends = [LaterEnd(0.0, none, none)]
    for end in sorted(single, key=lambda end: end.wait_seconds)[:LATER_ENDS]:
        ends.append(LaterEnd(end.wait_seconds, added((ends[-1].left, end.left)), added((ends[-1].unplanned, end.unplanned))))
    return tuple(ends[1:])


class LaterTerms(NamedTuple):
    """For which jobs later starts are looked for: each costs placements."""

    settings: RuleSettings
    past: ArrivalHistory
    exact: bool
    """Whether the agent, which sees how much sooner a job ends, is asked too; else only what lets the rule wait matters."""

    def enough(self, best_seconds: float) -> float:
        """How many times sooner the job must end."""
        return 1.0 if self.exact else enough_sooner(best_seconds, self.past, self.settings)


def claims_of_plan(request: PlanRequest, plan: Plan) -> dict[str, Claim]:
    """What the plan takes by node: GPUs, and the rest by resource name."""
    amounts = amounts_of(request)
    return added({worker.node: Claim(worker.gpus, further=amounts)} for worker in plan.workers)
