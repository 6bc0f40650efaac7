"""What a search needs of an instance."""

from __future__ import annotations

from typing import Protocol

from hyperscale.model.graph import IntArray
from hyperscale.planner.cost.objective import Costs


class Arena(Protocol):
    """One job and its candidates."""

    @property
    def costs(self) -> Costs:
        """Of m candidates."""

    @property
    def slots(self) -> IntArray:
        """(m,) workers that each can take."""

    @property
    def workers(self) -> int:
        """Workers to place."""
