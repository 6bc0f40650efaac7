"""The weights of each namespace, kept until what its people said changes."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from hyperscale.model.api.preference_policy import PreferenceBounds

if TYPE_CHECKING:
    from hyperscale.control.history.decision_store import DecisionStore, NamespaceEdition
    from hyperscale.control.history.decisions_table import PersonDecision
    from hyperscale.control.history.preference_book import NamespacePreferences

_LOG = logging.getLogger(__name__)

MAX_BOUNDS: Final = 8
"""Bounds of policies for which weights are worked out beforehand, those asked for last."""
AHEAD_SECONDS: Final = 5.0
"""Of working weights out beforehand; others are worked out when asked for."""
ONE_BY_ONE: Final = 8
"""Namespaces read each on its own; where more have changed all are read."""

Weights = tuple[float, float, float]
Bounds = tuple[Weights, Weights]


class PreferenceNews(NamedTuple):
    """What a read of history brought."""

    editions: Mapping[str, NamespaceEdition]
    changed: Mapping[str, NamespacePreferences]
    """Of namespaces that are new or have changed."""
    weights: Mapping[tuple[str, Bounds], Weights | None]
    """Theirs, as far as they were worked out."""


class NamespaceWeights:
    """What the people of namespaces said, and the weights that this reveals."""

    def __init__(self) -> None:
        self._editions: Mapping[str, NamespaceEdition] = {}
        self._preferences: dict[str, NamespacePreferences] = {}
        self._weights: dict[tuple[str, Bounds], Weights | None] = {}
        self._bounds: dict[Bounds, None] = {}
        """Asked for, the latest last."""

    def weights(self, namespace: str, allowed: PreferenceBounds) -> Weights | None:
        """Return the weights of a namespace within bounds; None where there are no answers and none are set."""
        bounds = allowed.low, allowed.high
        self._bounds.pop(bounds, None)
        self._bounds[bounds] = None
        while len(self._bounds) > MAX_BOUNDS:
            del self._bounds[next(iter(self._bounds))]
        preferences = self._preferences.get(namespace)
        if preferences is None:
            return None
        key = namespace, bounds
        if key not in self._weights:
            self._weights[key] = _revealed(preferences, bounds)
        return self._weights[key]

    def news(self, store: DecisionStore) -> PreferenceNews:
        """Return what has changed since the last `take`. Blocking: call it in a thread. Raises HistoryError."""
        before, editions = self._editions, store.editions()
        changed = _preferences(store, [name for name, edition in editions.items() if before.get(name) != edition])
        weights: dict[tuple[str, Bounds], Weights | None] = {}
        ends = time.monotonic() + AHEAD_SECONDS
        for key in [(name, bounds) for bounds in reversed(tuple(self._bounds)) for name in changed]:
            if time.monotonic() >= ends:
                break
            weights[key] = _revealed(changed[key[0]], key[1])
        return PreferenceNews(editions, changed, weights)

    def take(self, news: PreferenceNews) -> None:
        """Go by what is new; the weights of other namespaces stay."""
        kept = {name: preferences for name, preferences in self._preferences.items() if name in news.editions}
        self._editions, self._preferences = news.editions, kept | dict(news.changed)
        stays = {key: value for key, value in self._weights.items() if key[0] in kept and key[0] not in news.changed}
        self._weights = stays | dict(news.weights)


def _preferences(store: DecisionStore, namespaces: Iterable[str]) -> dict[str, NamespacePreferences]:
    """What their people said; empty where there are no decisions any more."""
    from hyperscale.control.history.preference_book import preferences_of

    wanted = sorted(namespaces)
    by_namespace: dict[str, list[PersonDecision]] = {name: [] for name in wanted}
    for name in wanted if len(wanted) <= ONE_BY_ONE else (None,):
        for row in store.decisions(namespace=name):
            if row.namespace in by_namespace:
                by_namespace[row.namespace].append(row)
    return {name: preferences_of(rows) for name, rows in by_namespace.items()}


def _revealed(preferences: NamespacePreferences, bounds: Bounds) -> Weights | None:
    from hyperscale.control.history.preference_book import revealed
    from hyperscale.evaluate.preferences.revealed_weights import WeightBounds

    if not preferences.answers and preferences.fixed is None:
        return None
    try:
        return revealed(preferences, WeightBounds(*bounds)).weights
    except ValueError as error:
        _LOG.warning("preferences: %s", error)
        return None
