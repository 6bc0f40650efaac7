"""Beam search keeps to the slots and proposes different sets; wide enough, it leaves none out; the same question has the same answer."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperscale.plan.beam import beam_sets
from hyperscale.plan.kernel import kernel_for, objectives
from hyperscale.plan.starts import exact
from tests.property.test_kernel_agreement import CASES, case


@settings(max_examples=40, deadline=None)
@given(CASES, st.integers(8, 40))
def test_sets_of_a_beam_are_different_and_have_room(drawn: tuple[int, int, str, float], width: int) -> None:
    costs, slots, workers, _ = case(drawn)
    found = beam_sets(costs, slots, workers, width)
    assert found.shape[1] == workers
    assert len(found) <= width
    assert len({tuple(row) for row in np.sort(found, axis=1).tolist()}) == len(found)
    for row in found:
        assert (np.bincount(row, minlength=len(slots)) <= slots).all()
    assert np.isfinite(objectives(costs, found)).all()
    assert (found == beam_sets(costs, slots, workers, width)).all()


@settings(max_examples=20, deadline=None)
@given(CASES)
def test_a_beam_as_wide_as_there_are_sets_finds_the_best_set(drawn: tuple[int, int, str, float]) -> None:
    costs, slots, workers, _ = case(drawn)
    best = exact(costs, slots, workers, 600)
    if best is None or workers < 2 or len(slots) > 8 or kernel_for(costs, slots, workers) is None:
        return
    found = beam_sets(costs, slots, workers, 5000, kept=5000)
    if np.isfinite(objectives(costs, best[None, :])).all():
        assert np.sort(best).tolist() in np.sort(found, axis=1).tolist()
