"""What plans hold before any bound pod shows it: kept up to date job by job, so that asking costs nothing."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from typing import Final, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
THOUSANDTHS: Final = 1000
"""Amounts are kept in whole thousandths, so that sums come back to nothing when all is given back."""


class GpuReservations(Generic[Key]):
    """Held GPUs of each job, and their sum by node."""

    def __init__(self) -> None:
        self._of_job: dict[Key, dict[str, int]] = {}
        self._by_node: dict[str, int] = {}

    def set(self, job: Key, gpus_by_node: Mapping[str, int]) -> bool:
        """What a job holds from now on, empty for nothing; whether it held something else before."""
        before = self._of_job.get(job, {})
        if before == gpus_by_node:
            return False
        for node, gpus in self._of_job.pop(job, {}).items():
            left = self._by_node[node] - gpus
            if left:
                self._by_node[node] = left
            else:
                del self._by_node[node]
        if gpus_by_node:
            self._of_job[job] = dict(gpus_by_node)
            for node, gpus in gpus_by_node.items():
                self._by_node[node] = self._by_node.get(node, 0) + gpus
        return True

    def held_by_others(self, job: Key | None) -> dict[str, int]:
        """GPUs by node that jobs other than `job` hold; nodes with none are left out."""
        own = self._of_job.get(job, {}) if job is not None else {}
        reserved = {node: gpus - own.get(node, 0) for node, gpus in self._by_node.items()}
        return {node: gpus for node, gpus in reserved.items() if gpus}


class _Share:
    """Workers of one job by node, and what each takes by resource name."""

    def __init__(self, workers: Mapping[str, int], each: Mapping[str, int]) -> None:
        self.workers = dict(workers)
        self.each = dict(each)


NOTHING: Final = _Share({}, {})


class Reservations(Generic[Key]):
    """Held resources other than GPUs; of thousands of ranks one is bound at a time, and only its node is counted again."""

    def __init__(self) -> None:
        self._of_job: dict[Key, _Share] = {}
        self._by_node: dict[str, dict[str, int]] = {}
        self._shown: dict[str, dict[str, float]] = {}
        """The same as others read it."""

    def set(self, job: Key, workers: Mapping[str, int], amounts: Mapping[str, float]) -> None:
        """What a job holds from now on: the number of workers on each node, of which each takes these amounts."""
        each = {name: whole for name, amount in amounts.items() if (whole := round(amount * THOUSANDTHS)) > 0}
        before, after = self._of_job.get(job, NOTHING), _Share(workers, each)
        same = before.each == after.each
        for node in {*before.workers, *after.workers}:
            left, come = before.workers.get(node, 0), after.workers.get(node, 0)
            if not same or left != come:
                self._add(node, before.each, -left)
                self._add(node, after.each, come)
        if workers:
            self._of_job[job] = after
        else:
            self._of_job.pop(job, None)

    def held_by_others(self, job: Key | None, nodes: Collection[str] | None = None) -> dict[str, dict[str, float]]:
        """By node and resource name what jobs other than `job` hold; of these `nodes` alone where they are given."""
        own = self._of_job.get(job, NOTHING) if job is not None else NOTHING
        reserved = dict(self._shown) if nodes is None else {node: self._shown[node] for node in nodes if node in self._shown}
        for node, workers in own.workers.items():
            if node in reserved:
                left = {name: amount - own.each.get(name, 0) * workers for name, amount in self._by_node[node].items()}
                reserved[node] = _shown(left)
                if not reserved[node]:
                    del reserved[node]
        return reserved

    def _add(self, node: str, each: Mapping[str, int], workers: int) -> None:
        amounts = self._by_node.setdefault(node, {})
        for name, amount in each.items() if workers else ():
            amounts[name] = amounts.get(name, 0) + amount * workers
            if not amounts[name]:
                del amounts[name]
        if amounts:
            self._shown[node] = _shown(amounts)
        else:
            del self._by_node[node]
            self._shown.pop(node, None)


def _shown(amounts: Mapping[str, int]) -> dict[str, float]:
    """Amounts as others read them, without what is nothing."""
    return {name: amount / THOUSANDTHS for name, amount in sorted(amounts.items()) if amount}
