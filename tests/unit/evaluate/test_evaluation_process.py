"""An evaluation in its own process: it answers, and whatever it does instead ends with its deadline."""

from __future__ import annotations

import sys
import time
from typing import Final

import pytest

from hyperscale.control.scheduler.plan_evaluation import worst
from hyperscale.evaluate.service.evaluation_frames import MAX_ANSWER_BYTES, EvaluationAsk, part_of
from hyperscale.evaluate.service.evaluation_main import answer
from hyperscale.evaluate.service.evaluation_process import ENVIRONMENT, EvaluationError, EvaluationProcess
from hyperscale.model.evaluation import StageState
from hyperscale.model.planning import PlanRequest
from tests.builders.clusters import gpu_node, planned, snapshot, training

CLUSTER: Final = snapshot(*(gpu_node(f"n{place}") for place in range(4)))
JOB: Final = training()
PLAN: Final = planned(CLUSTER, JOB)
ASK: Final = EvaluationAsk(PLAN, PlanRequest("team/cora", JOB), part_of(CLUSTER, PLAN), 200)


def running(program: str, seconds: float = 20.0) -> EvaluationProcess:
    return EvaluationProcess((sys.executable, "-c", program), deadline_seconds=seconds)


async def test_the_process_answers_as_the_stages_do_here() -> None:
    found = await EvaluationProcess().evaluate(ASK)
    assert found == answer(ASK)
    assert found.plan_id == PLAN.plan_id
    assert {stage.stage for stage in found.stages} == {"proof", "forecast", "twin"}
    assert worst(found) in (StageState.PASSED, StageState.WARNED)


async def test_a_plan_that_does_not_fit_is_refuted() -> None:
    moved = EvaluationAsk(PLAN, ASK.request, part_of(snapshot(gpu_node("other")), PLAN), 200)
    assert worst(await EvaluationProcess().evaluate(moved)) is StageState.FAILED


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("import time; time.sleep(60)", "no answer within"),
        ("import sys; sys.stdin.buffer.read(); import time; print('{'); time.sleep(60)", "no answer within"),
        ("raise SystemExit('out of luck')", "ended with 1: out of luck"),
        ("import os; os.kill(os.getpid(), 9)", "ended with -9: no words"),
        ("print('nonsense')", "answered nonsense"),
        ("print('{}')", "answered nonsense"),
        (f"print('x' * {MAX_ANSWER_BYTES + 2})", "answered more than"),
        ("import os; os.execvp('sh', ['sh', '-c', 'exec yes >&2'])  # sleep", "no answer within"),
        ("import sys; sys.stderr.write('y' * 10_000_000); raise SystemExit(3)", "ended with 3: yyy"),
    ],
    ids=["hangs", "half an answer", "fails", "killed", "nonsense", "no plan", "too much", "floods", "talks"],
)
async def test_whatever_it_does_instead_is_an_error_in_time(program: str, words: str) -> None:
    began = time.monotonic()
    with pytest.raises(EvaluationError, match=words):
        await running(program, 3.0 if "sleep" in program else 20.0).evaluate(ASK)
    assert time.monotonic() - began < 25.0


async def test_a_program_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(EvaluationError, match="cannot start"):
        await EvaluationProcess(("/nowhere/python",)).evaluate(ASK)


async def test_it_gets_nothing_of_the_operators_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYPERSCALE_HISTORY_URL", "postgresql://user:secret@host/db")
    with pytest.raises(EvaluationError, match="ended with 4"):
        await running("import os, sys; sys.exit(4 if 'HYPERSCALE_HISTORY_URL' not in os.environ else 0)").evaluate(ASK)
    assert "HYPERSCALE_HISTORY_URL" not in ENVIRONMENT
