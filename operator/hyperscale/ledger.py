"""What plans hold before any bound pod shows it: kept up to date job by job, so that asking costs nothing."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Slot = TypeVar("Slot", bound=Hashable)


class Ledger(Generic[Key, Slot]):
    """Whole amounts held by each job, and their sum by slot: a node, or a resource of a node."""

    def __init__(self) -> None:
        self._of_job: dict[Key, dict[Slot, int]] = {}
        self._by_slot: dict[Slot, int] = {}

    def set(self, job: Key, held: Mapping[Slot, int]) -> bool:
        """What a job holds from now on, empty for nothing; whether it held something else before."""
        before = self._of_job.get(job, {})
        if before == held:
            return False
        for slot, amount in self._of_job.pop(job, {}).items():
            left = self._by_slot[slot] - amount
            if left:
                self._by_slot[slot] = left
            else:
                del self._by_slot[slot]
        if held:
            self._of_job[job] = dict(held)
            for slot, amount in held.items():
                self._by_slot[slot] = self._by_slot.get(slot, 0) + amount
        return True

    def held_by_others(self, job: Key | None) -> dict[Slot, int]:
        """Amounts by slot that jobs other than `job` hold; slots with none are left out."""
        own = self._of_job.get(job, {}) if job is not None else {}
        held = {slot: amount - own.get(slot, 0) for slot, amount in self._by_slot.items()}
        return {slot: amount for slot, amount in held.items() if amount}
