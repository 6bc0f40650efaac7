"""The compiled kernel of several jobs at once, or its numpy twin where it is missing."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hyperscale.planner.assign.assign_numpy import SumSearch
    from hyperscale.planner.assign.pipe_numpy import PipeSearch
else:
    try:
        from hyperscale.planner.assign._assign import PipeSearch, SumSearch
    except ImportError:
        from hyperscale.planner.assign.assign_numpy import SumSearch
        from hyperscale.planner.assign.pipe_numpy import PipeSearch

        warnings.warn("hyperscale.planner.assign._assign is not compiled; the same answers take about 100 times as long", RuntimeWarning, 2)

__all__ = ["PipeSearch", "SumSearch"]
