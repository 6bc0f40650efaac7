"""Lives of nodes, whatever a cluster does: they never overlap, and only failures that lasted count as failures."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from hyperscale.control.history.node_watch import HEALTHY, MIN_DOWN_SECONDS, MISSED, NOT_READY, PLANNED, UNREACHABLE, NodeWatch
from hyperscale.evaluate.pipeline.learned_failures import learned_failures
from tests.unit.control.history.test_node_lives import START, node

STATES = st.sampled_from(["True", "False", "Unknown", "gone"])
STEP = st.tuples(STATES, st.booleans(), st.floats(1.0, 400.0))


def play(steps: list[tuple[str, bool, float]], watch: NodeWatch) -> tuple[float, list[dict[str, Any]]]:
    """Look at one node after each step; the time at the end, and the nodes that are there then."""
    now, since, before, last = START, START - 1e6, "True", dict[str, Any]()
    nodes: list[dict[str, Any]] = []
    for state, cordoned, seconds in steps:
        now += seconds
        if state != before:
            since, before = now - 0.5, state
        made = node(ready=state, since=since, cordoned=cordoned)
        last = last if made == last else made  # the cache keeps the object as long as it is the same
        nodes = [] if state == "gone" else [last]
        watch.look(nodes, now)
    return now, nodes


@settings(deadline=None)  # the first example imports scipy
@given(st.lists(STEP, max_size=30))
def test_lives_follow_each_other_and_end_for_a_reason(steps: list[tuple[str, bool, float]]) -> None:
    watch = NodeWatch()
    watch.begin(())
    now, _ = play(steps, watch)
    lives = sorted(watch.pending.values(), key=lambda life: life.insert_seconds)
    for life, following in itertools.pairwise(lives):
        assert life.remove_seconds is not None
        assert life.insert_seconds <= life.remove_seconds <= following.insert_seconds
    for life in lives:
        assert (life.remove_seconds is None) == (life.cause == "")
        assert life.cause in ("", NOT_READY, UNREACHABLE, PLANNED, HEALTHY)
    learned_failures(lives, now)


@given(st.lists(STEP, max_size=30))
def test_a_node_that_is_never_down_for_long_never_fails(steps: list[tuple[str, bool, float]]) -> None:
    watch = NodeWatch()
    watch.begin(())
    short = [
        part
        for _, _, seconds in steps
        for part in (("True", False, seconds), ("Unknown", False, 1.0), ("True", False, MIN_DOWN_SECONDS / 2.0))
    ]
    play(short, watch)
    assert {life.cause for life in watch.pending.values()} <= {"", HEALTHY}


@given(st.lists(STEP, min_size=1, max_size=20))
def test_another_process_makes_no_failure_of_what_the_first_saw(steps: list[tuple[str, bool, float]]) -> None:
    first = NodeWatch()
    first.begin(())
    now, nodes = play(steps, first)
    later = NodeWatch()
    later.begin(first.pending.values())
    later.look(nodes, now + 1.0)
    assert MISSED not in {life.cause for life in later.pending.values()}
