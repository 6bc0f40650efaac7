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


def table(family: Family, units: int, seed: int, mean_hours: float = 2000.0) -> list[str]:
    """Lines of CSV with at least `units` units: places begin within the first half mean life, and the records end after two.

    One unit in twenty is removed healthy at a random moment of its life, by an upgrade.
    """
    dice = random.Random(seed)  # noqa: S311 - a simulation
    end = 2.0 * mean_hours
    lines: list[str] = []
    place = 0
    while len(lines) < units:
        now = dice.uniform(0.0, 0.5 * mean_hours)
        while now < end:
            life = family.life(dice) * mean_hours
            cause = "gpu"
            if dice.random() < 0.05:
                life, cause = life * dice.uniform(0.05, 0.95), "upgrade"
            removed = now + life
            lines.append(f"node-{place},{now:.6f},{removed:.6f},{cause}" if removed < end else f"node-{place},{now:.6f},,")
            now = removed + 1e-3
        place += 1
    return [HEADER, *lines]
