"""The spread of predictions that several namespaces agree on: no single one of them decides it. Without numpy: the operator reads this."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

PRIOR_SPREAD: Final = 0.15
"""Of ln(measured / corrected) before any run is compared."""
MIN_NAMESPACES: Final = 3
"""Whose spreads are compared without the prior one: two of them agree about a third."""
LEAST_OTHERS: Final = 3.0
"""Times a namespace's weight that all others have together: it has a quarter, so that 68 of 100 runs are still those of others."""


def agreed_spread(pooled: float, by_namespace: Iterable[float]) -> float:
    """Return the spread of all runs within what two namespaces say.

    It is no wider than the second widest of their spreads, and no narrower than the second narrowest. The prior spread is the third of
    two, and what others go by where one namespace alone had such runs. So whatever one namespace reports, the spread stays between those
    of others and the prior.

    pooled: of all runs together; by_namespace: of each namespace's own runs
    """
    ranked = sorted(by_namespace)
    if len(ranked) < MIN_NAMESPACES:
        ranked = sorted([*ranked, PRIOR_SPREAD])
    return between_others(pooled, ranked) if len(ranked) >= MIN_NAMESPACES else PRIOR_SPREAD


def between_others(pooled: float, figures: Iterable[float]) -> float:
    """Return the figure of all runs, no higher than the second highest of `figures`, of three namespaces or more, and as low.

    So each namespace finds it between what the others say, however many runs it has. IndexError for a single figure.
    """
    ranked = sorted(figures)
    return min(max(pooled, ranked[1]), ranked[-2])


def quarter_shares(namespaces: Sequence[str], counts: Sequence[float]) -> list[float]:
    """Return what each run counts for, where no namespace counts for more than a third of all others together."""
    sums: dict[str, list[float]] = {}
    for namespace, count in zip(namespaces, counts, strict=True):
        sums.setdefault(namespace, []).append(count)
    totals = {namespace: math.fsum(own) for namespace, own in sums.items()}
    every = math.fsum(totals.values())
    kept = {namespace: min(1.0, (every - total) / (LEAST_OTHERS * total)) for namespace, total in totals.items()}
    return [count * kept[namespace] for namespace, count in zip(namespaces, counts, strict=True)]
