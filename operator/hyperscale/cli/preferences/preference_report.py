"""What the people of a namespace weigh, from what answers, and which comparison would teach most. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from hyperscale.cli.text_tables import seconds_text, table
from hyperscale.control.history.decisions_table import PersonDecision, offers_of
from hyperscale.control.history.preference_book import NamespacePreferences, Weights, figures_of, preferences_of, revealed
from hyperscale.evaluate.preferences.alternatives import CRITERIA, Answer
from hyperscale.evaluate.preferences.next_question import next_question
from hyperscale.evaluate.preferences.revealed_weights import WeightBounds, posterior
from hyperscale.model.offers.plan_offers import PlanAlternative

MAX_OFFER_SETS: Final = 50
"""Newest sets of offers among which the next comparison is looked for."""
LEAST_CUT: Final = 1e-6
"""Smaller differences are those of rounding."""
MAX_SHOWN: Final = 20
"""Answers in a table; all of them are in the JSON."""


class ShownAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """One comparison that a person made."""

    identifier: str
    preferred: dict[str, float]
    """timeSeconds of an epoch, cost and risk."""
    other: dict[str, float]
    counts: bool
    """False: it was taken back with --forget."""


class NextComparison(msgspec.Struct, frozen=True, rename="camel"):
    """What to ask for next."""

    job: str
    first: str
    second: str
    """Ids of the two plans."""
    information_bits: float
    """Expected, 0 to 1."""


class ShownPreferences(msgspec.Struct, frozen=True, rename="camel"):
    """One namespace; the schema of `-o json` is a list of these."""

    namespace: str
    weights: dict[str, float]
    """Most probable ones within the bounds, or those that were set."""
    deviation: dict[str, float]
    answers: tuple[ShownAnswer, ...]
    """Newest first."""
    was_set: bool
    """True: an administrator fixed the weights; answers do not move them."""
    next_comparison: NextComparison | None
    note: str = ""
    """Where weights that were set do not keep the bounds: what was cut."""


def report(namespace: str, decisions: Sequence[PersonDecision], bounds: WeightBounds, waiting: Iterable[OfferSet]) -> ShownPreferences:
    """Return what is known of one namespace.

    waiting: offers of jobs that wait now; without any, the newest offers in history are looked at.
    Raises ValueError for bounds that no weights keep.
    """
    preferences = preferences_of(decisions)
    weights = revealed(preferences, bounds)
    listed = (*((answer, True) for answer in preferences.answers), *((answer, False) for answer in preferences.forgotten))
    return ShownPreferences(
        namespace=namespace,
        weights=_by_criterion(weights.weights),
        deviation=_by_criterion(weights.deviation),
        answers=tuple(ShownAnswer(one.identifier, _figures(one, True), _figures(one, False), counts) for one, counts in reversed(listed)),
        was_set=preferences.fixed is not None,
        next_comparison=_next(preferences, bounds, tuple(waiting) or _of_history(decisions)),
        note=_cut_note(preferences, weights.weights),
    )


OfferSet = tuple[str, tuple[PlanAlternative, ...]]
"""A job's name and what is on offer for it."""


def report_lines(shown: Sequence[ShownPreferences]) -> list[str]:
    """Return the tables for people."""
    if not shown:
        return ["No decision of a person is in history."]
    rows = [
        (
            one.namespace,
            *(f"{one.weights[name]:.2f} ± {one.deviation[name]:.2f}" for name in CRITERIA),
            str(sum(answer.counts for answer in one.answers)),
            "set by an administrator" if one.was_set else "revealed by answers" if one.answers else "no answers: equal weights",
        )
        for one in shown
    ]
    lines = table(("NAMESPACE", "TIME", "COST", "RISK", "ANSWERS", "WEIGHTS"), rows, right=frozenset({4}))
    lines += [f"{one.namespace}: {one.note}." for one in shown if one.note]
    for one in shown:
        lines += _answers(one)
        if one.next_comparison is not None:
            asked = one.next_comparison
            lines += [
                "",
                f"{one.namespace}: the comparison that would teach most ({asked.information_bits:.2g} bit) is of job {asked.job}:",
            ]
            lines += [f"  plan {asked.first} or plan {asked.second}"]
    return lines


def _cut_note(preferences: NamespacePreferences, weights: Weights) -> str:
    """What the policy's bounds make of weights that were set; "" where they keep them."""
    fixed = preferences.fixed
    if fixed is None or max(abs(each - kept) for each, kept in zip(fixed, weights, strict=True)) < LEAST_CUT:
        return ""
    named = [", ".join(f"{name} {each:.4g}" for name, each in zip(CRITERIA, values, strict=True)) for values in (fixed, weights)]
    return f"cut to the bounds of the policy: {named[0]} was set, {named[1]} holds"


def _answers(one: ShownPreferences) -> list[str]:
    rows = [
        (answer.identifier, _text(answer.preferred), _text(answer.other), "yes" if answer.counts else "forgotten")
        for answer in one.answers[:MAX_SHOWN]
    ]
    return ["", *table((f"ANSWERS OF {one.namespace}", "PREFERRED", "TO", "COUNTS"), rows)] if rows else []


def _text(figures: dict[str, float]) -> str:
    return f"{seconds_text(figures['timeSeconds'])}, cost {figures['cost']:.4g}, risk {figures['risk']:.2%}"


def _figures(answer: Answer, preferred: bool) -> dict[str, float]:
    figures: dict[str, float] = msgspec.to_builtins(answer.preferred if preferred else answer.other)
    return figures


def _by_criterion(values: tuple[float, float, float]) -> dict[str, float]:
    return {name: round(value, 6) for name, value in zip(CRITERIA, values, strict=True)}


def _of_history(decisions: Sequence[PersonDecision]) -> tuple[OfferSet, ...]:
    newest = sorted(decisions, key=lambda one: (-one.at, one.identifier))[:MAX_OFFER_SETS]
    return tuple(dict.fromkeys((one.job, offers_of(one.offers)) for one in newest if one.offers))


def _next(preferences: NamespacePreferences, bounds: WeightBounds, sets: Sequence[OfferSet]) -> NextComparison | None:
    """The most informative pair of all sets; those of one job are compared, because their ratios are known."""
    belief = posterior(preferences.answers, bounds)
    best: NextComparison | None = None
    for job, offers in sets[:MAX_OFFER_SETS]:
        figures = figures_of(offers)
        names = sorted(figures)
        question = next_question([figures[name] for name in names], belief)
        if question is not None and (best is None or question.information_bits > best.information_bits):
            best = NextComparison(job, names[question.first], names[question.second], round(question.information_bits, 6))
    return best
