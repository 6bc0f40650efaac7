"""The evaluation process: `python -m hyperscale.evaluate.service.evaluation_main` reads one question and prints one answer.

It exists so that a stage that hangs, crashes or eats memory ends with it, and the operator lives on. Libraries print to stderr.
"""

from __future__ import annotations

import argparse
import sys

import msgspec

from hyperscale.evaluate.pipeline.evaluation_question import EvaluationQuestion, first_epoch_deadline
from hyperscale.evaluate.pipeline.learned_failures import learned_failures
from hyperscale.evaluate.pipeline.learned_runs import forecast_run
from hyperscale.evaluate.pipeline.run_stages import evaluate
from hyperscale.evaluate.service.evaluation_frames import MAX_QUESTION_BYTES, QUESTIONS, EvaluationAsk
from hyperscale.model.evaluation import EvaluationStatus, status_of
from hyperscale.util.child_process import begin


def answer(ask: EvaluationAsk) -> EvaluationStatus:
    """What the status of the job says; the same question gives the same answer."""
    question = EvaluationQuestion(
        plan=ask.plan,
        request=ask.request,
        snapshot=ask.snapshot,
        failures=learned_failures(ask.lessons.nodes, ask.lessons.now),
        deadline_seconds=first_epoch_deadline(ask.request.job),
        futures=ask.futures,
        seed=ask.request.seed,
        runs=tuple(map(forecast_run, ask.lessons.runs)),
        past=ask.lessons.past,
    )
    return status_of(evaluate(question).answer)


def main() -> int:
    """Answer on the standard streams; 0 with an answer, 1 without."""
    options = _options()
    sink = begin(options.nice, options.memory_bytes)
    body = sys.stdin.buffer.read(MAX_QUESTION_BYTES + 1)
    try:
        if len(body) > MAX_QUESTION_BYTES:
            raise ValueError(f"a question of more than {MAX_QUESTION_BYTES} bytes")
        sink.write(msgspec.json.encode(answer(QUESTIONS.decode(body))))
        sink.flush()
    except (ValueError, ArithmeticError, LookupError, MemoryError, OSError) as error:
        sys.stderr.write(f"evaluation: {type(error).__name__}: {error}\n")
        return 1
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Evaluation process of the HyperScale operator.")
    parser.add_argument("--nice", type=int, default=0, help="added to the niceness, so that evaluation never starves the operator")
    parser.add_argument("--memory-bytes", type=int, default=0, help="limit of what the process can write; 0 sets none")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
