"""`hyperscale prefer`: make an alternative the plan of a job that waits for a person, and show what that changes."""

from __future__ import annotations

import argparse
from typing import Final

import msgspec

from hyperscale.cli import exit_codes
from hyperscale.cli.approve.decided_job import PLANNED, WaitingJob, annotate, because_of, read_waiting
from hyperscale.cli.exit_codes import InputError
from hyperscale.cli.explain.explanation import plan_sentence
from hyperscale.cli.explain.plan_difference import PlanDifference, difference, difference_lines
from hyperscale.cli.text_tables import print_answer, printable
from hyperscale.model import constants
from hyperscale.model.offers.plan_offers import PlanAlternative, prior_of
from hyperscale.model.plan import Plan

NEVER_STARTS: Final = "spec.startPolicy is Never; write spec.startPolicy: Manual"


class Preferred(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What was preferred; the schema of `-o json`."""

    job: str
    plan_id: str
    difference: PlanDifference
    """Against the plan in force until now."""
    because: str = ""
    approved: bool = False
    dry_run: bool = False
    """True: nothing was written."""


def run(arguments: argparse.Namespace) -> int:
    """Prefer; 2 where the plan is none of the alternatives, or none waits for a person."""
    because = because_of(arguments)
    job = read_waiting(arguments, PLANNED, "a person")
    plan = _offered(job, arguments.alternative)
    if arguments.approve and not job.may_start:
        raise InputError(f"{job.shown}: --approve: {NEVER_STARTS}, or leave --approve out")
    if not arguments.dry_run:
        annotate(job, _annotations(job, plan.plan_id, because, arguments.approve), "prefer")
    change = difference(prior_of(job.plan), plan)
    answer = Preferred(job.key, plan.plan_id, change, because, arguments.approve, arguments.dry_run)
    print_answer(answer, map(printable, _lines(answer, plan, job.may_start)), arguments.output)
    return exit_codes.OK


def _lines(answer: Preferred, plan: Plan, may_start: bool) -> list[str]:
    done = "Would be preferred (nothing was written)" if answer.dry_run else "Preferred and approved" if answer.approved else "Preferred"
    then = "" if answer.approved or answer.dry_run else "It starts once it is approved: `hyperscale approve`."
    if not may_start:
        then = f"It does not start: {NEVER_STARTS}."
    lines = [f"{done}: {answer.job}, plan {answer.plan_id}.", plan_sentence(plan), *difference_lines(answer.difference)]
    return [*lines, "", then] if then else lines


def _offered(job: WaitingJob, wanted: str) -> Plan:
    """The whole plan of an alternative; raises InputError where it is none, or in force already."""
    offers: tuple[PlanAlternative, ...] = job.status.alternatives.offers if job.status.alternatives is not None else ()
    plan = next((offer.plan for offer in offers if offer.plan_id == wanted and offer.plan is not None), None)
    if plan is not None:
        return plan
    if wanted == job.plan.plan_id:
        raise InputError(f"{job.shown}: plan {wanted} is in force already; approve it with `hyperscale approve`")
    others = ", ".join(offer.plan_id for offer in offers if offer.plan_id != job.plan.plan_id)
    choose = f"write one of {others}" if others else "it has none, or they are not found yet"
    raise InputError(f"{job.shown}: plan {wanted[:64]!r} is none of its alternatives; {choose}")


def _annotations(job: WaitingJob, plan_id: str, because: str, approve: bool) -> dict[str, str | None]:
    """The preference; with --approve the approval of this very plan, which is void where it does not become the plan."""
    written: dict[str, str | None] = {
        constants.PREFERRED_PLAN_ANNOTATION: plan_id,
        constants.PREFERRED_BECAUSE_ANNOTATION: because or None,
    }
    if approve:
        written |= {constants.APPROVED_PLAN_ANNOTATION: plan_id, constants.APPROVED_BECAUSE_ANNOTATION: because or None}
    if job.annotations.get(constants.REJECTED_PLAN_ANNOTATION) == plan_id:
        written |= {constants.REJECTED_PLAN_ANNOTATION: None, constants.REJECTED_BECAUSE_ANNOTATION: None}
    return written
