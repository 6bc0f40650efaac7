"""Tables of units from stated laws, written apart from the fit: places whose units fail and are replaced until the records end."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

HEADER = "location,insert,remove,cause"


class Family(NamedTuple):
    """A law to draw lives from, with a mean of about 1."""

    name: str
    family: str
    shape: float | None
    life: Callable[[random.Random], float]


FAMILIES = (
    Family("exponential", "exponential", None, lambda dice: dice.expovariate(1.0)),
    Family("Weibull 0.7", "weibull", 0.7, lambda dice: dice.weibullvariate(0.79, 0.7)),
    Family("Weibull 2.6", "weibull", 2.6, lambda dice: dice.weibullvariate(1.126, 2.6)),
    Family("lognormal 0.8", "lognormal", 0.8, lambda dice: dice.lognormvariate(-0.32, 0.8)),
    Family("gamma 4", "gamma", 4.0, lambda dice: dice.gammavariate(4.0, 0.25)),
)


BATHTUB = Family(
    "early and late failures",
    "empirical",
    None,
    lambda dice: dice.weibullvariate(0.2, 0.7) if dice.random() < 0.3 else dice.weibullvariate(1.45, 5.0),
)
"""No single family: three units in ten have an early fault, the others wear out."""
MEAN_HOURS = 2000.0


def table(family: Family, units: int, seed: int, mean_lives: float = 4.0) -> list[str]:
    """Lines of CSV with at least `units` units: places begin within the first half mean life, and the records end after `mean_lives`.

    One unit in twenty is removed healthy by an upgrade, at a moment that says nothing of its life.
    """
    dice = random.Random(seed)  # noqa: S311 - a simulation
    end = mean_lives * MEAN_HOURS
    lines: list[str] = []
    place = 0
    while len(lines) < units:
        now = dice.uniform(0.0, 0.5 * MEAN_HOURS)
        while now < end:
            life, upgrade = family.life(dice) * MEAN_HOURS, dice.expovariate(0.05) * MEAN_HOURS
            removed, cause = now + min(life, upgrade), "gpu" if life <= upgrade else "upgrade"
            lines.append(f"node-{place},{now:.6f},{removed:.6f},{cause}" if removed < end else f"node-{place},{now:.6f},,")
            now = removed + 1e-3
        place += 1
    return [HEADER, *lines]
