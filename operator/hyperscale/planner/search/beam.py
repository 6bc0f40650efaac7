"""Beam search for starts: where links have no structure, the best of many half-built rings lead further than greedy from any node. Pure."""

from __future__ import annotations

from typing import Final

import numpy as np

from hyperscale.model.graph import IntArray
from hyperscale.planner.cost.objective import Costs
from hyperscale.planner.search.kernels import kernel

try:
    from hyperscale.planner.search.kernels import _beam
except ImportError:  # pragma: no cover - planner/search/kernels/kernel.py has warned
    _beam = None  # type: ignore[assignment] # the numpy path asks

ELEMENTS: Final = 59_000_000
"""Numbers that a beam may touch, sets × candidates × workers²; some milliseconds."""
KEPT: Final = 96
"""Sets that are handed on, at most: behind them come near relatives."""
RING_PLACES: Final = 5_000
"""Places tried for the best ring of a set that may be the best of all. A path grew as a ring, but seldom as its set's best."""
RING_WORK: Final = 200_000
"""Inner steps of that for all sets together, a millisecond or two."""
TYPICAL: Final = 2.0
"""Links that count as if all paths had the same number: a path's first links are the cheapest and say little of the rest."""
FAIR_WORKERS: Final = 16
"""With more workers a path is taken for a fair sample: narrow beams lose the right part of a cluster with structure otherwise."""
LEAST_WIDTH: Final = 8
"""A narrower one is little better than greedy."""


def beam_sets(costs: Costs, slots: IntArray, workers: int, width: int, kept: int = KEPT) -> IntArray:
    """(B, k) at most `kept` different sets, best first and each in a good ring order; none without the compiled kernel.

    width: paths that continue at every length. Numpy has no twin of the beam: it continues from greedy's starts.
    """
    width = min(width, ELEMENTS // (len(slots) * workers * workers))
    compiled = kernel.kernel_for(costs, slots, workers) if _beam is not None and width >= LEAST_WIDTH else None
    if compiled is None:
        return np.zeros((0, workers), dtype=np.int64)
    orders = np.zeros((width, workers), dtype=np.int32)
    paths = orders[: _beam.beam(compiled, orders, TYPICAL if workers <= FAIR_WORKERS else 0.0)]
    seconds = np.empty(len(paths))
    compiled.close(paths, seconds, RING_PLACES, RING_WORK)
    return kernel.rings(costs, paths[np.argsort(seconds, kind="stable")[:kept]].astype(np.int64))
