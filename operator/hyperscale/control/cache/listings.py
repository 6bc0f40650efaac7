"""Full listings against watch events: which version of each object of every kind is known, and which objects a listing shows to be gone."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from hyperscale.control.cache.records import Key
from hyperscale.control.cache.versions import Versions

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
