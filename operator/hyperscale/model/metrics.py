"""What one reading of the metrics source gave, before it is turned into samples: plain series by figure."""

from __future__ import annotations

import msgspec

from hyperscale.model.cluster import MetricsState

FIGURES: tuple[str, ...] = (
    "gpu_utilization",
    "memory_used",
    "memory_free",
    "memory_reserved",
    "temperature",
    "power",
    "xid",
    "link_latency",
    "link_bandwidth",
)
"""Names of figures: the fields of `PolicySpec.queries`, in reading order."""

NOT_CONFIGURED = MetricsState(available=False, reason="MetricsNotConfigured", message="no Prometheus URL is set: planning from labels only")


class Series(msgspec.Struct, frozen=True, rename="camel"):
    """The newest point of one time series; nothing about it has been checked."""

    labels: dict[str, str]
    value: float
    """In the unit that the query gives; may be NaN or infinite."""
    timestamp: float
    """Unix seconds at which the value was scraped, where the source tells; else when the query was evaluated."""


class MetricsReading(msgspec.Struct, frozen=True, rename="camel"):
    """All figures read at one moment."""

    taken_at: float
    """Unix seconds by the caller's clock."""
    state: MetricsState = NOT_CONFIGURED
    series: dict[str, tuple[Series, ...]] = {}
    """By figure (see FIGURES); a figure that is off or failed is absent."""
