"""The stage `twin`: thousands of futures of the job on its planned nodes, over what the forecast leaves open."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from hyperscale.evaluate.pipeline.evaluation_question import EvaluationQuestion
from hyperscale.evaluate.pipeline.forecast_stage import EpochSeconds
from hyperscale.evaluate.statistics.binomial import clopper_pearson
from hyperscale.evaluate.twin.outlook import outlook
from hyperscale.evaluate.twin.play_futures import play
from hyperscale.evaluate.twin.twin_types import SMALL_INTERVAL_SECONDS, JobRisk, NodeRisk, Outlook, fixed
from hyperscale.model.evaluation import MAX_CURVE, Interval, StageOutcome, StageState
from hyperscale.model.graph import FloatArray
from hyperscale.util.rfc3339 import duration_text

TWIN: Final = "twin"
POINTS: Final = 200
"""Of the forecast's distribution at which futures are played: midpoints of equally likely parts."""
LIKELY: Final = 0.9
"""Part of the futures that end by the deadline, or of useful time, below which a person should look."""
SAVING: Final = 0.01
"""Of the expected end: a better checkpoint interval is worth a word from here on."""

MAX_STRETCH: Final = 20.0
"""Times the work: futures are followed for that long at least."""
MAX_REPAIRS: Final = 50.0
"""Repairs in a row that a future may take."""
FEW: Final = 0.01
"""Failures in the mean, below which their number says nothing."""


class TwinAnswer(NamedTuple):
    """What the futures say."""

    outcome: StageOutcome
    end: Interval | None
    by_deadline: Interval | None
    curve: tuple[tuple[float, float], ...]
    outlook: Outlook
    ends_seconds: FloatArray
    """(n,) rising, from start to end; +inf past the horizon."""
    computing_seconds: FloatArray
    """(n,) of the same futures: work, that which failures lost and slow nodes stretched too."""


def job_risk(question: EvaluationQuestion, epoch_seconds: float) -> JobRisk:
    """The job as the twin plays it: every planned node fails by the same laws; without checkpoints a failure loses all work."""
    job, failures = question.request.job, question.failures
    names = sorted({worker.node for worker in question.plan.workers})
    work = max(job.model.epochs * epoch_seconds, SMALL_INTERVAL_SECONDS)
    every = job.checkpoint.every_epochs if job.checkpoint is not None else job.model.epochs
    return JobRisk(
        nodes=tuple(NodeRisk(name, failures.laws, fixed(failures.repair_seconds), failures.age_seconds) for name in names),
        work_seconds=work,
        checkpoint_interval_seconds=max(min(every * epoch_seconds, work), SMALL_INTERVAL_SECONDS),
        write_seconds=question.write_seconds if job.checkpoint is not None else 0.0,
        restart_seconds=question.restart_seconds,
        epoch_seconds=epoch_seconds if epoch_seconds >= SMALL_INTERVAL_SECONDS else None,
        horizon_seconds=_horizon_seconds(question, work),
    )


def _horizon_seconds(question: EvaluationQuestion, work_seconds: float) -> float:
    """Long enough for the deadline and for some repairs, however short the work is."""
    job = question.request.job
    writes = question.write_seconds * math.ceil(job.model.epochs / job.checkpoint.every_epochs) if job.checkpoint is not None else 0.0
    repairs = MAX_REPAIRS * (question.failures.repair_seconds + question.restart_seconds)
    return max(MAX_STRETCH * (work_seconds + writes), work_seconds + repairs, 1.01 * (question.deadline_seconds or 0.0))


def play_twin(question: EvaluationQuestion, epoch: EpochSeconds) -> TwinAnswer:
    """Return when the job ends; raises ValueError where the question's figures cannot be played."""
    ends, computing = _played(question, epoch)
    middle = outlook(job_risk(question, epoch.middle), question.futures, question.seed, question.deadline_seconds)
    by_deadline = _by_deadline(ends, question.deadline_seconds)
    score = middle.ettr if by_deadline is None else by_deadline.middle
    state = StageState.PASSED if score >= LIKELY else StageState.WARNED
    outcome = StageOutcome(
        TWIN, state, _sentence(question, by_deadline, middle), tuple(_findings(question, middle)), min(1.0, max(0.0, score))
    )
    return TwinAnswer(outcome, _interval(ends), by_deadline, _curve(ends), middle, ends, computing)


def _played(question: EvaluationQuestion, epoch: EpochSeconds) -> tuple[FloatArray, FloatArray]:
    """(n,) rising seconds from start to end, +inf past the horizon, and (n,) those that GPUs compute, in the same order."""
    points = min(POINTS, question.futures)
    parts = []
    for point in range(points):
        start, end = (question.futures * place // points for place in (point, point + 1))
        seconds = epoch.at((point + 0.5) / points)
        parts.append(play(job_risk(question, seconds), end - start, question.seed, start=start))
    ends = np.concatenate([part.end_seconds for part in parts])
    computing = np.concatenate([part.useful_seconds + part.lost_seconds + part.slow_seconds for part in parts])
    order = np.argsort(ends, kind="stable")
    return ends[order], computing[order]


def _by_deadline(ends: FloatArray, deadline_seconds: float | None) -> Interval | None:
    if deadline_seconds is None:
        return None
    ended = int(np.searchsorted(ends, deadline_seconds, side="right"))
    return Interval(*clopper_pearson(ended, len(ends)))


def _interval(ends: FloatArray) -> Interval | None:
    low, middle, high = (float(ends[min(len(ends) - 1, int(part * len(ends)))]) for part in (0.025, 0.5, 0.975))
    return Interval(middle, low, high) if high < math.inf else None


def _curve(ends: FloatArray) -> tuple[tuple[float, float], ...]:
    """At most MAX_CURVE points; the futures past the horizon keep it below 1."""
    places = np.unique(np.linspace(0, len(ends) - 1, MAX_CURVE).astype(np.int64))
    return tuple((float(ends[place]), (int(place) + 1) / len(ends)) for place in places if ends[place] < math.inf)


def _sentence(question: EvaluationQuestion, by_deadline: Interval | None, middle: Outlook) -> str:
    failures = f"{middle.expected_failures:.2g}" if middle.expected_failures >= FEW else f"fewer than {FEW:g}"
    useful = f"{100 * middle.ettr:.1f} % of its time trains, {failures} failures are expected"
    if by_deadline is None or question.deadline_seconds is None:
        return useful
    return f"{100 * by_deadline.middle:.2f} % of {question.futures} futures end within {duration_text(question.deadline_seconds)}; {useful}"


def _findings(question: EvaluationQuestion, middle: Outlook) -> list[str]:
    repair = duration_text(question.failures.repair_seconds)
    restart, write = duration_text(question.restart_seconds), duration_text(question.write_seconds)
    times = f"Taken: {repair} until a failed node is back and no spare node, then {restart} to train again; {write} a checkpoint."
    sentences = [*filter(None, (question.deadline_note,)), question.failures.source, times]
    best, job = middle.best_interval, question.request.job
    saved = best.current_end_seconds - best.expected_end_seconds
    if job.checkpoint is None and question.failures.laws:
        sentences.append("It writes no checkpoints, so a failure loses all of its work: give it spec.checkpoint.claimName.")
    elif best.epochs is not None and saved > SAVING * best.current_end_seconds and middle.expected_end_seconds is not None:
        sentences.append(
            f"Checkpoints every {_epochs(best.epochs)} end {duration_text(saved)} sooner on average: write spec.checkpoint.everyEpochs."
        )
    worth = middle.spare_worth
    if worth.saved_seconds > SAVING * best.current_end_seconds:
        gain = "" if worth.p_gain is None else f" and {100 * worth.p_gain:.1f} points of the chance to end in time"
        sentences.append(f"A spare node is worth {duration_text(worth.saved_seconds)} on average{gain}.")
    if middle.past_horizon:
        sentences.append(f"{middle.past_horizon} of {question.futures} futures were given up before their end; the means leave them out.")
    sentences += [f"Node {node.name} is expected to cost {duration_text(node.delay_seconds)}." for node in middle.costly_nodes[:3]]
    return sentences


def _epochs(count: int) -> str:
    return "epoch" if count == 1 else f"{count} epochs"
