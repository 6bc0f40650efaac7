"""From decisions of people to the answers that they are, and to the weights of a namespace. Pure.

Preferring or approving a plan is an answer against every other plan on offer. A rejection is kept and is no answer: it says that a plan is
not to start, not that another one is better. Of two answers about the same pair of plans of one job the later counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from hyperscale.control.history.decisions_table import DecisionKind, PersonDecision, offers_of
from hyperscale.evaluate.preferences.alternatives import Alternative, Answer
from hyperscale.evaluate.preferences.revealed_weights import RevealedWeights, WeightBounds, reveal
from hyperscale.model.offers.plan_offers import PlanAlternative

MAX_ANSWERS: Final = 500
"""Of one namespace, the newest."""
ANSWERING: Final = (DecisionKind.APPROVED, DecisionKind.PREFERRED)
Weights = tuple[float, float, float]


class NamespacePreferences(NamedTuple):
    """What the people of one namespace said."""

    answers: tuple[Answer, ...]
    """Those that count, oldest first."""
    forgotten: tuple[Answer, ...] = ()
    fixed: Weights | None = None
    """Weights that an administrator set; None where answers reveal them."""


def figures_of(offers: Sequence[PlanAlternative]) -> dict[str, Alternative]:
    """Return what is compared of plans on offer, by id; cost is GPU seconds unless every offer has a price above 0."""
    priced = all(offer.cost_per_epoch is not None and offer.cost_per_epoch > 0.0 for offer in offers)
    figures = {}
    for offer in offers:
        cost = offer.cost_per_epoch if priced and offer.cost_per_epoch is not None else offer.gpu_seconds
        if 0.0 < offer.epoch_seconds < math.inf and 0.0 < cost < math.inf and 0.0 <= offer.failure_risk <= 1.0:
            figures[offer.plan_id] = Alternative(offer.epoch_seconds, cost, offer.failure_risk)
    return figures


def preferences_of(decisions: Iterable[PersonDecision]) -> NamespacePreferences:
    """Return what decisions of one namespace, in any order, say; those that cannot be read say nothing."""
    ordered = sorted(decisions, key=lambda one: (one.at, one.identifier))
    by_pair: dict[tuple[str, ...], Answer] = {}
    forgotten: set[str] = set()
    fixed: Weights | None = None
    for one in ordered:
        if one.kind in ANSWERING:
            for pair, answer in _answers(one):
                by_pair.pop(pair, None)  # the later one is the newer
                by_pair[pair] = answer
                forgotten.discard(answer.identifier)  # it was given again
        elif one.kind == DecisionKind.FORGOTTEN:
            forgotten.add(one.plan_id)
        elif one.kind == DecisionKind.RECALLED:
            forgotten.discard(one.plan_id)
        elif one.kind in (DecisionKind.WEIGHTS_SET, DecisionKind.WEIGHTS_CLEARED):
            fixed = weights_of(one.offers) if one.kind == DecisionKind.WEIGHTS_SET else None
    answers = tuple(by_pair.values())[-MAX_ANSWERS:]
    counted = tuple(answer for answer in answers if answer.identifier not in forgotten)
    return NamespacePreferences(counted, tuple(answer for answer in answers if answer.identifier in forgotten), fixed)


def revealed(preferences: NamespacePreferences, bounds: WeightBounds) -> RevealedWeights:
    """Return the weights within the administrator's bounds; fixed ones replace what the answers reveal, and keep the bounds too.

    Raises ValueError for bounds that no weights keep.
    """
    weights = reveal(preferences.answers, bounds)
    if preferences.fixed is None:
        return weights
    fixed = within(preferences.fixed, bounds)
    return msgspec.structs.replace(weights, weights=fixed, mean=fixed, deviation=(0.0, 0.0, 0.0))


def within(weights: Weights, bounds: WeightBounds) -> Weights:
    """Return the nearest weights of sum 1 within bounds (Euclidean): all are shifted alike and cut to their bounds, by bisection."""
    low, high = -2.0, 2.0
    for _ in range(100):
        shift = (low + high) / 2.0
        total = sum(_cut(weights, bounds, shift))
        low, high = (shift, high) if total < 1.0 else (low, shift)
    first, second, third = _cut(weights, bounds, (low + high) / 2.0)
    return first, second, third


def weights_of(text: str) -> Weights | None:
    """Return the three weights of a decision; None where the text holds none."""
    try:
        weights = msgspec.json.decode(text, type=tuple[float, float, float])
    except msgspec.DecodeError:
        return None
    return weights if all(0.0 <= each <= 1.0 for each in weights) and sum(weights) > 0.0 else None


def _cut(weights: Weights, bounds: WeightBounds, shift: float) -> list[float]:
    return [min(max(each + shift, least), most) for each, least, most in zip(weights, bounds.low, bounds.high, strict=True)]


def _answers(one: PersonDecision) -> list[tuple[tuple[str, ...], Answer]]:
    """The comparisons that a choice among offers is, each with the pair that it is about."""
    figures = figures_of(offers_of(one.offers))
    chosen = figures.get(one.plan_id)
    if chosen is None:
        return []
    return [
        ((one.uid, *sorted((one.plan_id, name))), Answer(chosen, other, f"{one.uid}:{one.plan_id}:{name}"))
        for name, other in sorted(figures.items())
        if name != one.plan_id
    ]
