"""Counts what had to be left out, so that nothing is dropped silently. Pure."""

from __future__ import annotations

from typing import Final

EXAMPLES: Final = 3
MAX_TEXT: Final = 63


class Tally:
    """Counts by kind of fault, with a few names each."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._names: dict[str, set[str]] = {}

    def add(self, fault: str, name: str) -> None:
        """Count one occurrence of `fault` at `name`."""
        self._counts[fault] = self._counts.get(fault, 0) + 1
        names = self._names.setdefault(fault, set())
        if len(names) < 1000:
            names.add(name[:MAX_TEXT])

    def count(self, fault: str) -> int:
        """Occurrences of `fault` so far."""
        return self._counts.get(fault, 0)

    def notes(self) -> tuple[str, ...]:
        """One sentence per kind of fault, sorted: "12 GPU series name no node of this cluster (gpu-1, gpu-2, ...)"."""
        return tuple(f"{self._counts[fault]} {fault} ({self._examples(fault)})" for fault in sorted(self._counts))

    def _examples(self, fault: str) -> str:
        names = sorted(self._names[fault])
        return ", ".join(names[:EXAMPLES]) + (", ..." if len(names) > EXAMPLES else "")
