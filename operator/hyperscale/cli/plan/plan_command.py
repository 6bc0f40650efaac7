"""`hyperscale plan`: jobs on what the operator knows of the cluster to plans, in this process and within a deadline; nothing is started.

Several jobs are decided together, as the operator would: plan_many.py shows that. Where the operator's figures cannot be read it is
asked with a temporary job (ask.py).
"""

from __future__ import annotations

import argparse
import re
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from hyperscale.cli import exit_codes, spinner
from hyperscale.cli.exit_codes import InputError
from hyperscale.cli.plan import inputs, known_inputs
from hyperscale.cli.plan.inputs import JobInput
from hyperscale.cli.plan.known_inputs import KnownInputs, UnavailableError
from hyperscale.cli.plan.offers_view import offers_lines, preview_offers
from hyperscale.cli.plan.outcome import outcome_of, sentence
from hyperscale.cli.plan.plan_view import refused, show
from hyperscale.model.api.job import JobSpec, PlannerChoice, StartPolicy
from hyperscale.model.decision import Reason
from hyperscale.model.plan import Infeasible, Plan
from hyperscale.model.planning import NO_VOLUMES, Volumes

if TYPE_CHECKING:
    from hyperscale.cli.live import LiveCluster
    from hyperscale.cli.plan.operator_preview import AskedJob, Decided
    from hyperscale.cli.plan.plan_history import PlanLessons

WIDE: Final = "wide"
"""Output of a table with alternatives."""
FEWER_WORKERS: Final = re.compile("delete the MPIJob to plan with fewer workers", re.IGNORECASE)
"""What planners advise where a number of workers is fixed: in the operator an MPIJob fixes it, here --workers."""
GRACE_SECONDS: Final = 5.0
"""Planners keep the deadline themselves; so long after it the process stops waiting for them."""


def run(arguments: argparse.Namespace) -> int:
    """Plan and print; 0 where some job has a plan, 1 where none has."""
    jobs = inputs.read_jobs(arguments.filename, arguments.namespace)
    specs = [asked_spec(job, arguments) for job in jobs]
    if len(jobs) > 1:
        from hyperscale.cli.plan import plan_many  # one job need not wait for its imports

        plan_many.check(jobs, arguments)
        return plan_many.run(arguments, jobs, specs)
    (job,), (spec,) = jobs, specs
    if asks_operator(arguments):
        return _ask(job, spec, arguments)
    lessons = taught(arguments, specs)
    if arguments.snapshot is not None or known_inputs.chosen(arguments) is not None:
        return _single(known_inputs.find(arguments, job).taught_by(lessons), job, spec, arguments)
    cluster = inputs.connect(arguments)
    try:
        return _single(known_inputs.of_operator(cluster, arguments, job).taught_by(lessons), job, spec, arguments)
    except UnavailableError as closed:
        inputs.note(f"the operator's own figures cannot be read: {closed}")
    if all(getattr(arguments, option) is None for option in ("policy", "seed", "history")):
        try:
            return _ask(job, spec, arguments)
        except UnavailableError as closed:
            inputs.note(f"the operator cannot be asked with a temporary job: {closed}")
    return _single(known_inputs.of_api(cluster, arguments, job).taught_by(lessons), job, spec, arguments)


def taught(arguments: argparse.Namespace, jobs: Sequence[JobSpec]) -> PlanLessons | None:
    """What the runs of --history teach about jobs; None without the option."""
    if arguments.history is None:
        return None
    from hyperscale.cli.plan.plan_history import read_lessons

    spinner.say("reading the history")
    return read_lessons(arguments.history, arguments.min_runs, jobs)


def asks_operator(arguments: argparse.Namespace) -> bool:
    """Whether --from says job, which some options do not go with."""
    if arguments.source != known_inputs.JOB:
        return False
    known_inputs.chosen(arguments)  # refuses --prometheus together with it
    for option in ("snapshot", "policy", "seed", "history"):
        if getattr(arguments, option) is not None:
            raise InputError(f"--{option}: is of no use with --from job, where the operator plans; leave one out")
    return True


def asked_about(job: JobInput, spec: JobSpec, sources: KnownInputs, arguments: argparse.Namespace) -> AskedJob:
    """The question that the operator would put about the job, with what the command line changes."""
    from hyperscale.cli.plan.operator_preview import AskedJob
    from hyperscale.control.render.template import RenderError
    from hyperscale.control.specs.plan_question import missing_volumes, question_about

    if spec.planner not in sources.policy.planners:
        allowed = ", ".join(planner.value for planner in sources.policy.planners)
        raise InputError(f"{job.shown}: spec.planner: the policy allows {allowed}, not {spec.planner.value}; choose one with --planner")
    try:
        volumes, missing = _volumes(job, spec, sources.cluster)
        calibration, corrections = sources.calibration(spec, job.namespace), sources.corrections(spec, job.namespace)
        asked = question_about(job.key, spec, sources.policy, calibration, volumes=volumes.rules, corrections=corrections)
    except RenderError as error:
        raise InputError(f"{job.shown}: {error.path}: {error.message}") from None
    request = replace(
        asked,
        seed=asked.seed if arguments.seed is None else arguments.seed,
        deadline_seconds=arguments.deadline or asked.deadline_seconds,
        workers_fixed=arguments.workers,
    )
    refusal = missing_volumes(job.namespace, volumes.missing) if volumes.missing and spec.start_policy is not StartPolicy.NEVER else None
    return AskedJob(job, request, outcome_of(job, spec), refusal, missing)


def _volumes(job: JobInput, spec: JobSpec, cluster: LiveCluster | None) -> tuple[Volumes, tuple[str, ...]]:
    """What the job's volumes allow, and what could not be read; nothing is known of them in a file."""
    if cluster is None:
        return NO_VOLUMES, ()
    from hyperscale.cli.plan.claim_volumes import UNREAD, look
    from hyperscale.control.render.template import RenderError

    try:
        volumes, whole = look(cluster, job, spec)
    except RenderError as error:
        raise InputError(f"{job.shown}: {error.path}: {error.message}") from None
    return volumes, () if whole else (UNREAD,)


def decided(sources: KnownInputs, asked: Sequence[AskedJob], deadline_seconds: float) -> Decided | Infeasible:
    """What comes of the jobs, within a hard limit; Infeasible where no planner answered."""
    from hyperscale.cli.plan.operator_preview import Preview
    from hyperscale.planner.queue.joint import QueueError

    spinner.say("planning")
    try:
        with _hard_stop(deadline_seconds + GRACE_SECONDS):
            return Preview(sources, deadline_seconds).decide(asked)
    except _DeadlineError:
        message = f"no planner answered within {deadline_seconds:g} s; raise --deadline, or lower spec.workers.maxReplicas"
        return Infeasible(reason="PlannerFailed", message=message)
    except QueueError as error:
        return Infeasible(reason="PlannerFailed", message=f"no decision: {error}; raise --deadline, or write fewer jobs")
    except ValueError as error:
        raise InputError(f"{asked[0].job.shown}: {error}") from None


def _single(sources: KnownInputs, job: JobInput, spec: JobSpec, arguments: argparse.Namespace) -> int:
    asked = asked_about(job, spec, sources, arguments)
    answer = only_answer(decided(sources, [asked], asked.request.deadline_seconds))
    if isinstance(answer, Infeasible):
        return refuse(answer, arguments)
    form = "table" if arguments.output == WIDE else arguments.output
    print(show(answer, job, sentence(asked.outcome, job, answer), sources.shown, form, sources), end="")
    if arguments.output == WIDE:
        print("\n".join(_offers(sources, asked, answer)))
    return exit_codes.OK


def _offers(sources: KnownInputs, asked: AskedJob, plan: Plan) -> list[str]:
    """The plans that the operator would offer beside this one, looked for as long as the plan itself may take."""
    state, ends = sources.state, time.monotonic() + asked.request.deadline_seconds
    request = replace(asked.request, asked_sizes=sources.asked_sizes)
    if state is not None:
        request = replace(request, free_gpus=dict(state.free_gpus), reserved_amounts=dict(state.reserved_amounts))
    offered = preview_offers(request, plan, sources.snapshot, sources.policy, lambda: time.monotonic() >= ends)
    return offers_lines(offered.offers, plan.plan_id) or ["", "No alternative trades time, cost and risk."]


def only_answer(decisions: Decided | Infeasible) -> Plan | Infeasible:
    """The answer about the only job."""
    if isinstance(decisions, Infeasible):
        return decisions
    if decisions.starts:
        return decisions.starts[0].plan
    if decisions.others:
        return decisions.others[0][1]
    hold = decisions.holds[0]
    if hold.infeasible is not None:
        return replace(hold.infeasible, message=FEWER_WORKERS.sub("give --workers a smaller number", hold.infeasible.message))
    return Infeasible(reason=hold.reason, message=hold.message or "other jobs go first")


def _ask(job: JobInput, spec: JobSpec, arguments: argparse.Namespace) -> int:
    """The operator's own answer to a temporary job; raises UnavailableError where it gives none, unless --from says job."""
    from hyperscale.cli.plan.ask import ask
    from hyperscale.control.specs.plan_question import missing_volumes

    cluster = inputs.connect(arguments)
    missing = _volumes(job, spec, cluster)[0].missing
    if missing and spec.start_policy is not StartPolicy.NEVER:  # a job that never starts says nothing of them
        return refuse(missing_volumes(job.namespace, missing), arguments)
    try:
        name, answer = ask(cluster, job, arguments)
    except UnavailableError as closed:
        if arguments.source == known_inputs.JOB:
            raise InputError(f"--from job: {closed}") from None
        raise
    if isinstance(answer, Infeasible):
        return refuse(answer, arguments)
    age = answer.figures.age_seconds if answer.figures is not None else None
    oldest = "" if age is None else f", from figures up to {age:g} s old"
    shown = f"of the operator, asked with the temporary job {job.namespace}/{name}{oldest}"
    form = "table" if arguments.output == WIDE else arguments.output  # a temporary job is not searched for alternatives
    print(show(answer, job, sentence(outcome_of(job, spec), job, answer), shown, form), end="")
    return exit_codes.OK


def refuse(answer: Infeasible, arguments: argparse.Namespace) -> int:
    """Print why there is no plan; return the exit code."""
    waits = answer.reason in (Reason.WAITING_FOR_ADMISSION, Reason.WAITING_FOR_BETTER_NODES)
    print(exit_codes.one_line(f"{'waits' if waits else 'no plan'}: {answer.message or answer.reason}"), file=sys.stderr)
    print(refused(answer, "table" if arguments.output == WIDE else arguments.output), end="")
    return exit_codes.INFEASIBLE


def asked_spec(job: JobInput, arguments: argparse.Namespace) -> JobSpec:
    """The job's spec with what the command line changes; InputError where the two cannot be combined."""
    spec = job.spec
    if arguments.planner is not None:
        spec = replace(spec, planner=_planner(arguments.planner))
    if spec.planner is PlannerChoice.NONE:
        raise InputError(f"{job.shown}: spec.planner: None asks for no plan; see one with --planner Heuristic")
    least, most = spec.workers.min_replicas, spec.workers.max_replicas
    if arguments.workers is not None and not least <= arguments.workers <= most:
        raise InputError(f"--workers: {arguments.workers} is outside spec.workers of {job.shown}; write {least} to {most}")
    return spec


class _DeadlineError(Exception):
    """The alarm rang."""


@contextmanager
def _hard_stop(seconds: float) -> Iterator[None]:
    """Raise _DeadlineError inside the block when the seconds are over (main thread only: Python delivers signals nowhere else)."""

    def ring(_signal: int, _frame: FrameType | None) -> None:
        raise _DeadlineError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def _planner(name: str) -> PlannerChoice:
    """The planner of that name; raises InputError."""
    names = [choice.value for choice in PlannerChoice if choice is not PlannerChoice.NONE]
    if name not in names:
        raise InputError(f"--planner: {name[:40]!r} is no planner; write one of {', '.join(names)}")
    return PlannerChoice(name)
