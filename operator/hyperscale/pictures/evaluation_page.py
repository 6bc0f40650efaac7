"""An evaluation as one HTML page without scripts: chances and uses of time, shares of the score, stages, plan. Pure.

Everything is in the page itself (SVG and one style), and whatever a name holds is escaped.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from hyperscale.model.evaluation import Evaluation, Interval, LikeRun, StageOutcome, TimePart
from hyperscale.model.plan import Plan
from hyperscale.pictures.svg import text_of
from hyperscale.util.rfc3339 import duration_text

STYLE: Final = (
    "body{font:14px/1.45 system-ui,sans-serif;color:#1f2937;background:#fff;margin:1.4em auto;max-width:62em;padding:0 1em}"
    "h1{font-size:1.3em;margin:0 0 .4em}h2{font-size:1.05em;margin:1.4em 0 .4em}svg{max-width:100%;height:auto}"
    "table{border-collapse:collapse}td,th{padding:.2em .9em .2em 0;text-align:left;vertical-align:top}td.n,th.n{text-align:right}"
    ".Failed{color:#b91c1c;font-weight:600}.Warned{color:#b45309;font-weight:600}.Passed{color:#047857}.Skipped{color:#6b7280}"
)
POLICY: Final = (
    "default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'sha256-"
    + base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    + "'"
)
WIDTH: Final = 760.0
HEIGHT: Final = 260.0
LEFT: Final = 56.0
BOTTOM: Final = 36.0
BAR: Final = 22.0
MAX_WORKERS: Final = 64
TICKS: Final = 5
COLOURS: Final = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#8C6D46")
"""After Okabe and Ito: told apart by colour-blind readers too."""


def evaluation_page(answer: Evaluation, plan: Plan) -> str:
    """The HTML document; the same evaluation gives the same bytes."""
    stages = answer.stages
    pictures = (*_curve(answer), *_time(answer.time_parts), *_shares(stages))
    parts = (*_head(answer), *pictures, *_stages(stages), *_neighbours(answer.neighbours), *_workers(plan))
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>HyperScale: {escape(answer.job)}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}"><style>{STYLE}</style></head><body>'
        f"{''.join(parts)}</body></html>\n"
    )


def _head(answer: Evaluation) -> Iterator[str]:
    yield f"<h1>{text_of(answer.job)}, plan {text_of(answer.plan_id)}</h1><table>"
    if answer.ends_by_deadline is not None and answer.deadline_seconds is not None:
        chance = answer.ends_by_deadline
        yield _pair(f"Ends within {duration_text(answer.deadline_seconds)}", f"{100 * chance.middle:.1f} % of the futures")
    yield _pair("Takes", _times(answer.end_seconds))
    if answer.cost is not None:
        yield _pair("Costs", f"{answer.cost.middle:.4g} ({answer.cost.low:.4g} to {answer.cost.high:.4g})")
    if answer.energy_kilowatt_hours is not None:
        energy = answer.energy_kilowatt_hours
        yield _pair("Energy of its GPUs", f"{energy.middle:.3g} kWh ({energy.low:.3g} to {energy.high:.3g})")
    if answer.wait_seconds is not None:
        yield _pair("Starts in", _times(answer.wait_seconds))
    if answer.delay_of_others_seconds is not None:
        yield _pair("Delays those that wait by", f"{_times(answer.delay_of_others_seconds)} on average")
    yield _pair("Top risk", answer.top_risk or "none found")
    if answer.hyper_score is not None and answer.value is not None:
        yield _pair("HyperScore", f"{answer.hyper_score:.1f} (V = {answer.value:.3f})")
    if answer.value_source:
        yield _pair("Value", answer.value_source)
    yield "</table>"


def _pair(name: str, value: str) -> str:
    return f"<tr><th>{text_of(name)}</th><td>{text_of(value)}</td></tr>"


def _times(interval: Interval | None) -> str:
    if interval is None:
        return "unknown: no futures were played, or more than 1 of 40 was given up before its end"
    return f"{duration_text(interval.middle)} ({duration_text(interval.low)} to {duration_text(interval.high)})"


def _curve(answer: Evaluation) -> Iterator[str]:
    """Part of the futures that have ended, over time; the deadline as a line."""
    if len(answer.end_curve) < 2:
        return
    last = max(answer.end_curve[-1][0], answer.deadline_seconds or 0.0)
    first = min(answer.end_curve[0][0], answer.deadline_seconds or answer.end_curve[0][0])
    span = (last - first) or last or 1.0
    wide, high = WIDTH - LEFT, HEIGHT - BOTTOM

    def x(seconds: float) -> float:
        return LEFT + wide * (seconds - first) / span

    points = " ".join(f"{x(seconds):.1f},{high * (1 - part):.1f}" for seconds, part in answer.end_curve)
    yield "<h2>Part of the futures that have ended, over time</h2>"
    yield f'<svg viewBox="0 -12 {WIDTH + 40:.0f} {HEIGHT + 12:.0f}" role="img" font-size="11" fill="#374151">'
    for tick in range(TICKS):
        part, seconds = tick / (TICKS - 1), first + span * tick / (TICKS - 1)
        yield f'<path d="M{LEFT} {high * (1 - part):.1f}H{WIDTH:.0f}" stroke="#e5e7eb"/>'
        yield f'<text x="{LEFT - 6:.0f}" y="{high * (1 - part) + 4:.1f}" text-anchor="end">{100 * part:.0f} %</text>'
        yield f'<text x="{x(seconds):.1f}" y="{high + 18:.0f}" text-anchor="middle">{text_of(duration_text(seconds))}</text>'
    yield f'<polyline points="{points}" fill="none" stroke="{COLOURS[0]}" stroke-width="2"/>'
    if answer.deadline_seconds is not None:
        place = x(answer.deadline_seconds)
        yield f'<path d="M{place:.1f} 0V{high:.0f}" stroke="#b91c1c" stroke-dasharray="4 3"/>'
        yield f'<text x="{place:.1f}" y="-3" text-anchor="middle" fill="#b91c1c">deadline</text>'
    yield "</svg>"


def _time(parts: Sequence[TimePart]) -> Iterator[str]:
    """One bar: what the time of a future goes to, in the mean of all."""
    if not parts:
        return
    yield "<h2>What the time of a future goes to, in the mean of all</h2>"
    yield f'<svg viewBox="0 0 {WIDTH:.0f} {BAR + 8 + 18 * len(parts):.0f}" role="img" font-size="12" fill="#374151">'
    left = 0.0
    for row, part in enumerate(parts):
        width, colour = WIDTH * part.share, COLOURS[row % len(COLOURS)]
        yield f'<rect x="{left:.1f}" y="0" width="{width:.1f}" height="{BAR:.0f}" fill="{colour}"/>'
        place = BAR + 8 + 18 * row
        yield f'<rect x="0" y="{place:.0f}" width="12" height="12" fill="{colour}"/>'
        yield f'<text x="18" y="{place + 10:.0f}">{text_of(part.name)}: {100 * part.share:.1f} %'
        yield f" (mean {text_of(duration_text(part.seconds))})</text>"
        left += width
    yield "</svg>"


def _shares(stages: Sequence[StageOutcome]) -> Iterator[str]:
    """One bar a stage: its Shapley share of the value, beside its weight."""
    shared = [(stage, stage.share) for stage in stages if stage.share is not None]
    if not shared:
        return
    largest = max([abs(share) for _, share in shared] + [stage.weight or 0.0 for stage, _ in shared]) or 1.0
    yield "<h2>Share of each stage in the value, and its weight (thin)</h2>"
    yield f'<svg viewBox="0 0 {WIDTH:.0f} {len(shared) * (BAR + 12):.0f}" role="img" font-size="12" fill="#374151">'
    for row, (stage, share) in enumerate(shared):
        top, scale = row * (BAR + 12), (WIDTH - 240) / largest
        yield f'<text x="0" y="{top + 15:.0f}">{text_of(stage.stage)}</text>'
        length, colour = max(0.0, share) * scale, COLOURS[row % len(COLOURS)]
        yield f'<rect x="90" y="{top:.0f}" width="{length:.1f}" height="{BAR - 6:.0f}" fill="{colour}"/>'
        yield f'<rect x="90" y="{top + BAR - 4:.0f}" width="{(stage.weight or 0.0) * scale:.1f}" height="4" fill="#9ca3af"/>'
        yield f'<text x="{96 + length:.1f}" y="{top + 13:.0f}">{share:.3f}</text>'
    yield "</svg>"


def _stages(stages: Sequence[StageOutcome]) -> Iterator[str]:
    yield '<h2>Stages</h2><table><tr><th>Stage</th><th>Result</th><th class="n">Score</th><th>What it found</th></tr>'
    for stage in stages:
        score = "" if stage.score is None else f"{stage.score:.3f}"
        findings = "".join(f"<br>– {text_of(finding)}" for finding in stage.findings)
        yield f'<tr><td>{text_of(stage.stage)}</td><td class="{stage.state.value}">{stage.state.value}</td>'
        yield f'<td class="n">{score}</td><td>{text_of(stage.sentence)}{findings}</td></tr>'
    yield "</table>"


def _neighbours(runs: Sequence[LikeRun]) -> Iterator[str]:
    """Finished runs that the planned one is like, best first."""
    if not runs:
        return
    yield "<h2>Finished runs most like it</h2><table><tr><th>Run</th><th>Both have</th><th>Outcome</th>"
    yield '<th class="n">Epoch / forecast by the others</th></tr>'
    for each in runs:
        ratio = "" if each.ratio is None else f"{each.ratio:.2f}"
        yield f"<tr><td>{text_of(each.run)}</td><td>{text_of(', '.join(each.shared))}</td><td>{text_of(each.outcome)}</td>"
        yield f'<td class="n">{ratio}</td></tr>'
    yield "</table>"


def _workers(plan: Plan) -> Iterator[str]:
    yield '<h2>Plan</h2><table><tr><th class="n">Worker</th><th>Node</th><th>GPUs</th><th class="n">Ranks</th><th class="n">Share</th></tr>'
    for worker in plan.workers[:MAX_WORKERS]:
        product = f" {worker.product}" if worker.product else ""
        ranks = f"{worker.ranks.start}" if len(worker.ranks) < 2 else f"{worker.ranks.start} to {worker.ranks.stop - 1}"
        yield f'<tr><td class="n">{worker.index}</td><td>{text_of(worker.node)}</td><td>{worker.gpus}{text_of(product)}</td>'
        yield f'<td class="n">{ranks}</td><td class="n">{100 * worker.share:.1f} %</td></tr>'
    yield "</table>"
    if len(plan.workers) > MAX_WORKERS:
        yield f"<p>{len(plan.workers) - MAX_WORKERS} more workers are in the plan.</p>"
    if plan.reasons:
        yield f"<h2>Why this plan</h2><ul>{''.join(f'<li>{text_of(reason)}</li>' for reason in plan.reasons)}</ul>"
