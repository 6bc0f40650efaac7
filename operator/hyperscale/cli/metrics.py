"""One reading of Prometheus for the command line; what fails there is said in the reading, never raised."""

from __future__ import annotations

from hyperscale.model.metrics import MetricsReading
from hyperscale.model.policy import PolicySpec


def read_metrics(url: str, policy: PolicySpec, now: float) -> MetricsReading:
    """All figures of the policy's queries; an empty reading that says why without a URL."""
    if not url:
        return MetricsReading(taken_at=now)
    from hyperscale.observe.prometheus import PrometheusReader

    return PrometheusReader(url).read(policy, now)
