"""Intervals of the forecast on generated clusters (forecast_generator.py): coverage and interval score next to an oracle's.

    python benchmarks/intervals.py [--quick] [--seeds N] [--json FILE]

A cluster has two GPU products and repeats 8 jobs; its first 800 runs are the history, the next 400 are asked, one after the other in no
order. Each scenario is run on as many clusters as --seeds says, and the points of all count together. The oracle knows the generator: its
interval holds the exact quantiles of ln(seconds) given all that is recorded before the start. The score is Gneiting & Raftery's (2007) of
ln(seconds). "every job is new" is no goal: jobs that never repeat teach less. "one factor" is physical seconds times the median of
measured / physical of the same job on the same product, ranks and hosts: its bias shows the winner's curse.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from benchmarks import common
from benchmarks.common import Row
from benchmarks.forecast_generator import JOBS, SCENARIOS, Epoch, Scenario, generate, truth_quantiles
from benchmarks.intervalrows import Answer, answers_of, ends, interval_rows
from hyperscale.evaluate.forecast.conformal_interval import LEVELS, interval_score
from hyperscale.evaluate.forecast.epoch_forecast import learn_forecaster
from hyperscale.evaluate.forecast.forecast_types import ForecastRun
from hyperscale.model.graph import FloatArray

NAME: Final = "intervals"
OURS: Final = "hyperscale"
HISTORY: Final = 800
ASKED: Final = 400
COVERAGE: Final = {0.68: 5.0, 0.95: 3.0}
"""By level, points that the coverage may differ."""


def outcome(scenario: Scenario, seed: int, jobs: int | None, given: bool = False) -> tuple[list[Answer], FloatArray, FloatArray]:
    """Answers on one cluster, (levels, 2, n) the oracle's ends, and (n,) errors of one factor in ln(seconds).

    given: placements of the history were not chosen, those that are asked are
    """
    epochs = generate(scenario, HISTORY + ASKED, seed, jobs=jobs)
    if given:
        epochs[:HISTORY] = generate(replace(scenario, candidates=1), HISTORY, seed, jobs=jobs)
    runs = [epoch.run for epoch in epochs]
    forecaster = learn_forecaster(runs[:HISTORY])
    naive = one_factor(runs[:HISTORY], runs[HISTORY:])
    return answers_of(forecaster, runs[HISTORY:]), oracle(scenario, epochs[HISTORY:]), naive


def one_factor(history: Sequence[ForecastRun], asked: Sequence[ForecastRun]) -> FloatArray:
    """(n,) ln(predicted / measured) by the median ratio of equal runs; NaN where the history has none."""
    ratios: dict[tuple[object, ...], list[float]] = {}
    for run in history:
        ratios.setdefault(equal(run), []).append(math.log(run.measured_seconds / run.physical_seconds))
    medians = {key: float(np.median(values)) for key, values in ratios.items()}
    return np.array([medians.get(equal(run), math.nan) - math.log(run.measured_seconds / run.physical_seconds) for run in asked])


def equal(run: ForecastRun) -> tuple[object, ...]:
    """What runs of one factor have in common."""
    return run.features.dataset, run.features.gpu_product, run.ranks, run.hosts


def oracle(scenario: Scenario, epochs: Sequence[Epoch]) -> FloatArray:
    """(levels, 2, n) exact ends."""
    return np.array([truth_quantiles(scenario, epochs, [0.5 - level / 2, 0.5 + level / 2]) for level in LEVELS])


def rows_of(case: str, scenario: Scenario, seeds: Sequence[int], jobs: int | None, goals: bool, given: bool = False) -> list[Row]:
    """Figures of one scenario over all seeds, with goals where asked for."""
    outcomes = [outcome(scenario, seed, jobs, given) for seed in seeds]
    answers = [one for found, _, _ in outcomes for one in found]
    exact = np.concatenate([limits for _, limits, _ in outcomes], axis=2)
    truth = np.log([one.measured_seconds for one in answers])
    middle = np.log([one.forecast.seconds for one in answers])
    rows = interval_rows(NAME, case, OURS, answers)
    rows.append(Row(NAME, case, OURS, "bias of ln(seconds)", float((middle - truth).mean()), "ln s"))
    naive = np.concatenate([errors for _, _, errors in outcomes])
    if np.isfinite(naive).any():
        rows.append(Row(NAME, case, "one factor", "bias of ln(seconds)", float(np.nanmean(naive)), "ln s"))
    for level, (low, high), (least, most) in zip(LEVELS, ends(answers), exact, strict=True):
        name = f"{100 * level:.0f} %"
        covered = 100.0 * float(((low <= truth) & (truth <= high)).mean())
        best = float(interval_score(least, most, truth, level).mean())
        ratio = float(interval_score(low, high, truth, level).mean()) / best
        rows.append(Row(NAME, case, "oracle", f"coverage of {name}", 100.0 * float(((least <= truth) & (truth <= most)).mean()), "%"))
        rows.append(Row(NAME, case, "oracle", f"interval score of {name}", best, "ln s"))
        rows.append(Row(NAME, case, OURS, f"interval score of {name} / the oracle's", ratio, ""))
        if goals:
            rows.append(common.goal(NAME, f"{case}: |coverage - {name}|", OURS, abs(covered - 100.0 * level), COVERAGE[level], "points"))
            rows.append(common.goal(NAME, f"{case}: interval score of {name} / oracle's", OURS, ratio, 1.2, ""))
    return rows


def main() -> int:
    """Run as said above."""
    arguments = common.parser(__doc__ or "")
    arguments.add_argument("--seeds", type=int, default=3, help="clusters of each scenario")
    options = arguments.parse_args()
    seeds = range(1 if options.quick else options.seeds)
    rows: list[Row] = []
    for scenario in SCENARIOS[:: 4 if options.quick else 1]:
        rows += rows_of(scenario.name, scenario, seeds, JOBS, goals=True)
    if not options.quick:
        chosen = next(scenario for scenario in SCENARIOS if scenario.candidates)
        rows += rows_of(f"{chosen.name}, history of given placements", chosen, seeds, JOBS, goals=True, given=True)
        rows += rows_of(f"{SCENARIOS[0].name}, every job is new", SCENARIOS[0], seeds, None, goals=False)
    return common.report(rows, options.json)


if __name__ == "__main__":
    raise SystemExit(main())
