"""`hyperscale evaluate`: what is known of a planned job before a GPU is spent; nothing is started."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

from hyperscale.cli import exit_codes, spinner
from hyperscale.cli.documents import display_name, read_text
from hyperscale.cli.evaluate.evaluation_view import show
from hyperscale.cli.evaluate.model_proof import model_proof
from hyperscale.cli.evaluate.proofs import check_certificate, refuse, write_certificate
from hyperscale.cli.evaluate.queue_view import queue_figures
from hyperscale.cli.evaluate.rewritten import write_rewrite
from hyperscale.cli.evaluate.tried_job import fits_table, tried_job
from hyperscale.cli.exit_codes import InputError
from hyperscale.cli.files import check_writable, replaced
from hyperscale.cli.plan import inputs, known_inputs, plan_command
from hyperscale.cli.plan.inputs import JobInput
from hyperscale.cli.plan.known_inputs import KnownInputs
from hyperscale.cli.plan.operator_preview import AskedJob
from hyperscale.cli.text_tables import data_text
from hyperscale.evaluate.pipeline.evaluation_question import (
    EvaluationQuestion,
    FailureAssumption,
    OwnDeadline,
    TriedJob,
    constant_rate,
    failures_of,
    first_epoch_deadline,
    of_table,
    with_repair,
)
from hyperscale.evaluate.pipeline.learned_runs import PastRuns
from hyperscale.evaluate.pipeline.run_stages import Evaluated, evaluate
from hyperscale.evaluate.twin.failure_table import read_failure_table
from hyperscale.model.api.evaluation_policy import EvaluationPolicy
from hyperscale.model.api.job import MAX_GPUS_PER_WORKER
from hyperscale.model.api.measured import LONGEST_SECONDS, SHORTEST_SECONDS
from hyperscale.model.evaluation import Evaluation
from hyperscale.model.plan import Infeasible, Plan
from hyperscale.pictures.evaluation_page import evaluation_page

HISTORY_VARIABLE: Final = "HYPERSCALE_HISTORY_URL"


def run(arguments: argparse.Namespace) -> int:
    """Evaluate and print; 0 unless the plan must not be carried out, or there is none."""
    _check_files(arguments)
    jobs = inputs.read_jobs([arguments.filename], arguments.namespace)
    if len(jobs) != 1:
        raise InputError(f"-f: {display_name(arguments.filename)} holds {len(jobs)} jobs; write one")
    job = jobs[0]
    sources = known_inputs.find(arguments, job)
    asked = plan_command.asked_about(job, plan_command.asked_spec(job, arguments), sources, arguments)
    plan = _plan(job, sources, asked, arguments)
    if isinstance(plan, Infeasible):
        return refuse(plan, asked.request, sources.snapshot, arguments.output)
    if arguments.certificate is not None:
        write_certificate(plan, asked.request, sources.snapshot, arguments.certificate)
    answer, outlook = _evaluated(_question(job, plan, asked, sources, arguments), arguments)
    _report(answer, plan, arguments.report)
    rewritten = write_rewrite(job, outlook, arguments.rewrite) if arguments.rewrite is not None else []
    if arguments.output == "table":
        print("\n".join([*show(answer, plan, sources.shown), *fits_table(answer.fits), *rewritten]))
    else:
        print(data_text(answer, arguments.output))
    return exit_codes.INFEASIBLE if answer.failed else exit_codes.OK


def _question(job: JobInput, plan: Plan, asked: AskedJob, sources: KnownInputs, arguments: argparse.Namespace) -> EvaluationQuestion:
    """Everything that the evaluation depends on."""
    policy = sources.policy.evaluation
    failures = with_repair(_failures(arguments) or failures_of(policy), policy)
    finished = _history(arguments)
    model = model_proof(job.spec, arguments)
    deadline = _deadline(job, arguments, policy)
    spinner.say("playing futures")
    return EvaluationQuestion(
        plan=plan,
        request=asked.request,
        snapshot=sources.snapshot,
        failures=replace(failures, repair_seconds=_given(arguments.repair_seconds, failures.repair_seconds)),
        deadline_seconds=deadline.seconds,
        deadline_note=deadline.note,
        write_seconds=_given(arguments.write_seconds, policy.checkpoint_write_seconds),
        restart_seconds=_given(arguments.restart_seconds, policy.restart_seconds),
        given_by=None if arguments.plan is None else sources.policy,
        queue=queue_figures(sources),
        policy=sources.policy,
        runs=finished.runs,
        past=finished.past,
        report=finished.report,
        facts=finished.facts,
        model_faults=model.faults,
        model_notes=model.notes,
        futures=arguments.futures,
        seed=asked.request.seed,
        stages=frozenset(arguments.stage or ()),
        preflight=_tried(job, plan, asked, sources, arguments),
    )


def _evaluated(question: EvaluationQuestion, arguments: argparse.Namespace) -> Evaluated:
    """What the stages find; what cannot be played is the fault of the files."""
    try:
        return evaluate(question)
    except ValueError as error:
        shown = display_name(arguments.filename if arguments.plan is None else arguments.plan)
        raise InputError(f"{shown}: cannot be evaluated: {error}") from None


def _tried(job: JobInput, plan: Plan, asked: AskedJob, sources: KnownInputs, arguments: argparse.Namespace) -> TriedJob | None:
    """What a preflight says, where it is named: it runs the author's code."""
    if "preflight" not in (arguments.stage or ()):
        return None
    return tried_job(job, asked.request.job, plan, sources.snapshot, arguments)


def _check_files(arguments: argparse.Namespace) -> None:
    """Raise InputError, before any time is spent, where an answer could not be written."""
    if arguments.report is not None:
        check_writable(arguments.report, "--report")
    if arguments.rewrite is not None:
        if arguments.stage and "twin" not in arguments.stage:
            raise InputError("--rewrite: builds on the stage twin; leave --stage out, or add --stage twin")
        check_writable(arguments.rewrite, "--rewrite")
    if arguments.certificate is not None:
        check_certificate(arguments.certificate)


def _plan(job: JobInput, sources: KnownInputs, asked: AskedJob, arguments: argparse.Namespace) -> Plan | Infeasible:
    """The plan of the file, else the planners' answer."""
    if arguments.plan is not None:
        return _read_plan(arguments.plan)
    return plan_command.only_answer(plan_command.decided(sources, [asked], asked.request.deadline_seconds))


def _read_plan(path: str) -> Plan:
    """A plan as `plan -o json` prints it."""
    try:
        plan = msgspec.json.decode(read_text(path), type=Plan)
    except msgspec.ValidationError as error:
        raise InputError(f"--plan: {display_name(path)}: {error}; write a plan as `hyperscale plan -o json` prints it") from None
    except msgspec.DecodeError as error:
        raise InputError(f"--plan: {display_name(path)}: is not JSON: {error}; write one with `hyperscale plan -o json`") from None
    if not plan.workers:
        raise InputError(f"--plan: {display_name(path)}: workers: the list is empty; write one with `hyperscale plan -o json`")
    for row, worker in enumerate(plan.workers):
        if not 1 <= worker.gpus <= MAX_GPUS_PER_WORKER:
            where = f"--plan: {display_name(path)}: workers[{row}].gpus"
            raise InputError(f"{where}: {worker.gpus} is no number of GPUs; write 1 to {MAX_GPUS_PER_WORKER}")
    predicted = plan.predicted
    for name, seconds in (
        ("epochSeconds", predicted.epoch_seconds),
        ("lowSeconds", predicted.low_seconds),
        ("highSeconds", predicted.high_seconds),
    ):
        if seconds is not None and not SHORTEST_SECONDS <= seconds <= LONGEST_SECONDS:
            place = f"--plan: {display_name(path)}: predicted.{name}"
            raise InputError(f"{place}: {seconds:g} s is no time of an epoch; write a plan with `hyperscale plan -o json`")
    return plan


def _failures(arguments: argparse.Namespace) -> FailureAssumption | None:
    """What a table of events tells, else a rate; None where the command line gives neither, and the policy counts."""
    if arguments.failures is not None:
        try:
            return of_table(read_failure_table(Path(arguments.failures)))
        except ValueError as error:
            shown = display_name(arguments.failures)
            raise InputError(f"--failures: {'' if str(error).startswith(shown) else f'{shown}: '}{error}") from None
    rate = arguments.failure_rate
    return None if rate is None else constant_rate(rate, f"As given: {rate:g} failures per 1,000 node-days.")


def _history(arguments: argparse.Namespace) -> PastRuns:
    """What finished runs teach, where a history is named."""
    url = arguments.history or os.environ.get(HISTORY_VARIABLE, "")
    if not url:
        return PastRuns()
    from hyperscale.cli.evaluate.past_runs import read_runs  # SQLAlchemy is another extra

    return read_runs(url)


def _deadline(job: JobInput, arguments: argparse.Namespace, policy: EvaluationPolicy) -> OwnDeadline:
    """The one that is given, else the job's own."""
    if arguments.deadline_seconds is not None:
        return OwnDeadline(arguments.deadline_seconds)
    return first_epoch_deadline(job.spec, _given(arguments.restart_seconds, policy.restart_seconds))


def _given(number: float | None, otherwise: float) -> float:
    return otherwise if number is None else number


def _report(answer: Evaluation, plan: Plan, path: str | None) -> None:
    if path is None:
        return
    with replaced(path, "--report") as fresh:
        fresh.write_text(evaluation_page(answer, plan), encoding="utf-8")
    inputs.note(f"report written: {path}")
