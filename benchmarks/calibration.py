"""Verdicts on predictions and widened intervals, on histories whose truth is given.

    python benchmarks/calibration.py [--quick] [--seeds N] [--json FILE]

Protocol. A history is 400 finished runs. A stage states a 95 % interval of ln(seconds) with deviation 0.25; the outcome lies error x 0.25
from its middle. Errors: well specified N(0, 1); overconfident N(0, 2); biased N(1, 1); drifting: N(0, 1), from run 201 on N(1.5, 1);
slow drift: the mean rises from 0 to 2; heavy tails: Student's t with 3 degrees of freedom; too wide: N(0, 0.5).
Open loop: intervals stay as stated, and the condition is asked after every run. A wrong False is any False in a whole history.
Closed loop: as in the operator, each interval is recalibrated by the runs before it, recorded, and scored; coverage counts from run 41 on.
Peers of the condition: the 95 % bounds of Clopper and Pearson read after every run, and a threshold of 10 points below 68 %.
Peer of widening: none. Planned ranges: factor and spread of control/history/calibration.py, against the same without widening.
Failure rates: fleets whose true rates lie around the published one by a factor of e; error of ln(rate).
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from benchmarks import common
from benchmarks.common import Row
from hyperscale.control.history import calibration as planner_calibration
from hyperscale.evaluate.calibration.calibration_report import CalibrationReport, combined, report_of
from hyperscale.evaluate.calibration.past_run import FORECAST, PastRun, errors_of, learned_recalibration
from hyperscale.evaluate.calibration.stage_verdict import LOOKS, CoverageVerdict, VerdictReason
from hyperscale.evaluate.calibration.stated_figure import SIGMAS_95, recalibrated
from hyperscale.evaluate.calibration.widening import ONE_SIGMA
from hyperscale.evaluate.pipeline.evaluation_question import ASSUMED_FAILURES
from hyperscale.evaluate.pipeline.learned_failures import exact_rate, posterior_rate
from hyperscale.evaluate.statistics.binomial import clopper_pearson, upper_bound
from hyperscale.model.evaluation import EvaluationStatus, Interval
from hyperscale.model.graph import FloatArray
from hyperscale.model.plan import MIN_SPREAD

NAME: Final = "calibration"
OURS: Final = "hyperscale"
RUNS: Final = 400
WARM: Final = 40
"""Runs before coverage counts: from 20 on there is a recalibration."""
DEVIATION: Final = 0.25
OPEN: Final = 400
"""Histories of the open loop; 60 with --quick."""
CLOSED: Final = 30
"""Histories of the closed loop; 4 with --quick."""
POINTS: Final = 10.0
MIN_PEER: Final = 20
MIDDLE: Final = Interval(10.0, 10.0 * math.exp(-SIGMAS_95 * DEVIATION), 10.0 * math.exp(SIGMAS_95 * DEVIATION))


class Truth(NamedTuple):
    """How a history errs."""

    name: str
    draw: Callable[[np.random.Generator], FloatArray]
    """(RUNS,) errors in stated deviations."""
    goal: bool = True
    """Whether coverage after widening has a goal."""


def _normal(scale: float = 1.0, shift: float = 0.0) -> Callable[[np.random.Generator], FloatArray]:
    return lambda chance: shift + scale * chance.normal(size=RUNS)


def _step(chance: np.random.Generator) -> FloatArray:
    return chance.normal(size=RUNS) + np.where(np.arange(RUNS) < RUNS // 2, 0.0, 1.5)


def _slope(chance: np.random.Generator) -> FloatArray:
    return chance.normal(size=RUNS) + np.linspace(0.0, 2.0, RUNS)


TRUE: Final = Truth("well specified", _normal())
OVERCONFIDENT: Final = Truth("overconfident 2x", _normal(2.0))
TRUTHS: Final = (
    TRUE,
    OVERCONFIDENT,
    Truth("biased by 1", _normal(shift=1.0)),
    Truth("drifting by 1.5", _step),
    Truth("slow drift by 2", _slope),
    Truth("heavy tails", lambda chance: chance.standard_t(3.0, size=RUNS), goal=False),
    Truth("too wide 2x", _normal(0.5), goal=False),
)


def first_false(errors: Sequence[Sequence[float]]) -> int | None:
    """Return after how many runs the condition over these stages is False for the first time; None for never."""
    for count in LOOKS:
        if count <= RUNS and _report(errors, count).verdict is CoverageVerdict.FALSE:
            return count
    return None


def _report(errors: Sequence[Sequence[float]], count: int = RUNS) -> CalibrationReport:
    return combined({f"stage {place}": each[:count] for place, each in enumerate(errors)})


def peer_bounds(errors: Sequence[float]) -> int | None:
    """The first run after which the 95 % bounds of the 68 % coverage exclude it."""
    covered = np.cumsum(np.abs(errors) <= 1.0)
    for count in range(MIN_PEER, RUNS + 1):
        bounds = clopper_pearson(int(covered[count - 1]), count)
        if not bounds.low <= ONE_SIGMA <= bounds.high:
            return count
    return None


def peer_threshold(errors: Sequence[float]) -> int | None:
    """The first run after which fewer than 58 % were covered."""
    covered = np.cumsum(np.abs(errors) <= 1.0) / np.arange(1, RUNS + 1)
    low = np.flatnonzero(covered[MIN_PEER - 1 :] < ONE_SIGMA - POINTS / 100.0)
    return int(low[0]) + MIN_PEER if len(low) else None


def open_rows(truth: Truth, count: int, seed: int) -> list[Row]:
    """How often and how soon the condition is False, and how often True at the end."""
    drawn = [truth.draw(np.random.default_rng((seed, place))).tolist() for place in range(count)]
    firsts = {
        OURS: [first_false([errors]) for errors in drawn],
        "bounds after every run": [peer_bounds(errors) for errors in drawn[: count // 4]],
        "threshold": [peer_threshold(errors) for errors in drawn],
    }
    rows = []
    for method, runs in firsts.items():
        caught = [first for first in runs if first is not None]
        rows.append(Row(NAME, truth.name, method, "histories ever False", 100.0 * len(caught) / len(runs), "%", seed))
        if caught:
            rows.append(Row(NAME, truth.name, method, "runs until False, median", statistics.median(caught), "", seed))
    return rows + verdict_rows(truth, [_report([errors]) for errors in drawn], firsts[OURS], seed)


def verdict_rows(truth: Truth, reports: Sequence[CalibrationReport], firsts: Sequence[int | None], seed: int) -> list[Row]:
    """The verdicts at the end of whole histories; firsts: the runs after which each was False."""
    count = len(reports)
    true = 100.0 * sum(report.verdict is CoverageVerdict.TRUE for report in reports) / count
    rows = [Row(NAME, truth.name, OURS, f"True after {RUNS} runs", true, "%", seed)]
    for reason in (VerdictReason.TOO_NARROW, VerdictReason.DRIFTING, VerdictReason.TOO_WIDE):
        part = 100.0 * sum(report.reason == reason.value for report in reports) / count
        rows.append(Row(NAME, truth.name, OURS, f"{reason.value} after {RUNS} runs", part, "%", seed))
    if truth is OVERCONFIDENT:
        missed = {look: 100.0 * sum(first is None or first > look for first in firsts) / count for look in LOOKS[:4]}
        rows += [Row(NAME, truth.name, OURS, f"not False after {look} runs", part, "%", seed) for look, part in missed.items()]
        rows.append(common.goal(NAME, f"overconfident 2x: not False after {LOOKS[3]} runs", OURS, missed[LOOKS[3]], 5.0, "%"))
        rows.append(common.goal(NAME, "overconfident 2x: called True", OURS, true, 5.0, "%"))
    return rows


def error_rows(count: int, seed: int) -> list[Row]:
    """Wrong False of a condition over three stages whose intervals are true."""
    drawn = [[TRUE.draw(np.random.default_rng((seed, place, stage))).tolist() for stage in range(3)] for place in range(count)]
    wrong = sum(first_false(errors) is not None for errors in drawn)
    case = "well specified, three stages"
    return [
        Row(NAME, case, OURS, "histories ever False", 100.0 * wrong / count, "%", seed),
        Row(NAME, case, OURS, "95 % upper bound of that", 100.0 * upper_bound(wrong, count), "%", seed),
        common.goal(NAME, f"wrong False in {RUNS} runs, three stages", OURS, 100.0 * wrong / count, 5.0, "%"),
    ]


class Loop(NamedTuple):
    """A history in which every interval was recalibrated by the runs before it."""

    errors: tuple[float, ...]
    """Of the intervals as they were made, from run WARM on."""
    report: CalibrationReport


def closed_loop(errors: Sequence[float]) -> Loop:
    """Return the history that the operator would have written."""
    past: list[PastRun] = []
    drifting = False
    for place, error in enumerate(errors):
        if place in LOOKS:
            verdict = report_of(past).of(FORECAST)
            drifting = verdict is not None and verdict.drift is not None
        by = learned_recalibration(past, FORECAST, from_runs=False, drifting=drifting)
        interval = MIDDLE if by is None else recalibrated(MIDDLE, by)
        said = EvaluationStatus("0" * 16, epoch_seconds=interval, recalibrations=() if by is None else (by,))
        past.append(PastRun(said, epoch_seconds=MIDDLE.middle * math.exp(DEVIATION * error)))
    return Loop(tuple(errors_of(past, FORECAST)[WARM:]), report_of(past))


def closed_rows(truth: Truth, count: int, seed: int) -> list[Row]:
    """Coverage before and after recalibration, and the verdict on intervals as they were made."""
    drawn = [truth.draw(np.random.default_rng((seed, place))).tolist() for place in range(count)]
    loops = [closed_loop(errors) for errors in drawn]
    before = np.abs(np.array(drawn)[:, WARM:])
    after = np.abs(np.array([loop.errors for loop in loops]))
    rows = []
    for level, sigmas, stated, limit in ((68, 1.0, ONE_SIGMA, 5.0), (95, SIGMAS_95, 0.95, 3.0)):
        plain, widened = (100.0 * float((each <= sigmas).mean()) for each in (before, after))
        rows.append(Row(NAME, truth.name, "none", f"coverage of {level}", plain, "%", seed))
        rows.append(Row(NAME, truth.name, OURS, f"coverage of {level} after widening", widened, "%", seed))
        if truth.goal:
            distance = abs(widened - 100.0 * stated)
            rows.append(common.goal(NAME, f"{truth.name}: coverage of {level} after widening", OURS, distance, limit, "points"))
    wrong = 100.0 * sum(loop.report.verdict is CoverageVerdict.FALSE for loop in loops) / count
    rows.append(Row(NAME, truth.name, OURS, f"False after {RUNS} recalibrated runs", wrong, "%", seed))
    return rows


def planner_rows(count: int, seed: int) -> list[Row]:
    """Coverage of one spread about the factor, each run by those before it: plain median deviations, and widened."""
    rows = []
    for name, errors in (("heavy tails", _heavy), ("a job like the one before", _repeats)):
        covered: dict[str, list[bool]] = {OURS: [], "median deviation": []}
        for place in range(count):
            logarithms = errors(np.random.default_rng((seed, place)))
            for at in range(WARM, 200, 4):
                ratios = np.exp(logarithms[:at]).tolist()
                ours = planner_calibration.calibrate("", ratios)
                middle = statistics.median(logarithms[:at].tolist())
                plain = planner_calibration.SAME_AS_SIGMA * statistics.median(np.abs(logarithms[:at] - middle).tolist())
                miss = abs(float(logarithms[at]) - middle)
                covered[OURS].append(miss <= max(ours.spread, MIN_SPREAD))
                covered["median deviation"].append(miss <= max(plain, MIN_SPREAD))
        rows += [
            Row(NAME, f"planned range, {name}", method, "coverage of 68", 100.0 * float(np.mean(each)), "%", seed)
            for method, each in covered.items()
        ]
    return rows


def _heavy(chance: np.random.Generator) -> FloatArray:
    return 0.2 * chance.standard_t(3.0, size=200)


def _repeats(chance: np.random.Generator) -> FloatArray:
    """Ten runs of each job, which is off by its own factor."""
    return np.repeat(0.3 * chance.normal(size=20), 10) + 0.05 * chance.normal(size=200)


def failure_rows(count: int, seed: int) -> list[Row]:
    """Mean absolute error of ln(rate) of what is taken after some node-days, and how often bounds hold the truth."""
    rows = []
    for node_days in (30.0, 300.0, 3_000.0, 30_000.0):
        chance = np.random.default_rng((seed, int(node_days)))
        true = ASSUMED_FAILURES * np.exp(chance.normal(size=count))
        failures = chance.poisson(true * node_days / 1_000.0)
        learned = [posterior_rate(int(each), node_days) for each in failures]
        exact = [exact_rate(int(each), node_days) for each in failures]
        case = f"failure rate after {node_days:,.0f} node-days"
        for method, taken in (
            (OURS, np.array([each.mean for each in learned])),
            ("published rate", np.full(count, ASSUMED_FAILURES)),
            ("counted rate, 1/2 for none", np.array([max(each.mean, 500.0 / node_days) for each in exact])),
        ):
            rows.append(Row(NAME, case, method, "error of ln(rate)", float(np.abs(np.log(taken / true)).mean()), "", seed))
        inside = [each.low <= truth <= each.high for each, truth in zip(exact, true.tolist(), strict=True)]
        rows.append(Row(NAME, case, OURS, "exact 95 % bounds hold", 100.0 * float(np.mean(inside)), "%", seed))
    return rows


def main() -> int:
    """Draw, judge, report."""
    arguments = common.parser(__doc__ or "")
    arguments.add_argument("--seeds", type=int, default=1, metavar="N", help="how often all histories are drawn (default: %(default)s)")
    chosen = arguments.parse_args()
    opened, closed = (60, 4) if chosen.quick else (OPEN, CLOSED)
    rows: list[Row] = []
    for seed in range(chosen.seeds):
        rows += error_rows(opened, seed)
        for truth in TRUTHS:
            rows += [*open_rows(truth, opened if truth in (TRUE, OVERCONFIDENT) else opened // 5, seed), *closed_rows(truth, closed, seed)]
        rows += [*planner_rows(closed, seed), *failure_rows(5 * opened, seed)]
    return common.report(rows, chosen.json)


if __name__ == "__main__":
    sys.exit(main())
