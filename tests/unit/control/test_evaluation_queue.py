"""The queue of evaluations: namespaces take turns, and none keeps the others out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hyperscale.control.cache.records import Key
from hyperscale.control.scheduler.evaluation_queue import EvaluationQueue, WaitingPlan
from hyperscale.model.api.policy import PolicySpec
from tests.builders.seen import job_spec, plan

JOB, POLICY, PLAN = job_spec(), PolicySpec(), plan("node-a", "node-b")


def waiting(namespace: str, name: str) -> WaitingPlan:
    return WaitingPlan(Key(namespace, name), PLAN, JOB, POLICY, False)


def taken(queue: EvaluationQueue) -> list[str]:
    names = []
    while (one := queue.take()) is not None:
        names.append(f"{one.key.namespace}{one.key.name}")
    return names


def test_a_namespace_with_many_plans_does_not_keep_another_waiting() -> None:
    queue = EvaluationQueue()
    for number in range(50):
        queue.put(waiting("a", str(number)))
    queue.put(waiting("b", "0"))
    queue.put(waiting("b", "1"))
    assert taken(queue)[:5] == ["a0", "b0", "a1", "b1", "a2"]


def test_a_namespace_has_a_bound_of_its_own_and_a_full_queue_makes_room_for_another() -> None:
    queue = EvaluationQueue(most=4, most_each=3)
    assert [queue.put(waiting("a", str(number)))[0] for number in range(4)] == [True, True, True, False]
    assert queue.put(waiting("b", "0")) == (True, None)
    waits, gone = queue.put(waiting("b", "1"))
    assert waits
    assert gone is not None
    assert gone.key == Key("a", "2")
    assert queue.put(waiting("b", "2")) == (False, None)
    assert queue.put(waiting("c", "0"))[1] is not None
    assert len(queue) == 4


def test_a_later_plan_of_a_job_takes_the_place_of_the_earlier_one() -> None:
    queue = EvaluationQueue()
    queue.put(waiting("a", "0"))
    queue.put(waiting("a", "1"))
    queue.put(waiting("a", "0")._replace(running=True))
    first = queue.take()
    assert first is not None
    assert (first.key.name, first.running) == ("0", True)
    assert len(queue) == 1


STEPS = st.lists(
    st.tuples(st.sampled_from("abcd"), st.integers(0, 9), st.sampled_from(["put", "put", "put", "take", "forget"])), max_size=60
)


@given(STEPS)
def test_the_queue_never_holds_more_than_its_bounds_and_loses_nothing_silently(steps: list[tuple[str, int, str]]) -> None:
    queue, expected = EvaluationQueue(most=8, most_each=4), set[Key]()
    for namespace, number, step in steps:
        key = Key(namespace, str(number))
        if step == "forget":
            queue.forget(key)
            expected.discard(key)
        elif step == "take":
            one = queue.take()
            assert (one is None) == (not expected)
            expected -= set() if one is None else {one.key}
        else:
            waits, gone = queue.put(waiting(namespace, str(number)))
            expected -= set() if gone is None else {gone.key}
            expected |= {key} if waits else set()
        assert len(queue) == len(expected) <= 8
        assert all(sum(key.namespace == each for key in expected) <= 4 for each in "abcd")
    assert len(taken(queue)) == len(expected)
