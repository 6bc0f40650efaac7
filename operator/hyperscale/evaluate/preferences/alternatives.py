"""Alternatives that a person compares, by time, cost and risk, and the answers that they gave.

The list of answers is all that is kept: taking one away gives the weights that there would be without it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from hyperscale.model.graph import FloatArray
from hyperscale.model.offers.plan_offers import LEAST_RISK

CRITERIA: Final = ("time", "cost", "risk")


class Alternative(msgspec.Struct, frozen=True, order=True, rename="camel"):
    """What a plan would take. Less is better in all three."""

    time_seconds: float
    """Until the job ends; above 0."""
    cost: float
    """In any one currency; above 0."""
    risk: float
    """Probability of missing the deadline, 0 to 1."""


class Answer(msgspec.Struct, frozen=True, order=True, rename="camel"):
    """One comparison: a person prefers one alternative to another."""

    preferred: Alternative
    other: Alternative
    identifier: str = ""
    """Names the answer in history, so that it can be taken back."""


def log_figures(alternatives: Sequence[Alternative]) -> FloatArray:
    """Return the (n, 3) natural logarithms of time, cost and risk. Raises ValueError for figures out of range.

    A difference of two rows is the log ratio of two alternatives: free of units, 0.1 for ten per cent more.
    """
    return np.array([_logarithms(each) for each in alternatives], dtype=np.float64).reshape(-1, len(CRITERIA))


def is_trade_off(one: Alternative, other: Alternative) -> bool:
    """Return whether each is better in something: only then does an answer say what a person weighs."""
    difference = np.subtract(_logarithms(one), _logarithms(other))
    return bool((difference > 0.0).any() and (difference < 0.0).any())


def without(answers: Sequence[Answer], identifier: str) -> tuple[Answer, ...]:
    """Return the answers but for one that is taken back. Raises ValueError where there is none of that name."""
    kept = tuple(answer for answer in answers if answer.identifier != identifier)
    if len(kept) == len(answers):
        raise ValueError(f"no answer {identifier!r}; write one of {', '.join(answer.identifier for answer in answers) or 'none'}")
    return kept


def _logarithms(one: Alternative) -> tuple[float, float, float]:
    if not (0.0 < one.time_seconds < math.inf and 0.0 < one.cost < math.inf):  # NaN fails as well
        raise ValueError(f"time {one.time_seconds} s, cost {one.cost}: give finite figures above 0")
    if not 0.0 <= one.risk <= 1.0:
        raise ValueError(f"risk {one.risk}: give a probability from 0 to 1")
    return math.log(one.time_seconds), math.log(one.cost), math.log(max(one.risk, LEAST_RISK))
