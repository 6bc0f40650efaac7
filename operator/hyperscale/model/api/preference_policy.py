"""How far people's preferences may go: the types behind `PlannerPolicy.spec.preferences`."""

from __future__ import annotations

import enum
from typing import Annotated

from msgspec import Meta

from hyperscale.model.api.job import Spec
from hyperscale.model.api.written_numbers import DECIMAL


class PreferenceMode(enum.StrEnum):
    """What the weights that people's choices reveal are used for."""

    OFF = "Off"
    """Nothing; choices are kept in history all the same."""
    ADVISE = "Advise"
    """Name the alternative that the weights would choose."""
    APPLY = "Apply"
    """Also choose among plans that are equal within `tolerancePercent`."""


class WeightRange(Spec, frozen=True):
    """Bounds of one weight; the three weights sum to 1. The limits leave weights of sum 1 whatever is written."""

    min_weight: Annotated[float, Meta(ge=0, le=0.33, extra=DECIMAL)] = 0.05
    """Least weight, 0 to 0.33."""
    max_weight: Annotated[float, Meta(ge=0.34, le=1, extra=DECIMAL)] = 0.9
    """Largest weight, 0.34 to 1."""


class PreferenceBounds(Spec, frozen=True):
    """What an administrator allows the weights of a namespace to be."""

    time: WeightRange = WeightRange()
    cost: WeightRange = WeightRange()
    risk: WeightRange = WeightRange()
    """Of a node failure during the run."""

    @property
    def low(self) -> tuple[float, float, float]:
        """Least weights of time, cost and risk."""
        return self.time.min_weight, self.cost.min_weight, self.risk.min_weight

    @property
    def high(self) -> tuple[float, float, float]:
        """Largest weights of time, cost and risk."""
        return self.time.max_weight, self.cost.max_weight, self.risk.max_weight


class PreferencePolicy(Spec, frozen=True):
    """What choices of people (`hyperscale approve` and `prefer`) teach the planners, by namespace."""

    mode: PreferenceMode = PreferenceMode.OFF
    """What the weights are used for; they need history."""
    tolerance_percent: Annotated[int, Meta(ge=0, le=50)] = 5
    """With Apply: plans whose objective is within this of the best are chosen among by the weights."""
    bounds: PreferenceBounds = PreferenceBounds()
