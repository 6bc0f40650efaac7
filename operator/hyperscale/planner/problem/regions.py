"""Where the workers of a job may be together: everywhere, or inside one domain of a required or preferred level. Pure."""

from __future__ import annotations

from typing import Final

import numpy as np

from hyperscale.model import constants
from hyperscale.model.graph import IntArray
from hyperscale.planner.problem.placement_problem import Problem

MAX_DOMAINS: Final = 12
"""Domains searched, those with the fastest free nodes first."""


def regions(problem: Problem) -> list[IntArray]:
    """Sets of candidates (rising) to search one by one; empty where no domain of the required level is large enough."""
    everything = np.arange(len(problem.nodes))
    topology = problem.job.placement.topology
    if topology.required is not None:
        return _inside(problem, topology.required)
    if topology.preferred is not None:
        return [everything, *_inside(problem, topology.preferred)]
    return [everything]


def domains_of(problem: Problem, key: str) -> tuple[str, ...]:
    """(m,) domain of each candidate at the level of label `key`, "" without one.

    The levels above a level of the snapshot distinguish its domains (rack 1 of zone A is not rack 1 of zone B); any other key its value.
    """
    levels = problem.graph.snapshot.levels
    nodes = [problem.graph.nodes[position] for position in problem.nodes]
    if key not in levels:
        return tuple(node.labels.get(key, node.name if key == constants.HOSTNAME_LABEL else "") for node in nodes)
    level = levels.index(key)
    return tuple(node.domains[level] if level < len(node.domains) else "" for node in nodes)


def _inside(problem: Problem, key: str) -> list[IntArray]:
    """One region per domain that can host the fewest workers asked for and all pinned ranks."""
    counts = problem.counts()
    if not counts:
        return []
    domains = domains_of(problem, key)
    pinned = {domains[candidate] for _, candidate in problem.pinned}
    members: dict[str, list[int]] = {}
    for candidate, domain in enumerate(domains):
        if domain and pinned <= {domain}:
            members.setdefault(domain, []).append(candidate)
    scored: list[tuple[float, str]] = []
    for domain, inside in sorted(members.items()):
        if int(problem.slots[inside].sum()) + len(problem.pinned) >= counts[0]:
            scored.append((-_fastest(problem, inside, counts[-1]), domain))
    return [np.array(members[domain], dtype=np.int64) for _, domain in sorted(scored)[:MAX_DOMAINS]]


def _fastest(problem: Problem, inside: list[int], workers: int) -> float:
    """Summed speed of the fastest slots of a domain."""
    speeds = np.repeat(problem.flops_per_second[inside], problem.slots[inside])
    return float(np.sort(speeds)[::-1][:workers].sum())
