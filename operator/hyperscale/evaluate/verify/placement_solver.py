"""Does a placement satisfy all constraints? z3 answers from pseudo-Boolean constraints, stated apart from the Python checker.

Every entry of a plan is a Boolean fact: "worker i is on node n", "position 3 of the ring holds worker 5". Facts hold always.
Each constraint holds under the assumption of its name.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Final

from hyperscale.evaluate.verify.normal_form import NO_DOMAIN, SHARE_SLACK, WHOLE_SHARE, Constraint, PlanFacts, PlanLimits
from hyperscale.evaluate.verify.solver import STEP_BUDGET, BooleanSolver, SolverBudgetError

MAX_WEIGHT: Final = 2**31 - 1
"""z3 takes weights of 32 bits."""


def unsatisfied(limits: PlanLimits, facts: PlanFacts) -> tuple[Constraint, ...]:
    """Return the constraints that the plan breaks, in their order; raises SolverMissingError and SolverBudgetError."""
    stated = _StatedPlan(limits, facts)
    for state in STATEMENTS.values():
        state(stated)
    broken = _broken(stated.solver)
    return tuple(constraint for constraint in Constraint if constraint in broken)


def _broken(solver: BooleanSolver) -> set[str]:
    """Facts leave no choice, so that each constraint is broken alone; a core only says where to look."""
    broken: set[str] = set()
    while not (holds := solver.satisfiable([name for name in solver.names if name not in broken])):
        if holds is None:
            raise SolverBudgetError(f"z3 has no answer within {STEP_BUDGET} steps: the plan has too many workers")
        core = solver.core()
        broken |= {name for name in core if not solver.satisfiable([name])} or set(core)
    return broken


class _StatedPlan:
    """A plan as facts in a solver."""

    def __init__(self, limits: PlanLimits, facts: PlanFacts) -> None:
        self.limits, self.facts, self.solver = limits, facts, BooleanSolver()
        self._variables: dict[Hashable, Any] = {}
        pins = set(limits.pins)
        self.arrives = [(worker.index, worker.node) not in pins for worker in facts.workers]
        self.gpus = sum(worker.gpus for worker in facts.workers)
        self.by_node: dict[int, list[int]] = {}
        for position, worker in enumerate(facts.workers):
            self.by_node.setdefault(worker.node, []).append(position)
        self.arrivals = {node: [at for at in places if self.arrives[at]] for node, places in self.by_node.items()}

    def entry(self, *key: Hashable) -> Any:  # noqa: ANN401 - z3 ships no types
        """Return the variable of a fact that the plan states."""
        if key not in self._variables:
            self._variables[key] = self.solver.variable()
            self.solver.fact(self._variables[key])
        return self._variables[key]

    def claim(self, constraint: Constraint, holds: bool) -> None:
        """Under the constraint, a comparison of two figures holds."""
        if holds:
            self.solver.literal(constraint)
        else:
            self.solver.never_under(constraint)

    def at_most(self, constraint: Constraint, weighted: Sequence[tuple[Any, int]], bound: int) -> None:
        """Under the constraint, the weights sum to at most the bound."""
        self.solver.under(constraint, self.solver.at_most(weighted, min(bound, MAX_WEIGHT)))

    def permutation(self, constraint: Constraint, entries: Sequence[int], size: int) -> None:
        """Each of 0 to size - 1 has exactly one position, and there are no other entries."""
        variables = [(self.entry(constraint, position), 1) for position in range(len(entries))]
        by_value: dict[int, list[tuple[Any, int]]] = {}
        for variable, entry in zip(variables, entries, strict=True):
            by_value.setdefault(entry, []).append(variable)
        self.solver.under(constraint, self.solver.exactly(variables, size))
        for value in range(size):
            self.solver.under(constraint, self.solver.exactly(by_value.get(value, []), 1))

    def in_order(self, constraint: Constraint, entries: Sequence[int], size: int) -> None:
        """Position p holds p, and there are `size` positions."""
        self.permutation(constraint, entries, size)
        for position, entry in enumerate(entries):
            self.claim(constraint, position == entry)


def _state_order(plan: _StatedPlan) -> None:
    workers = plan.facts.workers
    plan.in_order(Constraint.WORKERS, [worker.index for worker in workers], len(workers))
    plan.in_order(Constraint.RANKS, [rank for worker in workers for rank in worker.ranks], plan.gpus)
    plan.claim(Constraint.COUNT, len(workers) >= 1)
    variables = [(plan.entry("worker", position), 1) for position in range(len(workers))]
    plan.solver.under(Constraint.COUNT, plan.solver.at_least(variables, plan.limits.workers_min))
    plan.at_most(Constraint.COUNT, variables, plan.limits.workers_max)
    for worker in workers:
        plan.claim(Constraint.GPUS, worker.gpus == plan.limits.gpus_each == len(worker.ranks))


def _state_places(plan: _StatedPlan) -> None:
    limits, workers = plan.limits, plan.facts.workers
    places = {(worker.index, worker.node) for worker in workers}
    for node in plan.by_node:
        plan.claim(Constraint.PLACE, 0 <= node < len(limits.nodes))
    for pin in limits.pins:
        plan.claim(Constraint.PINS, pin in places)
    plan.claim(Constraint.PINS, True)
    for node, arrivals in plan.arrivals.items():
        for at in arrivals if 0 <= node < len(limits.nodes) else ():
            offers = limits.nodes[node]
            plan.claim(Constraint.OPEN, offers.takes_workers)
            plan.claim(Constraint.MEMORY, workers[at].rank_bytes <= offers.gpu_memory_bytes >= limits.memory_each_bytes)


def _state_room(plan: _StatedPlan) -> None:
    limits, workers = plan.limits, plan.facts.workers
    for node, arrivals in plan.arrivals.items():
        variables = [plan.entry("place", at, node) for at in arrivals]
        if not 0 <= node < len(limits.nodes):
            continue
        gpus = [(variable, workers[at].gpus) for variable, at in zip(variables, arrivals, strict=True)]
        plan.at_most(Constraint.CAPACITY, gpus, limits.nodes[node].gpus)
        for each, free in zip(limits.amounts_each, limits.nodes[node].amounts, strict=True):
            if each:  # a bound on the number of workers: bytes are beyond the weights of z3
                plan.at_most(Constraint.AMOUNTS, [(variable, 1) for variable in variables], free // each)


def _state_apart(plan: _StatedPlan) -> None:
    limits = plan.limits
    for node, positions in plan.by_node.items():
        if limits.apart:
            plan.at_most(Constraint.APART, [(plan.entry("place", at, node), 1) for at in positions], 1)
    if limits.one_domain:
        domains = sorted({limits.nodes[node].domain for node in plan.by_node if 0 <= node < len(limits.nodes)})
        plan.at_most(Constraint.DOMAIN, [(plan.entry("domain", domain), 1) for domain in domains], 1)
        plan.claim(Constraint.DOMAIN, NO_DOMAIN not in domains)


def _state_links(plan: _StatedPlan) -> None:
    limits, facts = plan.limits, plan.facts
    for source, destination in limits.dead:
        if source in plan.by_node and destination in plan.by_node and (plan.arrivals[source] or plan.arrivals[destination]):
            plan.solver.forbid(Constraint.DEAD_LINKS, plan.entry("used", source), plan.entry("used", destination))
    plan.permutation(Constraint.RING, facts.ring, len(facts.workers))
    place = {worker.index: worker.node for worker in reversed(facts.workers)}
    stops = [place[index] for index in facts.ring if index in place]
    unreachable = set(limits.unreachable)
    for hop in {(stop, stops[(at + 1) % len(stops)]) for at, stop in enumerate(stops)}:
        if hop in unreachable:
            plan.solver.forbid(Constraint.HOPS, plan.entry("hop", hop))


def _state_partitions(plan: _StatedPlan) -> None:
    limits, facts = plan.limits, plan.facts
    plan.claim(Constraint.PARTITIONS, facts.partitions == (limits.partitions_asked or plan.gpus))
    plan.permutation(Constraint.COVER, _flat(facts.parts_by_rank), facts.partitions)
    plan.claim(Constraint.EVEN, len(facts.parts_by_rank) == plan.gpus)
    for rank, parts in enumerate(facts.parts_by_rank):
        variables = [(plan.entry("part", rank, at), plan.gpus) for at in range(len(parts))]
        plan.solver.under(Constraint.EVEN, plan.solver.exactly(variables, facts.partitions))
    plan.permutation(Constraint.SCHEDULE, facts.schedule, limits.tensors)


def _state_sums(plan: _StatedPlan) -> None:
    limits, workers = plan.limits, plan.facts.workers
    if limits.quota_gpus is not None:
        new = [(plan.entry("arrives", at), worker.gpus) for at, worker in enumerate(workers) if plan.arrives[at]]
        plan.at_most(Constraint.QUOTA, new, limits.quota_gpus)
    shares = [(plan.entry("share", at), min(worker.share, MAX_WEIGHT)) for at, worker in enumerate(workers)]
    for worker in workers:
        plan.claim(Constraint.SHARES, 0 < worker.share <= WHOLE_SHARE + SHARE_SLACK)
    plan.at_most(Constraint.SHARES, shares, WHOLE_SHARE + SHARE_SLACK)
    plan.solver.under(Constraint.SHARES, plan.solver.at_least(shares, WHOLE_SHARE - SHARE_SLACK))
    tally = dict(plan.facts.ranks_by_node)
    plan.claim(Constraint.TALLY, len(tally) == len(plan.facts.ranks_by_node) and tally.keys() == plan.by_node.keys())
    for node, positions in plan.by_node.items():
        ranks = [(plan.entry("rank on", node, at, rank), 1) for at in positions for rank, _ in enumerate(workers[at].ranks)]
        plan.solver.under(Constraint.TALLY, plan.solver.exactly(ranks, tally.get(node, 0)))


def _flat(lists: Iterable[Sequence[int]]) -> list[int]:
    return [entry for entries in lists for entry in entries]


STATEMENTS: Final[dict[str, Callable[[_StatedPlan], None]]] = {
    "order": _state_order,
    "places": _state_places,
    "room": _state_room,
    "apart": _state_apart,
    "links": _state_links,
    "partitions": _state_partitions,
    "sums": _state_sums,
}
