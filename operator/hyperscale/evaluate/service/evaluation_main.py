"""The evaluation process: `python -m hyperscale.evaluate.service.evaluation_main` reads one question and prints one answer.

It exists so that a stage that hangs, crashes or eats memory ends with it, and the operator lives on. Libraries print to stderr.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import Final

import msgspec

from hyperscale.evaluate.pipeline.evaluation_question import (
    EvaluationQuestion,
    FailureAssumption,
    failures_of,
    first_epoch_deadline,
    with_repair,
)
from hyperscale.evaluate.pipeline.futures_budget import affordable_futures
from hyperscale.evaluate.pipeline.learned_failures import learned_failures, learned_repair
from hyperscale.evaluate.pipeline.learned_runs import forecast_run
from hyperscale.evaluate.pipeline.run_stages import evaluate
from hyperscale.evaluate.service.evaluation_frames import MAX_QUESTION_BYTES, QUESTIONS, EvaluationAsk
from hyperscale.model.evaluation import FAULT_NAMES, EvaluationStatus, status_of
from hyperscale.util.child_process import begin

PIECE_BYTES: Final = 1 << 20


def answer(ask: EvaluationAsk) -> EvaluationStatus:
    """What the status of the job says; the same question gives the same answer."""
    terms = ask.policy.evaluation
    deadline = first_epoch_deadline(ask.request.job, terms.restart_seconds)
    question = EvaluationQuestion(
        plan=ask.plan,
        request=ask.request,
        snapshot=ask.snapshot,
        failures=failures_taken(ask),
        deadline_seconds=deadline.seconds,
        deadline_note=deadline.note,
        write_seconds=terms.checkpoint_write_seconds,
        restart_seconds=float(terms.restart_seconds),
        queue=ask.queue,
        policy=ask.policy,
        futures=ask.futures,
        seed=ask.request.seed,
        runs=tuple(map(forecast_run, ask.lessons.runs)),
        past=ask.lessons.past,
        report=ask.lessons.report,
    )
    return status_of(evaluate(replace(question, futures=affordable_futures(question))).answer)


def failures_taken(ask: EvaluationAsk) -> FailureAssumption:
    """Return what the policy says of failures, else what the nodes themselves have shown."""
    terms, nodes, now = ask.policy.evaluation, ask.lessons.nodes, ask.lessons.now
    if terms.failures_per_thousand_node_days is None:
        return with_repair(learned_failures(nodes, now), terms)
    return with_repair(replace(failures_of(terms), repair_seconds=learned_repair(nodes, now)), terms)


def main() -> int:
    """Answer on the standard streams; 0 with an answer, 1 without."""
    options = _options()
    sink = begin(options.nice, options.memory_bytes)
    try:
        sink.write(msgspec.json.encode(answer(QUESTIONS.decode(_question()))))
        sink.flush()
    except (ValueError, ArithmeticError, LookupError, MemoryError, OSError) as error:
        named = str(error).partition(":")[0] in FAULT_NAMES
        sys.stderr.write(f"{error}\n" if named else f"evaluation: {type(error).__name__}: {error}\n")
        return 1
    return 0


def _question() -> bytes:
    """Standard input. In pieces: one read of the longest question would take its memory before the first byte comes."""
    body = bytearray()
    while part := sys.stdin.buffer.read(PIECE_BYTES):
        body += part
        if len(body) > MAX_QUESTION_BYTES:
            raise ValueError(f"a question of more than {MAX_QUESTION_BYTES} bytes")
    return bytes(body)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Evaluation process of the HyperScale operator.")
    parser.add_argument("--nice", type=int, default=0, help="added to the niceness, so that evaluation never starves the operator")
    parser.add_argument("--memory-bytes", type=int, default=0, help="limit of what the process can write; 0 sets none")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
