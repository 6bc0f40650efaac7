"""Energy of a job's GPUs until it ends, from the board power of their products. Hosts, switches and cooling are not in it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.evaluation import Interval
from hyperscale.model.graph import FloatArray
from hyperscale.model.plan import Plan
from hyperscale.model.products import stated

BOARD_WATTS: Final[Mapping[str, float]] = {
    "A10": 150.0,
    "A100": 400.0,
    "A100-PCIE": 250.0,
    "A100-80GB-PCIE": 300.0,
    "A30": 165.0,
    "A40": 300.0,
    "B200": 1000.0,
    "GeForce-RTX-3090": 350.0,
    "GeForce-RTX-4090": 450.0,
    "H100": 700.0,
    "H100-NVL": 400.0,
    "H100-PCIE": 350.0,
    "H200": 700.0,
    "H200-NVL": 600.0,
    "L4": 72.0,
    "L40": 300.0,
    "L40S": 350.0,
    "RTX-6000-Ada": 300.0,
    "RTX-A6000": 300.0,
    "T4": 70.0,
    "P100": 300.0,
    "P100-PCIE": 250.0,
    "Tesla-P100": 300.0,
    "Tesla-P100-PCIE": 250.0,
    "Tesla-T4": 70.0,
    "Tesla-V100": 300.0,
    "Tesla-V100-PCIE": 250.0,
    "Tesla-V100S": 250.0,
    "V100": 300.0,
    "V100-PCIE": 250.0,
}
"""Most that a board takes, by prefix of nvidia.com/gpu.product: NVIDIA's data sheets of the products."""
IDLE_RATIO: Final = 0.15
"""Power of an idle GPU / board power: an H100 SXM idles at 70 to 110 W, an A100 SXM at 50 to 60 W."""
JOULES_A_KILOWATT_HOUR: Final = 3.6e6


def board_watts(product: str | None, policy: PolicySpec) -> float | None:
    """Return the most that one GPU takes; the policy comes before the built-in table. None for a product that neither has."""
    own = stated(product, {model.product: model.board_power_watts for model in policy.gpus})
    return own if own is not None else stated(product, BOARD_WATTS)


def energy(plan: Plan, end: Interval, policy: PolicySpec, ends_seconds: FloatArray, computing_seconds: FloatArray) -> Interval | None:
    """Return kilowatt-hours of the planned GPUs from the first epoch to the end.

    ends_seconds, computing_seconds: (n,) each, of simulated futures; `end` is the interval of those ends, perhaps recalibrated.
    From idle power to board power. In the middle is the middle future: a GPU takes more the more of an epoch it computes, and idles
    while checkpoints are written and nodes are missing. None where a product is unknown.
    """
    watts = 0.0
    for worker in plan.workers:
        each = board_watts(worker.product, policy)
        if each is None:
            return None
        watts += worker.gpus * each
    predicted = plan.predicted
    busy = 1.0 - min(1.0, max(0.0, predicted.communication_seconds / predicted.epoch_seconds)) if predicted.epoch_seconds > 0.0 else 1.0
    loads = IDLE_RATIO * ends_seconds + (1.0 - IDLE_RATIO) * busy * computing_seconds
    # Each future alone: a few with long repairs say nothing of how the middle one computes.
    middle = _middle(loads) * (end.middle / _middle(ends_seconds))
    figures = [watts * seconds / JOULES_A_KILOWATT_HOUR for seconds in (middle, IDLE_RATIO * end.low, end.high)]
    return Interval(*figures) if all(math.isfinite(figure) for figure in figures) else None


def _middle(seconds: FloatArray) -> float:
    """The one in the middle of (n,) values, the later of two: as the ends' interval takes it."""
    return float(np.sort(seconds)[len(seconds) // 2])
