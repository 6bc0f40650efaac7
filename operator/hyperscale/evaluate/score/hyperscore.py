"""HyperScore: a fused value V from 0 to 1 as a figure that spreads out good ones, 100 [1 + sigma(beta ln V + gamma)^kappa].

Implemented as printed. The paper's example, V = 0.95, beta = 5, gamma = -ln 2, kappa = 2, gives 107.8 by this formula; the paper prints
137.2, which gamma = +ln 2 nearly gives (136.9). With the printed gamma and V <= 1 no score exceeds 111.1.
"""

from __future__ import annotations

import math

import msgspec


class HyperScoreSettings(msgspec.Struct, frozen=True, rename="camel"):
    """Sensitivity, shift and exponent; the defaults are those that the paper prints."""

    beta: float = 5.0
    """How steeply the score rises with V; above 0."""
    gamma: float = -math.log(2.0)
    """Where the middle of the sigmoid lies: V = exp(-gamma / beta)."""
    kappa: float = 2.0
    """Exponent of the boost; above 1 it favours high values."""


def hyperscore(value: float, settings: HyperScoreSettings | None = None) -> float:
    """Return the score, 100 for V = 0 and at most 200. Raises ValueError for V outside 0..1 and settings out of range."""
    chosen = settings or HyperScoreSettings()
    if not 0.0 <= value <= 1.0:  # NaN fails as well
        raise ValueError(f"V is {value}: give a number from 0 to 1")
    if not (0.0 < chosen.beta < math.inf and 0.0 < chosen.kappa < math.inf and math.isfinite(chosen.gamma)):
        raise ValueError(f"beta {chosen.beta}, gamma {chosen.gamma}, kappa {chosen.kappa}: beta and kappa are above 0, all are finite")
    if value == 0.0:
        return 100.0
    return 100.0 * (1.0 + math.pow(_sigmoid(chosen.beta * math.log(value) + chosen.gamma), chosen.kappa))


def highest(settings: HyperScoreSettings | None = None) -> float:
    """Return the score of V = 1, above which none lies: 111.1 with the printed settings."""
    return hyperscore(1.0, settings)


def _sigmoid(argument: float) -> float:
    """1 / (1 + exp(-x)) without overflow."""
    if argument >= 0.0:
        return 1.0 / (1.0 + math.exp(-argument))
    grown = math.exp(argument)
    return grown / (1.0 + grown)
