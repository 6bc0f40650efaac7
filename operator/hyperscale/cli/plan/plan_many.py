"""`hyperscale plan` of several jobs: which start now where, in which order, what becomes of the others. Nothing is created."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from hyperscale.cli import exit_codes
from hyperscale.cli.exit_codes import InputError
from hyperscale.cli.plan import known_inputs
from hyperscale.cli.plan.inputs import JobInput
from hyperscale.cli.plan.known_inputs import KnownInputs
from hyperscale.cli.plan.operator_preview import AskedJob, Decided
from hyperscale.cli.plan.outcome import Then, sentence
from hyperscale.cli.plan.plan_command import asked_about, decided, taught
from hyperscale.cli.text_tables import bullets, counted, data_text, pairs, seconds_text, table
from hyperscale.model.admission_query import MAX_TURN_JOBS, Deferral, QueueScore, Start
from hyperscale.model.api.job import JobSpec
from hyperscale.model.plan import Infeasible, Plan


class Other(Struct, frozen=True, rename="camel"):
    """A job that the operator plans and does not start."""

    key: str
    then: str
    message: str
    plan: Plan | UnsetType = UNSET
    infeasible: Infeasible | UnsetType = UNSET


class PlansDocument(Struct, frozen=True, rename="camel"):
    """What `-o json` prints of several jobs."""

    starts: list[Start]
    holds: list[Deferral]
    others: list[Other]
    score: QueueScore | None
    fallbacks: tuple[str, ...]
    figures: str


def check(jobs: Sequence[JobInput], arguments: argparse.Namespace) -> None:
    """InputError for what does not go with several jobs."""
    if arguments.workers is not None:
        raise InputError("--workers: counts for one job; several are named, leave it out")
    if arguments.source == known_inputs.JOB:
        raise InputError("--from job: asks about one job; several are named, use --from operator or api")
    if len(jobs) > MAX_TURN_JOBS:
        raise InputError(f"{jobs[0].shown}: {len(jobs)} jobs are named; write {MAX_TURN_JOBS} at most")
    if len({job.key for job in jobs}) < len(jobs):
        raise InputError(f"{jobs[0].shown}: two jobs have the same namespace and name; give each a name of its own")
    if len({job.spec.policy_ref.name if job.spec.policy_ref is not None else "" for job in jobs}) > 1:
        raise InputError(f"{jobs[0].shown}: the jobs name different policies in spec.policyRef; plan them separately")


def run(arguments: argparse.Namespace, jobs: Sequence[JobInput], specs: Sequence[JobSpec]) -> int:
    """Decide and print; 0 where some job has a plan, 1 where none fits."""
    lessons = taught(arguments, specs)
    sources = known_inputs.find(arguments, jobs[0]).taught_by(lessons)
    asked = [asked_about(job, spec, sources, arguments) for job, spec in zip(jobs, specs, strict=True)]
    came = decided(sources, asked, arguments.deadline or sources.policy.plan_deadline_seconds * 2)
    if isinstance(came, Infeasible):
        print(exit_codes.one_line(came.message), file=sys.stderr)
        return exit_codes.INFEASIBLE
    print(_table(came, sources) if arguments.output in ("table", "wide") else _data(came, sources, arguments.output), end="")
    planned = came.starts or any(isinstance(answer, Plan) for _, answer in came.others)
    return exit_codes.OK if planned else exit_codes.INFEASIBLE


def _data(came: Decided, sources: KnownInputs, form: str) -> str:
    others = [
        Other(one.job.key, str(one.outcome.then), sentence(one.outcome, one.job, answer), plan=answer)
        if isinstance(answer, Plan)
        else Other(one.job.key, str(one.outcome.then), answer.message or answer.reason, infeasible=answer)
        for one, answer in came.others
    ]
    document = PlansDocument(came.starts, came.holds, others, came.score, came.fallbacks, sources.shown)
    return data_text(document, form, "deterministic").rstrip("\n") + "\n"


def _table(came: Decided, sources: KnownInputs) -> str:
    rows = [
        (start.key, str(Then.STARTS), str(len(start.plan.workers)), seconds_text(start.run_seconds), _nodes(start.plan))
        for start in came.starts
    ]
    rows += [(hold.key, hold.reason, "-", seconds_text(hold.run_seconds), hold.message or "others go first") for hold in came.holds]
    rows += [_other(one, answer) for one, answer in came.others]
    lines = table(("JOB", "DECISION", "WORKERS", "RUN", "NODES, OR WHY NOT"), rows, right=frozenset({2}))
    waiting = [(one, answer) for one, answer in came.others if isinstance(answer, Plan)]
    lines += bullets("Not started", (f"{one.job.key} {sentence(one.outcome, one.job, plan)}" for one, plan in waiting))
    if came.score is not None:
        agent = "" if came.score.agent is None else f", {seconds_text(came.score.agent)} as the agent orders them"
        scored = f"{seconds_text(came.score.rule)} as the rule orders them{agent}"
        lines += ["", f"Weighted mean time until they end: {scored}; the {came.score.used.lower()}'s order is used."]
    lines += ["", *pairs([("Figures", sources.shown)]), *bullets("Approximate: made without", came.missing)]
    return "\n".join([*lines, *(f"Step down: {step}" for step in came.fallbacks)]) + "\n"


def _other(one: AskedJob, answer: Plan | Infeasible) -> tuple[str, str, str, str, str]:
    if isinstance(answer, Infeasible):
        return one.job.key, f"{one.outcome.then}; {answer.reason}", "-", "unknown", answer.message or answer.reason
    seconds = answer.predicted.epoch_seconds * one.request.job.model.epochs
    return one.job.key, str(one.outcome.then), str(len(answer.workers)), seconds_text(seconds), _nodes(answer)


def _nodes(plan: Plan) -> str:
    by_node: dict[str, Any] = plan.gpus_by_node()
    return ", ".join(f"{name} ({counted(gpus, 'GPU')})" for name, gpus in sorted(by_node.items()))
