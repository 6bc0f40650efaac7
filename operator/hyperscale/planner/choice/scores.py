"""What all planners proposed: one that fails loses nothing of the others; how each did, how far from optimal the best can be. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from hyperscale.model.plan import MAX_SCORES, PlannerScore
from hyperscale.planner.check.artifact import rounded
from hyperscale.planner.problem.placement_problem import Problem
from hyperscale.planner.search.heuristic import Expired
from hyperscale.planner.search.search_result import Candidate


class ProposingPlanner(Protocol):
    """A source of placements; what it proposes is scored and checked like everyone's."""

    @property
    def name(self) -> str:
        """As Plan.planner has it: Heuristic or Learned."""

    def candidates(self, problem: Problem, expired: Expired) -> Iterable[Candidate]:
        """Placements of `problem`, in any order; soon after `expired` turns true it must stop. May be `Bounded` as well."""


@runtime_checkable
class Bounded(Protocol):
    """Placements of a planner that also knows what none can beat."""

    lower_bound: float | None
    """Objective, seconds, over all worker counts that the problem allows; None where it does not know."""


@dataclass(frozen=True)
class Proposals:
    """Everything proposed for one problem."""

    candidates: tuple[tuple[Candidate, str], ...]
    """Placements with their planner's name, in the planners' order."""
    lower_bound: float | None
    """The best proven one."""
    steps: tuple[str, ...]
    """<planner>Failed for each that raised."""


def propose(problem: Problem, planners: Sequence[ProposingPlanner], expired: Expired) -> Proposals:
    """Ask every planner, once time is up only until one has proposed something.

    Raises what the last of them raised where none proposes anything and some failed.
    """
    placements: list[tuple[Candidate, str]] = []
    bounds: list[float] = []
    steps: list[str] = []
    trouble: Exception | None = None
    for planner in planners:
        if placements and expired():
            break
        try:
            proposed = planner.candidates(problem, expired)
            own = [(candidate, planner.name) for candidate in proposed]
        except MemoryError:
            raise
        except Exception as error:  # whatever a planner does, the others' placements count
            trouble = error
            steps.append(f"{planner.name}Failed")
            continue
        placements += own
        if isinstance(proposed, Bounded) and proposed.lower_bound is not None:
            bounds.append(proposed.lower_bound)
    if trouble is not None and not placements:
        raise trouble
    return Proposals(tuple(placements), max(bounds, default=None), tuple(steps))


def scores(proposed: Sequence[tuple[Candidate, str]], winner: str, objective: float) -> tuple[PlannerScore, ...]:
    """How every planner did beside the plan by `winner` with `objective` seconds; the winner first, then by objective and name."""
    best: dict[str, float] = {}
    count: dict[str, int] = {}
    for candidate, name in proposed:
        best[name] = min(best.get(name, math.inf), candidate.objective)
        count[name] = count.get(name, 0) + 1
    best[winner] = objective
    ranked = sorted(best, key=lambda name: (name != winner, best[name], name))
    # A placement that the check refused, or that a preferred domain outweighed, may be below the plan's own: no regret then.
    return tuple(
        PlannerScore(name, rounded(best[name]), rounded(max(0.0, best[name] / objective - 1.0)), count.get(name, 0))
        for name in ranked[:MAX_SCORES]
        if math.isfinite(best[name])
    )


def gap(objective: float, lower_bound: float | None) -> float | None:
    """Objective / lower bound − 1, never below 0: what is less is rounding. None without a bound."""
    if lower_bound is None or not math.isfinite(lower_bound) or lower_bound <= 0.0:
        return None
    above = objective / lower_bound - 1.0
    return 0.0 if above < PROVEN else rounded(above)


PROVEN = 1e-8
"""A gap below this is none: figures are rounded to nine digits."""
