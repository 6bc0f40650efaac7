"""How much joint placing does: kernels that serve every search of a question, and steps that are bounded by its size."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hyperscale.learn.constructor.joint_questions import question
from hyperscale.planner.cost.objective import objectives
from hyperscale.planner.search.kernels.kernel import kernel_for
from hyperscale.planner.together import in_sequence, joint_starts, together_search
from hyperscale.planner.together.in_sequence import placed, placing_work, taken
from hyperscale.planner.together.shared_nodes import SharedNodes
from hyperscale.planner.together.together_search import place_together


@pytest.fixture(scope="module", name="shared")
def shared_fixture() -> SharedNodes:
    shared = question("geo", 3)
    assert shared is not None
    return shared


def test_kernels_have_the_reference_s_figures(shared: SharedNodes) -> None:
    reference = [objectives(each.costs, order[None, :])[0] for each, order in zip(shared.of_job, shared.one_by_one, strict=True)]
    np.testing.assert_allclose(shared.seconds(shared.one_by_one), reference, rtol=1e-9)


def test_a_kernel_that_searched_elsewhere_finds_what_a_new_one_finds(shared: SharedNodes) -> None:
    everything = shared.left([None] * len(shared.workers))
    first = placed(shared, 0, everything)
    assert first is not None
    left = everything - taken(shared, 0, first[0])
    second = placed(shared, 0, left)
    fresh = placed(replace(shared), 0, left)
    assert second is not None
    assert fresh is not None
    assert (second[0].tolist(), second[1]) == (fresh[0].tolist(), fresh[1])
    assert shared.fits([second[0], *shared.one_by_one[1:]]) or not set(second[0]) & set(first[0])
    assert placed(shared, 0, everything) is not None


def test_slots_of_another_number_of_candidates_are_refused(shared: SharedNodes) -> None:
    compiled = kernel_for(shared.of_job[0].search_costs, shared.of_job[0].slots, shared.workers[0])
    if compiled is None:
        pytest.skip("no compiled kernel here")
    with pytest.raises(ValueError, match="an array of"):
        compiled.use_slots(np.ones(1, dtype=np.int32))


def test_sequences_end_at_their_bound_of_work(shared: SharedNodes, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[int] = []

    def counted(asked: SharedNodes, index: int, *left: np.ndarray) -> object:
        done.append(placing_work(asked, index))
        return placed(asked, index, *left)

    monkeypatch.setattr(in_sequence, "placed", counted)
    monkeypatch.setattr(joint_starts, "MAX_PLACED_WORK", 1)
    assert [start.name for start in joint_starts.other_orders(shared)] == [joint_starts.DEAREST_FIRST]
    assert len(done) == len(shared.workers), "one sequence in any case"


def test_annealing_takes_fewer_steps_where_its_bound_is_lower(shared: SharedNodes, monkeypatch: pytest.MonkeyPatch) -> None:
    taken_steps: list[int] = []
    walk = together_search.Annealing.walk

    def counted(self: together_search.Annealing, orders: object, seed: int, steps: int, *heat: float) -> object:
        taken_steps.append(steps)
        return walk(self, orders, seed, steps, *heat)  # type: ignore[arg-type] # passed on

    monkeypatch.setattr(together_search.Annealing, "walk", counted)
    place_together(shared)
    usual = sum(taken_steps)
    taken_steps.clear()
    monkeypatch.setattr(together_search, "MAX_WORK", together_search.MAX_WORK // 100)
    answer = place_together(shared)
    assert sum(taken_steps) < usual / 4
    assert answer.total <= answer.before


def test_the_same_question_has_the_same_answer(shared: SharedNodes) -> None:
    one, other = (place_together(each, joint_starts.joint_starts) for each in (shared, replace(shared)))
    assert one.total == other.total
    assert [order.tolist() for order in one.orders] == [order.tolist() for order in other.orders]
