"""Which version of each object of one kind is known, so that a late event or an old listing never overwrites what is newer.

Watch events, full listings and answers to the operator's own writes arrive in any order. Resource versions of one resource are ordered
numbers (kubernetes/enhancements#5504). All pages of a listing show the moment of its first page; whatever existed then is in it.
"""

from __future__ import annotations

from collections.abc import Collection

from hyperscale.control.cache.records import Key

EVERYWHERE = ""
"""Scope of a listing of all namespaces."""


class Versions:
    """Of live objects, and of deleted ones until a later listing lacks them."""

    def __init__(self) -> None:
        self._known: dict[Key, int] = {}
        self._listed_at: dict[str, int] = {}
        """Version of the last whole listing by scope."""

    def __getitem__(self, key: Key) -> int:
        """0 for an object that is not known."""
        return self._known.get(key, 0)

    def admit(self, key: Key, version: int) -> bool:
        """Whether this version is news, or the same again; it is known from now on. An object without a version always is."""
        newest = self._known.get(key)
        if version and version < (newest or 0):
            return False
        if newest is None and 0 < version <= self.listed_at(key.namespace):
            return False  # the listing lacked it: it was deleted before
        self._known[key] = version
        return True

    def listed_at(self, namespace: str) -> int:
        """Version of the last whole listing that covers a namespace; 0 before the first."""
        return max(self._listed_at.get(namespace, 0), self._listed_at.get(EVERYWHERE, 0))

    def end(self, scope: str, version: int, listed: Collection[Key]) -> list[Key]:
        """A whole listing of a scope has been taken in: objects that are gone, deleted ones among them."""
        gone = [
            key for key, newest in self._known.items() if newest <= version and key not in listed and scope in (EVERYWHERE, key.namespace)
        ]
        for key in gone:
            del self._known[key]
        self._listed_at[scope] = max(self._listed_at.get(scope, 0), version)
        return gone
