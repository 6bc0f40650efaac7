"""Nodes by kind of GPU, from the slowest to the fastest. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.graph import ClusterGraph
from hyperscale.planner.problem.speeds import gpu_speeds

MOST_KINDS: Final = 4
"""Every job is placed on every kind; more are merged, the most alike first."""


@dataclass(frozen=True)
class Kinds:
    """The nodes of each kind."""

    nodes: tuple[frozenset[str], ...]

    def counted(self, gpus: Mapping[str, int]) -> tuple[int, ...]:
        """GPUs of each kind from GPUs by node."""
        return tuple(sum(count for name, count in gpus.items() if name in names) for names in self.nodes)


def kinds_of(graph: ClusterGraph, policy: PolicySpec) -> Kinds:
    """Nodes with GPUs by the speed of one; those of one product are of one kind."""
    groups: dict[float, set[str]] = {}
    for node, speed in zip(graph.nodes, gpu_speeds(list(graph.nodes), policy), strict=True):
        if node.allocatable_gpus > 0:
            groups.setdefault(speed.flops_per_second, set()).add(node.name)
    kinds = sorted(groups.items())
    while len(kinds) > MOST_KINDS:
        closest = min(range(1, len(kinds)), key=lambda place: kinds[place][0] / max(kinds[place - 1][0], 1e-30))
        kinds[closest - 1 : closest + 1] = [(kinds[closest][0], kinds[closest - 1][1] | kinds[closest][1])]
    return Kinds(tuple(frozenset(names) for _, names in kinds))
