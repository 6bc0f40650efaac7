"""Every worker count that is near the best after the first look gets a close one."""

from __future__ import annotations

from benchmarks.families import instance
from benchmarks.methods import planned


def test_a_count_that_falls_behind_another_counts_close_look_gets_its_own() -> None:
    """First looks at 9, 11 and 12 workers: 7.37, 7.30, 7.48 s. A close one takes 11 to 6.69, and 12 to 6.38."""
    plan = planned(instance("random", 32, 12, 4, counts=(9, 12))).plan
    assert len(plan.workers) == 12
    assert plan.objective < 6.4
