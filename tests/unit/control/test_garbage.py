"""A full collection goes through objects made since the last one, and garbage among older ones is found all the same."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from hyperscale.util import gc_tuning


class Link:
    other: Link


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    thresholds, callbacks = gc.get_threshold(), list(gc.callbacks)
    yield
    gc.set_threshold(*thresholds)
    gc.callbacks[:] = callbacks
    gc.unfreeze()


def circle() -> tuple[list[Link], weakref.ref[Link]]:
    """Two objects that refer to each other: garbage once the list is empty, which only a collection finds."""
    one, other = Link(), Link()
    one.other, other.other = other, one
    return [one], weakref.ref(one)


def test_collections_are_as_before_at_the_end() -> None:
    thresholds, callbacks = gc.get_threshold(), list(gc.callbacks)
    with gc_tuning.short_collections():
        assert gc.get_threshold() == gc_tuning.THRESHOLDS
    assert gc.get_threshold() == thresholds
    assert gc.callbacks == callbacks
    with pytest.raises(RuntimeError), gc_tuning.short_collections():
        raise RuntimeError
    assert gc.get_threshold() == thresholds
    assert gc.callbacks == callbacks
    assert gc.get_freeze_count() == 0


def test_a_full_collection_does_not_go_through_what_an_earlier_one_left_alive() -> None:
    with gc_tuning.short_collections():
        kept, _ = circle()
        assert any(one is kept[0] for one in gc.get_objects())
        gc.collect()
        assert not any(one is kept[0] for one in gc.get_objects())


def test_young_garbage_is_found_and_not_kept() -> None:
    with gc_tuning.short_collections() as keeper:
        kept, lost = circle()
        kept.clear()
        keeper.keep()
        assert lost() is None


def test_garbage_among_kept_objects_is_found_once_far_more_is_kept_than_before(monkeypatch: pytest.MonkeyPatch) -> None:
    with gc_tuning.short_collections() as keeper:
        kept, lost = circle()
        keeper.keep()
        assert not keeper.overgrown()
        kept.clear()
        gc.collect()
        assert lost() is not None
        frozen = gc.get_freeze_count()
        monkeypatch.setattr(gc, "get_freeze_count", lambda: 2 * frozen + gc_tuning.GROWTH_OBJECTS)
        assert keeper.overgrown()
        monkeypatch.undo()
        assert keeper.clean() >= 2
        assert lost() is None
        assert not keeper.overgrown()
