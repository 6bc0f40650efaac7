"""Results of pure functions kept by their arguments: what is kept decides how soon an answer comes, never which."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Kept = TypeVar("Kept")


class Memo(Generic[Kept]):
    """The most recently used results, at most `limit` of them. For one thread at a time."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept: OrderedDict[Hashable, Kept] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], Kept], keep: Callable[[Kept], bool] = lambda result: True) -> Kept:
        """What is kept under `key`, else what `make` returns, kept from then on if `keep` says so."""
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        result = make()
        if keep(result):
            self._kept[key] = result
            while len(self._kept) > self._limit:
                self._kept.popitem(last=False)
        return result
