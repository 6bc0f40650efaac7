"""GPUs that plans hold before any bound pod shows it, by node: kept up to date job by job, so that asking costs nothing."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class Ledger(Generic[Key]):
    """Held GPUs of each job, and their sum by node."""

    def __init__(self) -> None:
        self._of_job: dict[Key, dict[str, int]] = {}
        self._by_node: dict[str, int] = {}

    def set(self, job: Key, held: Mapping[str, int]) -> bool:
        """What a job holds from now on, empty for nothing; whether it held something else before."""
        before = self._of_job.get(job, {})
        if before == held:
            return False
        for node, gpus in self._of_job.pop(job, {}).items():
            left = self._by_node[node] - gpus
            if left:
                self._by_node[node] = left
            else:
                del self._by_node[node]
        if held:
            self._of_job[job] = dict(held)
            for node, gpus in held.items():
                self._by_node[node] = self._by_node.get(node, 0) + gpus
        return True

    def held_by_others(self, job: Key | None) -> dict[str, int]:
        """GPUs by node that jobs other than `job` hold; nodes with none are left out."""
        own = self._of_job.get(job, {}) if job is not None else {}
        held = {node: gpus - own.get(node, 0) for node, gpus in self._by_node.items()}
        return {node: gpus for node, gpus in held.items() if gpus}
