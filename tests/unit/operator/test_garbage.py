"""While the first listing is taken in the interpreter looks for garbage among young objects only."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from hyperscale import garbage


class Link:
    other: Link


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)
    gc.unfreeze()


def circle() -> weakref.ref[Link]:
    """Garbage that only a collection finds."""
    one, other = Link(), Link()
    one.other, other.other = other, one
    return weakref.ref(one)


def test_full_collections_wait_until_the_end_and_then_are_as_before() -> None:
    before = gc.get_threshold()
    with garbage.only_young():
        assert gc.get_threshold() == (*before[:2], garbage.NEVER)
    assert gc.get_threshold() == before
    with pytest.raises(RuntimeError), garbage.only_young():
        raise RuntimeError
    assert gc.get_threshold() == before


def test_what_is_kept_is_not_looked_through_again_and_young_garbage_is_not_kept() -> None:
    kept = [Link()]
    lost = circle()
    frozen = gc.get_freeze_count()
    garbage.keep()
    assert lost() is None
    assert gc.get_freeze_count() > frozen
    assert not any(one is kept[0] for one in gc.get_objects())
