"""One broken installation: how to break it, how to repair it, and the fix that the doctor must name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.api.doctor_site import Site


@dataclass(frozen=True)
class Broken:
    """One way in which an installation is broken."""

    name: str
    break_it: Callable[[Site], None]
    mend: Callable[[Site], None]
    fault: str
    fix: tuple[str, ...]
    """Texts that the fix must contain."""
    code: int = 4
    arguments: tuple[str, ...] = ()
    also: frozenset[str] = frozenset()
    """Further findings that the same cause may have."""
    runs: bool = False
    """The fix is a command: it is run as printed, and the fault must be gone."""
