"""What one reading of the metrics source gave, before it is turned into samples: plain series by figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from hyperscale.model.api.metric_queries import MetricQueries
from hyperscale.model.cluster import MetricsState

FIGURES: tuple[str, ...] = MetricQueries.__struct_fields__
"""Names of figures: the fields of `PolicySpec.queries`, in reading order."""

OPTIONAL: frozenset[str] = frozenset(FIGURES[FIGURES.index("link_loss") :])
"""Figures that many clusters rightly have no series for: `link_loss` and all that follow."""

NOT_CONFIGURED = MetricsState(available=False, reason="MetricsNotConfigured", message="no Prometheus URL is set: planning from labels only")


class Verdict(msgspec.Struct, frozen=True, rename="camel", gc=False, omit_defaults=True):
    """What the history of a series says of its newest point; a series without one is taken as it is."""

    fault: str | None = None
    """Why the point may not be used yet."""
    middle: float | None = None
    """Median of the last readings, in the query's unit, where that is the better figure."""
    confidence: float = 1.0
    """0..1; falls as the last readings differ."""
    frozen: bool = False
    """The value has been the same, bit by bit, over many scrapes."""


class Series(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """The newest point of one time series; nothing about it has been checked."""

    labels: dict[str, str]
    value: float
    """In the unit that the query gives; may be NaN or infinite."""
    timestamp: float
    """Unix seconds at which the value was scraped, where the source tells; else when the query was evaluated."""
    verdict: Verdict | None = None


class MetricsReading(msgspec.Struct, frozen=True, rename="camel"):
    """All figures read at one moment."""

    taken_at: float
    """Unix seconds by the caller's clock."""
    state: MetricsState = NOT_CONFIGURED
    series: Mapping[str, Sequence[Series]] = {}
    """By figure (see FIGURES); a figure that is off or failed is absent."""
