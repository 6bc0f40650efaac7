"""The condition, the operator's evaluations and the command line judge the same history alike, by its newest runs."""

from __future__ import annotations

import math
from contextlib import closing
from pathlib import Path

import msgspec
import numpy as np
import pytest

from hyperscale.cli.evaluate.past_runs import read_runs
from hyperscale.control.history.run_lessons import lessons_and_report
from hyperscale.control.history.run_store import RunStore
from hyperscale.control.history.runs_table import FinishedRun
from hyperscale.evaluate.calibration.past_run import MAX_PAST_RUNS
from hyperscale.evaluate.calibration.stage_verdict import MAX_JUDGED, VerdictReason, judge
from hyperscale.evaluate.service.evaluation_frames import QUESTIONS, EvaluationAsk, part_of
from hyperscale.evaluate.service.evaluation_main import answer
from hyperscale.model.evaluation import EvaluationStatus, Interval, StageState, StageSummary
from tests.builders.history import RUN
from tests.unit.evaluate.test_learning_evaluations import CLUSTER, PLAN, REQUEST

STATED = EvaluationStatus("0", (StageSummary("proof", StageState.PASSED, 1.0),), epoch_seconds=Interval(2.0, 1.0, 4.0))
SIGMA = math.log(2.0) / 1.959964


def history(evaluated: int, others: int, wrong: int) -> list[FinishedRun]:
    """Evaluated runs among others, oldest first; of the newest evaluated ones this number lie five times as far away as stated."""
    chance = np.random.default_rng(7)
    errors = chance.normal(size=evaluated) * SIGMA
    errors[evaluated - wrong :] *= 5.0
    said = msgspec.json.encode(STATED).decode()
    rows = [msgspec.structs.replace(RUN, measured_seconds=2.0 * math.exp(error), evaluation=said) for error in errors.tolist()]
    rows[:0] = [RUN] * others
    return [msgspec.structs.replace(row, uid=f"{number:04}", finished_at=1e9 + number) for number, row in enumerate(rows)]


@pytest.mark.parametrize(("evaluated", "others"), [(460, 0), (700, 400), (1100, 0)])
def test_the_newest_runs_count_and_all_say_the_same(evaluated: int, others: int, tmp_path: Path) -> None:
    with closing(RunStore(f"sqlite:///{tmp_path}/h")) as store:
        store.record(history(evaluated, others, wrong=120))
        lessons, report = lessons_and_report(store, (), 0.0)
    verdict = report.of("forecast")
    assert verdict is not None
    assert not verdict.trusted
    about = lessons.about({"H100"}, 1e9)
    asked = QUESTIONS.decode(msgspec.json.encode(EvaluationAsk(PLAN, REQUEST, part_of(CLUSTER, PLAN), 100, lessons=about)))
    (forecast,) = (stage for stage in answer(asked).stages if stage.stage == "forecast")
    assert forecast.score is None, "the operator's evaluation"
    assert read_runs(f"sqlite:///{tmp_path}/h").report == report, "the command line"


def test_where_older_runs_were_cut_off_the_newest_are_judged_at_once() -> None:
    errors = np.random.default_rng(2).normal(size=890)
    errors[640:] *= 4.0
    assert judge("twin", errors.tolist()).trusted, "its next look comes with run 905"
    cut = judge("twin", errors.tolist(), cut=True)
    assert (cut.judged, cut.reason) == (MAX_JUDGED, VerdictReason.TOO_NARROW)
    assert MAX_PAST_RUNS > 905
