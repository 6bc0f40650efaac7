"""The one comparison that would teach most: the largest expected information about the weights (Lindley 1956)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from hyperscale.evaluate.preferences.alternatives import Alternative, is_trade_off, log_figures
from hyperscale.evaluate.preferences.revealed_weights import Posterior, choice_probability
from hyperscale.model.graph import FloatArray


class Question(NamedTuple):
    """A comparison to ask for."""

    first: int
    second: int
    """Indices of the two alternatives."""
    information_bits: float
    """Expected: how much the answer reduces the uncertainty about weights and sharpness, 0 to 1."""


def next_question(alternatives: Sequence[Alternative], belief: Posterior) -> Question | None:
    """Return the most informative pair, the first of equal ones; None where no pair trades one thing for another.

    Raises ValueError for figures out of range.
    """
    pairs = [
        (one, other) for one, other in combinations(range(len(alternatives)), 2) if is_trade_off(alternatives[one], alternatives[other])
    ]
    if not pairs:
        return None
    figures = log_figures(alternatives)
    first, second = np.array(pairs).T
    bits = information_bits(figures[second] - figures[first], belief)
    at = int(np.argmax(np.round(bits, 12)))
    return Question(*pairs[at], float(bits[at]))


def information_bits(ratios: FloatArray, belief: Posterior) -> FloatArray:
    """Return the (n,) expected information of the answers to n comparisons with (n, 3) log ratios.

    That is the entropy of the expected answer less the expected entropy of the answer.
    """
    chances = choice_probability(ratios, belief.weights, belief.sharpness)
    bits: FloatArray = np.maximum(0.0, _entropy_bits(chances @ belief.masses) - _entropy_bits(chances) @ belief.masses)
    return bits


def _entropy_bits(chances: FloatArray) -> FloatArray:
    """Of answers with chances strictly between 0 and 1, as lapses make them."""
    bits: FloatArray = -(chances * np.log2(chances) + (1.0 - chances) * np.log2(1.0 - chances))
    return bits
