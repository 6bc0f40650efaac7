"""The smallest contradiction of a job that no placement can satisfy, in words with field paths and figures.

The search is over numbers of workers by node: workers of a job are alike, so that naming them would only multiply equal answers.
Every rule holds under an assumption. The answer is a set of rules of least size that cannot hold together (Ignatiev et al. 2015,
Smallest MUS Extraction).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import Any, Final, NamedTuple

import msgspec

from hyperscale.evaluate.verify.job_rules import JobRules, Rule, rules_of
from hyperscale.evaluate.verify.solver import BooleanSolver
from hyperscale.evaluate.verify.wording import statement
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.planning import PlanRequest

MAX_ROUNDS: Final = 200
"""Rounds of the search for a set of least size; after them the smallest set so far is reduced and given."""


class Clash(msgspec.Struct, frozen=True):
    """One of the rules that cannot hold together."""

    field: str
    """Path in the job, the pod, the node or the namespace that states it."""
    sentence: str


class Contradiction(msgspec.Struct, frozen=True):
    """Rules of which any but one can hold, and all together cannot."""

    clashes: tuple[Clash, ...]

    @property
    def sentence(self) -> str:
        """All rules in one line."""
        return "no placement exists: " + "; ".join(f"{clash.sentence} ({clash.field})" for clash in self.clashes)


def contradiction(request: PlanRequest, snapshot: ClusterSnapshot, quota_gpus: int | None = None) -> Contradiction | None:
    """Return the smallest contradiction of the request on the snapshot; None where none is proved.

    None does not promise a plan: a ring through links that exist in one direction only is checked by its components, not hop by hop.
    Raises SolverMissingError where z3 is not installed.
    """
    job = rules_of(request, snapshot, quota_gpus)
    if job.impossible:
        return _in_words(job, job.impossible)
    if job.arriving <= 0:
        return None
    solver = posed(job)
    names = [rule.name for rule in job.rules]
    if solver.satisfiable(names) is not False:
        return None
    smallest = _smallest(solver, names)
    return _in_words(job, [rule for rule in job.rules if rule.name in smallest])


def _in_words(job: JobRules, rules: Sequence[Rule]) -> Contradiction:
    return Contradiction(tuple(Clash(rule.field, statement(job, rule, rules)) for rule in rules))


class _Steps(NamedTuple):
    """Workers by node as variables: a step stands for the workers between two bounds that rules set on a node.

    Nodes that no rule tells apart share their steps: what one of them can take, all of them can.
    """

    by_node: dict[int, tuple[tuple[int, Any], ...]]
    """(bound, variable), lowest bound first; of the first of the nodes that share it."""
    weighted: tuple[tuple[Any, int], ...]
    """Every variable with the workers that it stands for."""


def posed(job: JobRules) -> BooleanSolver:
    """Return a solver with each rule under the assumption of its name; raises SolverMissingError."""
    solver = BooleanSolver()
    steps = _steps(job, solver)
    for rule in job.rules:
        solver.literal(rule.name)
        _pose_room(solver, rule, steps)
        _pose_groups(solver, rule, steps)
        for pair in rule.apart:
            _pose_apart(solver, rule, steps, pair, job.used)
        _pose_total(solver, rule, steps, job)
    return solver


def _pose_room(solver: BooleanSolver, rule: Rule, steps: _Steps) -> None:
    """No more workers on a node than the rule allows."""
    for node, own in steps.by_node.items() if rule.room else ():
        for _, variable in (step for step in own if step[0] > rule.room[node]):
            solver.forbid(rule.name, variable)


def _pose_total(solver: BooleanSolver, rule: Rule, steps: _Steps, job: JobRules) -> None:
    """Enough workers, and no more than may be: a placement of more holds one of exactly as many as are asked for."""
    if rule.least is not None:
        solver.under(rule.name, solver.at_least(steps.weighted, rule.least))
    for other in job.rules if rule.most is not None else ():
        if other.least is not None and rule.most is not None and rule.most < other.least:
            solver.forbid(rule.name, solver.literal(other.name))


def _steps(job: JobRules, solver: BooleanSolver) -> _Steps:
    by_node: dict[int, tuple[tuple[int, Any], ...]] = {}
    weighted: list[tuple[Any, int]] = []
    for nodes in _alike(job):
        bounds = {min(job.arriving, rule.room[nodes[0]]) for rule in job.rules if rule.room} | {job.arriving}
        own = tuple((bound, solver.variable()) for bound in sorted(bounds - {0}))
        for (_, lower), (_, upper) in pairwise(own):
            solver.fact(solver.z3.Implies(upper, lower))
        below = 0
        for bound, variable in own:
            weighted.append((variable, (bound - below) * len(nodes)))
            below = bound
        by_node[nodes[0]] = own
    return _Steps(by_node, tuple(weighted))


def _alike(job: JobRules) -> list[list[int]]:
    """Nodes that no rule tells apart, together; a node with a dead link is alone."""
    alone = {node for rule in job.rules for pair in rule.apart for node in pair}
    alike: dict[tuple[int, ...], list[int]] = {}
    for node in range(len(job.nodes)):
        rooms = tuple(min(job.arriving, rule.room[node]) for rule in job.rules if rule.room)
        groups = tuple(rule.groups[node] for rule in job.rules if rule.groups)
        alike.setdefault((*rooms, *groups, node if node in alone else -1), []).append(node)
    return list(alike.values())


def _pose_apart(solver: BooleanSolver, rule: Rule, steps: _Steps, pair: tuple[int, int], used: frozenset[int]) -> None:
    """Not both nodes have workers; where both have pinned workers, neither takes another."""
    new = [node for node in pair if node not in used]
    for nodes in [new] if new else [[node] for node in pair]:
        solver.forbid(rule.name, *(steps.by_node[node][0][1] for node in nodes))


def _pose_groups(solver: BooleanSolver, rule: Rule, steps: _Steps) -> None:
    """All workers are on nodes of one group."""
    if not rule.groups:
        return
    chosen = {group: solver.variable() for group in sorted(set(rule.groups))}
    solver.under(rule.name, solver.at_most([(variable, 1) for variable in chosen.values()], 1))
    for node, own in steps.by_node.items():
        solver.fact(solver.z3.Implies(own[0][1], chosen[rule.groups[node]]))
    for group in rule.fixed_groups:
        solver.fact(chosen[group])


def _smallest(solver: BooleanSolver, names: Sequence[str]) -> frozenset[str]:
    """A set of least size among the unsatisfiable ones: hitting sets of what has to be left out, smallest first."""
    corrections: list[frozenset[str]] = []
    for _ in range(MAX_ROUNDS):
        candidate = _hitting_set(names, corrections)
        if solver.satisfiable(candidate) is False:
            return frozenset(candidate)
        kept = list(candidate)
        for name in names:
            if name not in kept and solver.satisfiable([*kept, name]):
                kept.append(name)
        corrections.append(frozenset(names) - frozenset(kept))
    return _reduced(solver, names)


def _hitting_set(names: Sequence[str], corrections: Sequence[frozenset[str]]) -> tuple[str, ...]:
    """The first of the smallest sets that share a name with every correction."""
    useful = [name for name in names if any(name in each for each in corrections)]
    for size in range(len(useful) + 1):
        for candidate in combinations(useful, size):
            if all(each.intersection(candidate) for each in corrections):
                return candidate
    return tuple(useful)


def _reduced(solver: BooleanSolver, names: Sequence[str]) -> frozenset[str]:
    """A set from which nothing can be left out."""
    kept = list(names)
    for name in names:
        without = [other for other in kept if other != name]
        if solver.satisfiable(without) is False:
            kept = without
    return frozenset(kept)
