"""Full listings against watch events: which version of each object of every kind is known, and which objects a listing shows to be gone."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable

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


_LOG = logging.getLogger(__name__)


class Listing:
    """A full listing of one kind while it is taken in."""

    def __init__(self, kind: str, scope: str, version: int) -> None:
        """scope: namespace, or EVERYWHERE; version: of the list, the same on all its pages."""
        self.kind = kind
        self.scope = scope
        self.version = version
        self.listed: set[Key] = set()


class Listings:
    """Known versions of all objects, by kind."""

    def __init__(self, kinds: Iterable[str]) -> None:
        self._versions = {kind: Versions() for kind in kinds}

    def begin(self, kind: str, scope: str, version: int) -> Listing:
        """Begin a listing; those of one kind come one after the other."""
        if 0 < version < self._versions[kind].listed_at(scope):
            _LOG.warning(
                "resource versions of %s went back from %d to %d: etcd was restored", kind, self._versions[kind].listed_at(scope), version
            )
            self._versions[kind] = Versions()
        return Listing(kind, scope, version)

    def has_listed(self, listing: Listing, key: Key, version: int) -> bool:
        """Whether an item of the listing is known already, or out of date: then there is nothing to take in."""
        if not version or version > self._versions[listing.kind][key]:
            return False
        listing.listed.add(key)
        return True

    def admit(self, kind: str, key: Key, version: int) -> bool:
        """Whether an object of this version is news, as in `Versions.admit`."""
        return self._versions[kind].admit(key, version)

    def end(self, listing: Listing) -> list[Key]:
        """All items are taken in: objects that the listing shows to be gone."""
        return self._versions[listing.kind].end(listing.scope, listing.version, listing.listed)
