"""Whatever else is going on with a job: who suspended its MPIJob decides who resumes it, and a queue's MPIJob is never written."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hyperscale.control.decide.chain import decide
from hyperscale.model.api.condition import Condition
from hyperscale.model.decision import FindWorkload, SetSuspend, Stop, Wait
from hyperscale.model.plan import Infeasible
from hyperscale.model.pods import PodView
from hyperscale.model.status import LastPreemption, StateWord, StatusScheduling
from tests.builders.seen import MEASURED, condition, job_spec, launcher, mpijob, plan, seen, status, worker

LAST = LastPreemption("1970-01-12T13:00:00Z", ("team/short",), 40.0)
RELEASED = Condition("Placed", "False", "SchedulingTimeout")
CONDITIONS = st.lists(
    st.sampled_from([condition("Migrating"), condition("Preempted"), condition("Suspended"), RELEASED]),
    max_size=3,
    unique_by=lambda one: one.type,
)
PODS: st.SearchStrategy[tuple[PodView, ...]] = st.sampled_from(
    [
        (),
        (worker(0, gated=True), worker(1, gated=True)),
        (launcher(), worker(0, node="node-a", ready=True), worker(1, node="node-b", ready=True)),
        (worker(0, node="node-a"), worker(1, unschedulable="0/2 nodes are available")),
        (worker(0, node="node-a", terminating=True),),
    ]
)
LOOKS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "job": st.builds(
            lambda suspend, most: job_spec(runPolicy={"suspend": suspend}, workers={"minReplicas": 2, "maxReplicas": most}),
            st.booleans(),
            st.sampled_from([2, 4]),
        ),
        "status": st.builds(
            lambda conditions: status(StateWord.STARTING, *conditions, last_preemption=LAST, scheduling=StatusScheduling(releases=1)),
            CONDITIONS,
        ),
        "plan": st.sampled_from([plan("node-a", "node-b"), plan("node-c", "node-b"), plan("node-a", "node-b", "node-c")]),
        "plan_recorded": st.booleans(),
        "pods": PODS,
        "migrating": st.booleans(),
        "preempted": st.booleans(),
        "preemption_recorded": st.booleans(),
        "released": st.booleans(),
        "release_recorded": st.booleans(),
        "workload": st.sampled_from([None, "", "mpijob-cora-1a2b3"]),
        "workload_read": st.booleans(),
        "refusal": st.sampled_from([None, Infeasible("InsufficientGPUs", "needs 2 GPUs")]),
        "metrics": st.sampled_from([None, MEASURED]),
    }
)
RUNNING = {"Running": (True, "MPIJobRunning", "")}


@given(LOOKS, st.booleans())
def test_an_mpijob_that_another_suspended_is_only_waited_for(look: dict[str, Any], resizable: bool) -> None:
    decision = decide(seen(**look, mpijob=mpijob(suspended=True, suspend_intent=False, resizable=resizable)))
    assert isinstance(decision, Wait | FindWorkload)


@given(LOOKS, st.booleans(), st.booleans(), st.sampled_from([{"queue": "gold"}, {"workload": "mpijob-cora-1a2b3"}]))
def test_suspend_of_a_queues_mpijob_is_never_written(look: dict[str, Any], intent: bool, runs: bool, holder: dict[str, str]) -> None:
    view = mpijob(suspend_intent=intent, resizable=True, conditions=RUNNING if runs else {}, **holder)
    assert not isinstance(decide(seen(**look, mpijob=view)), SetSuspend)


@given(LOOKS, st.booleans())
def test_another_who_resumes_is_never_overruled(look: dict[str, Any], resizable: bool) -> None:
    """Preempted and released are what the status says of an MPIJob that no other has resumed."""
    mine = look | {"preempted": False, "released": False, "preemption_recorded": False, "release_recorded": False}
    decision = decide(seen(**mine, mpijob=mpijob(suspend_intent=True, resizable=resizable)))
    assert not (isinstance(decision, SetSuspend) and decision.suspend)


@given(LOOKS)
def test_the_same_look_gives_the_same_decision_and_a_stop_says_why(look: dict[str, Any]) -> None:
    first, again = decide(seen(**look, mpijob=mpijob())), decide(seen(**look, mpijob=mpijob()))
    assert first == again
    assert not isinstance(first, Stop) or first.message
