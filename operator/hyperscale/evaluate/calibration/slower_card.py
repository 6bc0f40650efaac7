"""What network cards multiply the seconds of links with: a link is as slow as the slower of its two cards, as in the planner."""

from __future__ import annotations

from typing import Final

import numpy as np

from hyperscale.model.graph import FloatArray

ORDERS: Final = 8
"""Orders of the cards, by pairs of opposite draws, that a wait is averaged over."""
NEAR: Final = 0.1
"""Standard deviation of ln(factor) of a draw: which of two cards is slower is open where they differ by less."""


def slower_cards(carried: FloatArray, logarithms: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return (r,) what cards multiply the links' seconds of each run with, and (r, n) its derivatives by ln(factor), relative to it.

    carried: (r, n) part of the links' seconds that would grow if only this card were slower; logarithms: (n,) ln(factor) of each card
    The slowest card has its part, the next one what is left of its own, until the seconds are used up (Choquet integral of the factors
    with the capacity min(1, sum of parts)). That is the larger factor for one link. It is the largest one for a ring of equal hops, and
    the sum over links for an exchange of one node with all others. Which card is slower follows from the current estimate. Cards that
    are about equal share the seconds: the mean over orders of slightly different estimates.
    """
    half = np.random.default_rng(0).normal(scale=NEAR, size=(ORDERS // 2, len(logarithms)))
    order = np.argsort(-(logarithms + np.concatenate([half, -half])), axis=1, kind="stable")
    reached = np.minimum(1.0, np.cumsum(carried[:, order], axis=2))  # (r, orders, n)
    taken = np.diff(reached, axis=2, prepend=0.0)
    back = np.argsort(order, axis=1, kind="stable")
    part = np.take_along_axis(taken, np.broadcast_to(back, taken.shape), axis=2).mean(axis=1)
    seconds = part * np.exp(logarithms)
    wait = seconds.sum(axis=1) + 1.0 - part.sum(axis=1)
    return wait, seconds / wait[:, None]
