"""What plans hold before any bound pod shows it: kept up to date job by job, so that asking costs little."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Amounts = Mapping[str, int]
"""Whole units by resource name, so that sums come back to nothing when all is given back."""


class Reservations(Generic[Key]):
    """Held resources of each job, and their sum by node.

    Of thousands of ranks one is bound at a time, and only its node is counted again.
    """

    def __init__(self) -> None:
        self._of_job: dict[Key, Mapping[str, Amounts]] = {}
        self._by_node: dict[str, dict[str, int]] = {}

    def set(self, job: Key, by_node: Mapping[str, Amounts]) -> bool:
        """What a job holds from now on, empty for nothing; whether it held something else before."""
        before = self._of_job.pop(job, {})
        if by_node:
            self._of_job[job] = by_node
        changed = [node for node in {*before, *by_node} if before.get(node) != by_node.get(node)]
        for node in changed:
            left = _sum(self._by_node.pop(node, {}), before.get(node, {}), -1)
            if amounts := _sum(left, by_node.get(node, {})):
                self._by_node[node] = amounts
        return bool(changed)

    def held_by_others(self, job: Key | None, nodes: Collection[str] | None = None) -> dict[str, dict[str, int]]:
        """By node and resource name what jobs other than `job` hold; of these `nodes` alone where they are given."""
        own = self._of_job.get(job, {}) if job is not None else {}
        asked = self._by_node if nodes is None else self._by_node.keys() & nodes
        reserved = {node: _sum(self._by_node[node], own.get(node, {}), -1) for node in asked}
        return {node: amounts for node, amounts in reserved.items() if amounts}


def _sum(one: Amounts, other: Amounts, factor: int = 1) -> dict[str, int]:
    """`one` and `factor` times `other`, sorted, without what is nothing."""
    sums = {name: one.get(name, 0) + factor * other.get(name, 0) for name in sorted({*one, *other})}
    return {name: amount for name, amount in sums.items() if amount}
