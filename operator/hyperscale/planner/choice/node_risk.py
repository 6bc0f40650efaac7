"""The risk that a node fails before a run ends, and how people's weights see it. Pure."""

from __future__ import annotations

import math
from typing import Final

from hyperscale.model.offers.plan_offers import LEAST_RISK

FAILURES_PER_NODE_SECOND: Final = 6.50 / 1000.0 / 86400.0
"""6.50 failures per 1,000 node-days (RSC-1, arXiv 2410.21680)."""


def node_failure_risk(nodes: int, seconds: float) -> float:
    """Return the probability that one of the nodes fails within the time: 1 - exp(-rate x nodes x seconds)."""
    return -math.expm1(-FAILURES_PER_NODE_SECOND * nodes * seconds)


def weighed_risk(risk: float) -> float:
    """Return the natural logarithm of a risk as answers of people are read: those below LEAST_RISK are equal."""
    return math.log(max(risk, LEAST_RISK))
