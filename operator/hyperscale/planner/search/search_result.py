"""What a search finds: placements, and what none can beat."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, order=True)
class Candidate:
    """One placement: candidates of the problem in ring order. Compares by objective, then fewer workers, then names."""

    objective: float
    workers: int
    names: tuple[str, ...]
    order: tuple[int, ...] = field(compare=False)


@dataclass(frozen=True)
class SearchResult:
    """Placements of one problem, and what none can beat over all worker counts that it allows; None where that is unknown."""

    placements: tuple[Candidate, ...]
    lower_bound: float | None

    def __iter__(self) -> Iterator[Candidate]:
        """The placements, best first of each region."""
        return iter(self.placements)
