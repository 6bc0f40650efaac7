"""The compiled kernel of several jobs at once, or its numpy twin where it is missing."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hyperscale.plan.tasks.assign_numpy import SumSearch
    from hyperscale.plan.tasks.pipe_numpy import PipeSearch
else:
    try:
        from hyperscale.plan.tasks._assign import PipeSearch, SumSearch
    except ImportError:
        from hyperscale.plan.tasks.assign_numpy import SumSearch
        from hyperscale.plan.tasks.pipe_numpy import PipeSearch

        warnings.warn("hyperscale.plan.tasks._assign is not compiled; the same answers take about 100 times as long", RuntimeWarning, 2)

__all__ = ["PipeSearch", "SumSearch"]
