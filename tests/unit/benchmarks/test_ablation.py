"""Leaving a search module out changes the search while it lasts; a module pays only where a loss is above its noise."""

from __future__ import annotations

import math

import pytest

from benchmarks import ablation, ablationpage
from benchmarks.common import Row
from benchmarks.families import instance
from hyperscale.planner.search import heuristic

CASE = instance("random", 24, 6, 0)


@pytest.mark.parametrize("module", sorted(ablation.MODULES))
def test_the_search_works_without_any_one_module_and_is_whole_again_after_it(module: str) -> None:
    before = vars(heuristic).copy()
    with ablation.without(module):
        assert vars(heuristic) != before
    assert vars(heuristic) == before
    # Nothing else starts a first look.
    assert math.isfinite(ablation.searched(CASE, module).objective) == (module != "greedy starts")


def test_without_branch_and_bound_nothing_is_proven() -> None:
    assert ablation.searched(CASE, None).gap == 0.0
    assert ablation.searched(CASE, "branch and bound").gap > 0.0


def losses(*objective: float) -> list[tuple[float, ...]]:
    return [(each, 0.0, 0.0, 0.0) for each in objective]


@pytest.mark.parametrize(
    ("without_it", "reseeded", "pays"),
    [
        ((1.0, 1.1, 0.9, 1.0), (0.0, 0.0, 0.1, 0.0), True),
        ((3.0, 0.0, 0.0, 0.1), (0.0, 0.0, 0.0, 0.0), False),  # one case decides the mean
        ((1.0, 1.1, 0.9, 1.0), (2.0, 1.9, 2.1, 2.0), False),  # another seed loses more
        ((0.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0), False),
        ((-1.0, -1.1, -0.9, -1.0), (0.0, 0.0, 0.0, 0.0), False),
    ],
)
def test_a_module_pays_where_its_loss_is_above_noise(without_it: tuple[float, ...], reseeded: tuple[float, ...], pays: bool) -> None:
    measured = {("group", "beam"): losses(*without_it), ("group", ablation.RESEEDED): losses(*reseeded)}
    rows = ablation.summaries(measured, ["beam"], goals=True)
    assert [row.holds for row in rows if row.metric == "goal"] == [pays]
    _, lines = ablationpage.table(rows, ablation.LOSSES)
    assert ("**" in lines[0][2]) == pays


def test_no_placement_counts_as_the_largest_loss() -> None:
    full, nothing = ablation.Outcome(1.0, 1.0, 0.0, 0.01), ablation.Outcome(math.inf, 1.5, 1.0, 0.02)
    assert nothing.losses(full) == pytest.approx((ablation.MOST_PERCENT, 50.0, 100.0, 100.0))


def test_the_page_names_the_command_and_every_goal() -> None:
    measured = {("group", "beam"): losses(1.0, 1.0), ("group", ablation.RESEEDED): losses(0.0, 0.0)}
    rows: list[Row] = ablation.summaries(measured, ["beam"], goals=True)
    page = ablationpage.page(rows, ablation.LOSSES, "python benchmarks/ablation.py")
    assert "`python benchmarks/ablation.py`" in page
    assert "| beam | " in page
