"""The compiled search, or what is left without it: METIS's parts as they are."""

from __future__ import annotations

import warnings
from typing import Final

try:
    from hyperscale.training.partition import _halos as halos
    from hyperscale.training.partition import _independent as seeds
    from hyperscale.training.partition import _refine as search

    COMPILED: Final = True
except ImportError:  # pragma: no cover - a machine without a C compiler
    COMPILED = False  # type: ignore[misc] # one of the two
    halos = seeds = search = None  # type: ignore[assignment] # importers name them whether they use them or not
    warnings.warn("the compiled partition search is missing: parts stay as METIS makes them, and worse", RuntimeWarning, stacklevel=1)

__all__ = ["COMPILED", "halos", "search", "seeds"]
