"""An evaluation as text: first what people ask (will it end in time, what does it cost, what is the risk), then the stages. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hyperscale.cli.text_tables import bullets, counted, pairs, table
from hyperscale.model.evaluation import Evaluation, Interval, StageOutcome, StageState
from hyperscale.model.plan import Plan
from hyperscale.util.rfc3339 import duration_text

COLUMNS = ("STAGE", "RESULT", "SCORE", "SHARE", "WHAT IT FOUND")
NUMBERS = frozenset({2, 3})
LEAST_SHARE = 0.05
"""Percent."""


def show(answer: Evaluation, plan: Plan, figures: str) -> Iterator[str]:
    """Yield the lines.

    figures: where those of the cluster came from, and how old they are
    """
    yield from pairs(_head(answer, plan, figures))
    yield ""
    yield from table(COLUMNS, [*map(_row, answer.stages), *_base(answer)], right=NUMBERS)
    for stage in answer.stages:
        yield from bullets(stage.stage.capitalize(), stage.findings)


def _head(answer: Evaluation, plan: Plan, figures: str) -> list[tuple[str, str]]:
    within = "" if answer.deadline_seconds is None else f" within {duration_text(answer.deadline_seconds)}"
    return [
        ("Job", answer.job),
        ("Plan id", f"{answer.plan_id}, {counted(plan.ranks, 'rank')} on {counted(len(plan.ranks_by_node), 'node')}"),
        (f"Ends{within}", _bounded(answer.ends_by_deadline, lambda part: f"{100 * part:.2f} %")),
        ("Takes", _takes(answer)),
        ("Spent on", _spent(answer)),
        ("Costs", _bounded(answer.cost, lambda amount: f"{amount:.4g}")),
        ("Energy", _bounded(answer.energy_kilowatt_hours, lambda amount: f"{amount:.3g} kWh")),
        ("Starts in", _bounded(answer.wait_seconds, duration_text)),
        ("Delays others by", _bounded(answer.delay_of_others_seconds, duration_text)),
        ("Top risk", answer.top_risk or "none found"),
        ("Checkpoints", "" if answer.checkpoint_every_epochs is None else f"best every {counted(answer.checkpoint_every_epochs, 'epoch')}"),
        ("HyperScore", "" if answer.hyper_score is None or answer.value is None else f"{answer.hyper_score:.1f} (V = {answer.value:.3f})"),
        ("Value", answer.value_source),
        ("Figures", figures),
    ]


def _takes(answer: Evaluation) -> str:
    """Nothing where no future was played."""
    if not any(stage.stage == "twin" and stage.state is not StageState.SKIPPED for stage in answer.stages):
        return ""
    return _bounded(answer.end_seconds, duration_text) or "unknown: more than 1 of 40 futures was given up before its end"


def _spent(answer: Evaluation) -> str:
    """Parts of the time, in percent; those that round to nothing are left out."""
    shares = [(part.name, 100 * part.share) for part in answer.time_parts]
    return ", ".join(f"{name} {share:.1f} %" for name, share in shares if share >= LEAST_SHARE)


def _bounded(interval: Interval | None, text: Callable[[float], str]) -> str:
    if interval is None:
        return ""
    return f"{text(interval.middle)} ({text(interval.low)} to {text(interval.high)})"


def _base(answer: Evaluation) -> list[tuple[str, ...]]:
    """The row without which the shares do not add up to V: a calibrated value has one."""
    return [("base rate", "", "", f"{answer.base_value:.3f}", "V without any stage")] if answer.base_value is not None else []


def _row(stage: StageOutcome) -> tuple[str, ...]:
    score = "" if stage.score is None else f"{stage.score:.3f}"
    share = "" if stage.share is None else f"{stage.share:.3f}"
    return stage.stage, stage.state.value, score, share, stage.sentence
