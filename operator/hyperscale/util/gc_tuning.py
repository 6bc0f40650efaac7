"""How the interpreter looks for garbage in reference cycles without stopping the event loop for long.

A full collection goes through all objects in one piece: with 5,000 nodes that takes a tenth of a second, and as long again whenever the
number of young objects has grown by a quarter of the old ones. Here it comes often, and what it leaves alive is frozen: the next one goes
through objects made since then only. What becomes garbage after it was frozen is found by a thorough collection, which comes when far
more is frozen than the thorough one before had left. Types of which there are many, such as specs, statuses and pods, are part of no
cycle, and are kept out of all collections (`gc=False`).
"""

from __future__ import annotations

import contextlib
import gc
import logging
import time
from collections.abc import Iterator
from typing import Final

_LOG = logging.getLogger(__name__)

THRESHOLDS: Final = (700, 10, 3)
"""Net allocations before a collection of the youngest objects, and collections of each generation before one of the next.

A full collection meets about 30,000 objects.
"""
FULL: Final = 2
"""The oldest generation."""
GROWTH_RATIO: Final = 0.25
"""As CPython's own rule for full collections: the work stays proportional to the number of objects made."""
GROWTH_OBJECTS: Final = 100_000
"""Further growth that is no reason to look: 100,000 objects are some 20 MB."""


class Keeper:
    """Counts what is frozen."""

    def __init__(self) -> None:
        self._left = gc.get_freeze_count()
        """Frozen objects after the last thorough collection."""

    def keep(self) -> None:
        """Freeze everything: what is there now stays."""
        gc.collect()
        gc.freeze()
        self._left = gc.get_freeze_count()

    def overgrown(self) -> bool:
        """Whether so much was frozen since the last thorough collection that there may be garbage among it."""
        return gc.get_freeze_count() > (1 + GROWTH_RATIO) * self._left + GROWTH_OBJECTS

    def clean(self) -> int:
        """Look through everything, frozen objects too; the number of objects that were garbage. Takes a microsecond an object."""
        began = time.perf_counter()
        gc.unfreeze()
        garbage = gc.collect()
        gc.freeze()
        self._left = gc.get_freeze_count()
        _LOG.info("looked for garbage among %d objects in %.0f ms: %d", self._left + garbage, (time.perf_counter() - began) * 1e3, garbage)
        return garbage


@contextlib.contextmanager
def short_collections() -> Iterator[Keeper]:
    """Within, what a full collection leaves alive is frozen, and so is what there was before, such as modules."""
    before = gc.get_threshold()
    gc.freeze()
    gc.callbacks.append(_after)
    gc.set_threshold(*THRESHOLDS)
    try:
        yield Keeper()
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(_after)
        gc.unfreeze()


def _after(phase: str, info: dict[str, int]) -> None:
    if phase == "stop" and info["generation"] == FULL:
        gc.freeze()
