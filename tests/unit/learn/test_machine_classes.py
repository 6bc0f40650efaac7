"""Hulk's own set-up: classifying machines by their links."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.suites.hulk_classes import with_sizes
from hyperscale.learn.constructor.classes import Machines, folds, learn_classes
from hyperscale.planner.assign.assign_problem import sized


def two_cities() -> tuple[Machines, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Twelve machines alike but for their links: the first six have fast ones among each other, the others slow ones."""
    labels = np.repeat([0, 1], 6).astype(np.int64)
    source, target = np.nonzero((labels[:, None] == labels[None, :]) & ~np.eye(12, dtype=np.bool_))
    edge = np.where(labels[source] == 0, 1.0, -1.0)[:, None]
    return Machines(np.ones((12, 1)), source, target, edge), labels


def test_classes_that_only_links_tell_apart_are_learned_and_hold_for_machines_held_out() -> None:
    machines, labels = two_cities()
    held = folds(labels, 3, 0)[0]
    curve = learn_classes(machines, labels, ~held, 2, seed=0, steps=40)
    assert curve.labelled[-1] == curve.held_out[-1] == 1.0
    assert curve.loss[-1] < curve.loss[0]
    assert curve.likings.argmax(axis=1).tolist() == labels.tolist()


def test_the_same_seed_has_the_same_curve() -> None:
    machines, labels = two_cities()
    known = np.ones(12, dtype=np.bool_)
    first, again = (learn_classes(machines, labels, known, 2, seed=5, steps=5) for _ in range(2))
    assert np.array_equal(first.loss, again.loss)
    assert np.isnan(first.held_out).all()


def test_folds_hold_every_machine_out_once_and_spread_the_classes() -> None:
    labels = np.array([0] * 10 + [1] * 5 + [2] * 5)
    masks = folds(labels, 5, 1)
    assert np.sum(masks, axis=0).tolist() == [1] * 20
    for mask in masks:
        assert np.bincount(labels[mask], minlength=3).tolist() == [2, 1, 1]


@pytest.mark.parametrize("sizes", [(3, 2), (1, 1), (4, 4)])
def test_seats_are_kept_whatever_the_network_likes(sizes: tuple[int, int]) -> None:
    rng = np.random.default_rng(2)
    cost = rng.random((8, 8))
    cost = np.triu(cost, 1) + np.triu(cost, 1).T
    group = with_sizes(rng.normal(size=(8, 3)), sized(cost, sizes))
    assert np.bincount(group, minlength=3).tolist() == [*sizes, 8 - sum(sizes)]
