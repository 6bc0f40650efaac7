"""`hyperscale reject`: the plan that waits for a person does not start."""

from __future__ import annotations

import argparse

import msgspec

from hyperscale.cli import exit_codes
from hyperscale.cli.approve.decided_job import PLANNED, annotate, because_of, check_plan, read_waiting
from hyperscale.cli.plan.offers_view import offers_lines
from hyperscale.cli.text_tables import print_answer, printable
from hyperscale.model import constants


class Rejected(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What was rejected; the schema of `-o json`."""

    job: str
    plan_id: str
    because: str = ""
    alternatives: tuple[str, ...] = ()
    """Ids of the plans that may be preferred instead."""


def run(arguments: argparse.Namespace) -> int:
    """Reject; 2 where the plan is not the one that was asked for, or does not wait for a person."""
    because = because_of(arguments)
    job = read_waiting(arguments, PLANNED, "a person")
    check_plan(job, arguments.plan, "reject")
    written: dict[str, str | None] = {
        constants.REJECTED_PLAN_ANNOTATION: job.plan.plan_id,
        constants.REJECTED_BECAUSE_ANNOTATION: because or None,
    }
    if constants.APPROVED_PLAN_ANNOTATION in job.annotations:
        written |= {constants.APPROVED_PLAN_ANNOTATION: None, constants.APPROVED_BECAUSE_ANNOTATION: None}
    annotate(job, written, "reject")
    offers = job.status.alternatives.offers if job.status.alternatives is not None else ()
    others = tuple(offer.plan_id for offer in offers if offer.plan_id != job.plan.plan_id)
    answer = Rejected(job.key, job.plan.plan_id, because, others)
    instead = "Prefer an alternative with `hyperscale prefer`, or change the spec." if others else "Change the spec to get another plan."
    lines = [f"Rejected: {answer.job}, plan {answer.plan_id}; it does not start. {instead}", *offers_lines(offers, answer.plan_id)]
    print_answer(answer, map(printable, lines), arguments.output)
    return exit_codes.OK
