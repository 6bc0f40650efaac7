"""`hyperscale approve`: let the plan of a job with `startPolicy: Manual` start, as it was seen and not as it may have become."""

from __future__ import annotations

import argparse

import msgspec

from hyperscale.cli import exit_codes
from hyperscale.cli.approve.decided_job import WAITING, WaitingJob, annotate, because_of, check_plan, read_waiting
from hyperscale.cli.explain.explanation import plan_sentence
from hyperscale.cli.explain.plan_difference import PlanDifference, difference, difference_lines
from hyperscale.cli.plan.offers_view import offers_lines
from hyperscale.cli.text_tables import print_answer, printable
from hyperscale.model import constants
from hyperscale.model.status import JobStatus


class Approved(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What was approved; the schema of `-o json`."""

    job: str
    plan_id: str
    because: str = ""
    evaluated: str = ""
    """What was found out about the plan; empty where nothing was yet."""
    dry_run: bool = False
    """True: nothing was written."""
    difference: PlanDifference | None = None
    """Against the plan before; absent where there was none."""


def run(arguments: argparse.Namespace) -> int:
    """Approve; 2 where the plan is not the one that was asked for, or does not wait for a person."""
    because = because_of(arguments)
    job = read_waiting(arguments, WAITING, "approval")
    check_plan(job, arguments.plan, "approve")
    if not arguments.dry_run:
        annotate(job, _annotations(job, because), "approve")
    prior = job.status.prior_plan
    change = difference(prior, job.plan) if prior is not None else None
    answer = Approved(job.key, job.plan.plan_id, because, _evaluated(job.status), arguments.dry_run, change)
    print_answer(answer, map(printable, _lines(job, answer)), arguments.output)
    return exit_codes.OK


def _lines(job: WaitingJob, answer: Approved) -> list[str]:
    done = "Would be approved (nothing was written)" if answer.dry_run else "Approved"
    lines = [f"{done}: {answer.job}, plan {answer.plan_id}.", plan_sentence(job.plan)]
    lines += [f"It was evaluated: {answer.evaluated}."] if answer.evaluated else []
    if answer.dry_run:
        lines += difference_lines(answer.difference) if answer.difference is not None else []
        offered = job.status.alternatives
        lines += offers_lines(offered.offers, answer.plan_id, offered.recommended) if offered is not None else []
    return lines


def _annotations(job: WaitingJob, because: str) -> dict[str, str | None]:
    """The approval; what a person said before of this or another plan is withdrawn, else it would outweigh the approval."""
    written: dict[str, str | None] = {
        constants.APPROVED_PLAN_ANNOTATION: job.plan.plan_id,
        constants.APPROVED_BECAUSE_ANNOTATION: because or None,
    }
    if job.annotations.get(constants.REJECTED_PLAN_ANNOTATION) == job.plan.plan_id:
        written |= {constants.REJECTED_PLAN_ANNOTATION: None, constants.REJECTED_BECAUSE_ANNOTATION: None}
    if job.annotations.get(constants.PREFERRED_PLAN_ANNOTATION, job.plan.plan_id) != job.plan.plan_id:
        written |= {constants.PREFERRED_PLAN_ANNOTATION: None, constants.PREFERRED_BECAUSE_ANNOTATION: None}
    return written


def _evaluated(status: JobStatus) -> str:
    condition = status.condition("Evaluated")
    return condition.message if condition is not None and condition.status != "Unknown" else ""
