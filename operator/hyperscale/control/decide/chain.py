"""The next step of one job: a chain of named checks on its observed state.

The first check that returns a decision decides; the order is the meaning. The checks are in one module per policy, and none of them reads a
clock, calls an API or logs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from hyperscale.control.decide.batch_jobs import lacks_dataset_sizes, lacks_new_partitions, lacks_partitions
from hyperscale.control.decide.migrate_job import migrating, migration_pays
from hyperscale.control.decide.open_gates import gates_closed, launcher_closed
from hyperscale.control.decide.person_choices import prefers_alternative, rejected_by_person
from hyperscale.control.decide.plan_job import (
    awaits_approval,
    lacks_mpijob,
    lacks_plan,
    plan_no_longer_fits,
    spec_changed_before_start,
    start_policy_never,
)
from hyperscale.control.decide.preconditions import deleted, finished, leaving_mpijob, name_is_taken, spec_is_bad, unreadable_mpijob
from hyperscale.control.decide.preempt_job import preempted, preemption_pays
from hyperscale.control.decide.preflight_job import preflight_outstanding
from hyperscale.control.decide.recover_workers import stuck_on_lost_node
from hyperscale.control.decide.release_gang import gang_released, rank_left_out
from hyperscale.control.decide.suspend_job import (
    queued,
    resizable_again,
    resumed,
    suspended_before_start,
    suspended_by_another,
    suspension_differs,
)
from hyperscale.control.lifecycle.unscheduled import seconds_left
from hyperscale.model.decision import Decision, Reason, Wait
from hyperscale.model.observed.reconcile_input import ReconcileInput

CHAIN: Final[tuple[Callable[[ReconcileInput], Decision | None], ...]] = (
    deleted,  # a job that is being deleted gets nothing, whatever else is wrong with it
    name_is_taken,  # every later check takes the MPIJob for the job's own
    unreadable_mpijob,  # every later check reads the MPIJob
    finished,  # before the spec: a run that has ended stays ended, also after a bad edit
    spec_is_bad,  # every later check reads the spec
    leaving_mpijob,  # a new MPIJob of this name waits for the old one
    suspended_by_another,  # before the operator's own restarts: they must not resume what another suspended
    migrating,  # a started migration ends before anything new starts
    preempted,  # so does a preemption
    gang_released,  # so does a release
    resizable_again,  # before resuming: the plan sets how many workers resume
    suspended_before_start,  # before planning: a suspended job reserves no GPUs
    suspension_differs,  # after the restarts, which suspend and resume by themselves
    queued,  # the checks below need an MPIJob that may run
    lacks_dataset_sizes,  # before any plan: it rests on them
    preflight_outstanding,  # before any plan: a plan holds GPUs
    lacks_plan,  # the checks below follow a plan
    spec_changed_before_start,  # a plan of an earlier spec is neither shown, approved nor carried out
    prefers_alternative,  # before the checks that show, refuse or carry out the plan in force
    start_policy_never,  # before the checks that carry a plan out
    plan_no_longer_fits,  # before approval: a person approves only a plan that can start
    rejected_by_person,  # before approval: where both name the plan it does not start
    awaits_approval,  # before anything is created
    lacks_partitions,  # before the MPIJob: workers read their partitions when they start
    lacks_mpijob,  # the checks below need an MPIJob
    resumed,  # before any gate: after a suspension the plan is stale
    stuck_on_lost_node,  # before any gate: the gang is complete only with replaced pods
    rank_left_out,  # before any gate: a gang that cannot complete gives its GPUs back
    lacks_new_partitions,  # before the gate: a replaced worker reads its partition when it starts
    gates_closed,  # workers first
    launcher_closed,  # then the launcher, which connects to the workers
    preemption_pays,  # only a job without any step left is restarted; preemption frees GPUs, so it comes first
    migration_pays,  # last: it only makes a job faster
)


def decide(state: ReconcileInput) -> Decision:
    """Return the next step of one job."""
    decision = next((step for check in CHAIN if (step := check(state)) is not None), None) or _running(state)
    left = seconds_left(state)
    if left is None or not isinstance(decision, Wait):
        return decision
    again = decision.retry_after_seconds
    return replace(decision, retry_after_seconds=left if again is None else min(left, again))


def _running(state: ReconcileInput) -> Decision:
    """Return the wait of a job without any step left: its run lasts, or its pods are starting."""
    gang = state.gang
    assert gang.mpijob is not None
    if gang.mpijob.is_true("Running"):
        return Wait(Reason.RUNNING)
    ready = sum(1 for pod in gang.workers if pod.ready)
    unschedulable = next((pod.unschedulable for pod in gang.workers if pod.unschedulable), "")
    return Wait(Reason.STARTING, f"{ready} of {gang.mpijob.workers} workers are ready{'; ' + unschedulable if unschedulable else ''}")
