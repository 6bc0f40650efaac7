"""`hyperscale plan`: one job on one snapshot to a plan, in this process and within a deadline; nothing is created.

Several jobs in one file are planned together: plan_many.py.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from msgspec.structs import replace

from hyperscale.cli import errors, inputs
from hyperscale.cli.errors import InputError
from hyperscale.cli.plan_view import PlanView, refused, show
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.job import JobSpec, PlannerChoice
from hyperscale.model.plan import Infeasible, Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.model.policy import PolicySpec

GRACE_SECONDS: Final = 5.0
"""Planners keep the deadline themselves; so long after it the process stops waiting for them."""


def run(arguments: argparse.Namespace) -> int:
    """Plan and print; 0 with a plan, 1 without."""
    job, *others = inputs.read_jobs(arguments.filename, arguments.namespace)
    if others:
        from hyperscale.cli import plan_many  # one job need not wait for its imports

        return plan_many.run(arguments, [job, *others])
    spec = _asked(job, arguments)
    policy, snapshot = inputs.policy_and_snapshot(arguments, job)
    if spec.planner not in policy.planners:
        allowed = ", ".join(planner.value for planner in policy.planners)
        raise InputError(f"{job.shown}: spec.planner: the policy allows {allowed}, not {spec.planner.value}; choose one with --planner")
    request = replace(question(job, spec, policy, arguments), workers_fixed=arguments.workers)
    answer = _plan(request, snapshot, policy, job.shown)
    if isinstance(answer, Infeasible):
        print(errors.one_line(f"no plan: {answer.message or answer.reason}"), file=sys.stderr)
        print(refused(answer, arguments.output), end="")
        return errors.INFEASIBLE
    print(show(PlanView(answer, request, snapshot, policy), arguments.output), end="")
    return errors.OK


def question(job: inputs.Job, spec: JobSpec, policy: PolicySpec, arguments: argparse.Namespace) -> PlanRequest:
    """The question that the operator would put about the job, with what the command line changes."""
    from hyperscale.question import question_about
    from hyperscale.render.template import RenderError

    try:
        asked = question_about(job.key, spec, policy)
    except RenderError as error:
        raise InputError(f"{job.shown}: {error.path}: {error.message}") from None
    return replace(
        asked,
        seed=asked.seed if arguments.seed is None else arguments.seed,
        deadline_seconds=arguments.deadline or asked.deadline_seconds,
    )


def _asked(job: inputs.Job, arguments: argparse.Namespace) -> JobSpec:
    """The job's spec with what the command line changes; InputError where the two cannot be combined."""
    spec = job.spec
    if arguments.planner is not None:
        spec = replace(spec, planner=PlannerChoice(arguments.planner))
    if spec.planner is PlannerChoice.NONE:
        raise InputError(f"{job.shown}: spec.planner: None asks for no plan; see one with --planner Heuristic")
    least, most = spec.workers.min, spec.workers.max
    if arguments.workers is not None and not least <= arguments.workers <= most:
        raise InputError(f"--workers: {arguments.workers} is outside spec.workers of {job.shown}; write {least} to {most}")
    return spec


def _plan(request: PlanRequest, snapshot: ClusterSnapshot, policy: PolicySpec, shown: str) -> Plan | Infeasible:
    """Graph, workload and planners, one after the other."""
    from hyperscale.graph.cluster import build
    from hyperscale.plan.learned import planners
    from hyperscale.plan.portfolio import make_plan
    from hyperscale.workload.profile import profile

    try:
        workload = profile(request.job)
    except ValueError as error:
        raise InputError(f"{shown}: {error}") from None
    ends = time.monotonic() + request.deadline_seconds
    try:
        with _hard_stop(request.deadline_seconds + GRACE_SECONDS):
            graph, used = build(snapshot, policy), planners()
            return make_plan(request, graph, workload, policy, expired=lambda: time.monotonic() >= ends, planners=used)
    except _DeadlineError:
        message = f"no planner answered within {request.deadline_seconds:g} s; raise --deadline, or lower spec.workers.max"
        return Infeasible(reason="PlannerFailed", message=message)


class _DeadlineError(Exception):
    """The alarm rang."""


@contextmanager
def _hard_stop(seconds: float) -> Iterator[None]:
    """Raise _DeadlineError inside the block after so many seconds (main thread only: Python delivers signals nowhere else)."""

    def ring(_signal: int, _frame: FrameType | None) -> None:
        raise _DeadlineError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
