"""Will this forecast be wrong? Novelty alone against misses of the interval, on held-out families of generated clusters.

    python benchmarks/novelty.py [--quick] [--seeds N] [--json FILE]

Protocol. A family is an architecture on a shape of graph (16 of them, forecast_generator.py). A cluster repeats 48 jobs of 12 families.
Its first 800 runs are the history. Asked are its next 200 runs, and 200 runs of jobs of the other 4 families. Families are dealt so that
four clusters hold each one out once; --seeds deals again. The features of novelty.py have no family name and no shape; the architecture
is one of them. Before widening, an interval of an unlike run is no wider than that of the nearest finished run. The score is the widening
that novelty asks for, ties by distance: it rests on features and distances alone. "and the graph of runs" multiplies the score of an
unlike run by what run_graph.py knows of its architecture: how wrong forecasts were on graphs that were new to the history, over those of
all architectures. "Nearest" is the family of the nearest finished run.
Times are of one question against N runs: of this machine, no goal.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import scipy.stats

from benchmarks import common
from benchmarks.common import Row
from benchmarks.forecast_generator import ARCHITECTURES, SHAPES, Epoch, Scenario, generate
from benchmarks.intervalrows import Answer, answers_of, ends, interval_rows
from hyperscale.evaluate.forecast.epoch_forecast import Forecaster, learn_forecaster
from hyperscale.evaluate.forecast.forecast_types import ForecastRun, question_of
from hyperscale.evaluate.forecast.novelty import NoveltyIndex
from hyperscale.evaluate.forecast.run_facts import facts_of, judged
from hyperscale.evaluate.forecast.run_graph import RunGraph
from hyperscale.model.graph import FloatArray

NAME: Final = "novelty"
OURS: Final = "hyperscale"
HISTORY: Final = 800
ASKED: Final = 200
JOBS: Final = 48
REPEATS: Final = Scenario("repeats within 4 %", noise=0.04)
"""MLPerf's equal systems differ by 1.4 % (gnn_epochs/mlperf_rgat.csv); clusters are noisier."""
FEW: Final = {12: 3, 20: 4, 30: 4, 60: 6}
"""Runs of a small history, and the jobs that they repeat."""
DEALS: Final = 4
"""Clusters that together hold out each family once."""


@dataclass
class Outcome:
    """What one cluster showed."""

    before: list[Answer]
    """Of runs alike, then of unlike families."""
    after: list[Answer]
    same_family: list[bool]
    """Of runs alike."""
    doubts: list[float]
    """Of all, what the graph of finished runs multiplies the score of an unlike run with."""


def deal(seed: int) -> list[list[tuple[str, str]]]:
    """All families in `DEALS` hands."""
    families = [(architecture, shape) for architecture in ARCHITECTURES for shape in SHAPES]
    order = np.random.default_rng([seed, 7]).permutation(len(families)).tolist()
    return [[families[place] for place in order[hand::DEALS]] for hand in range(DEALS)]


def outcome(held_out: Sequence[tuple[str, str]], seed: int) -> Outcome:
    """One cluster without `held_out`, then asked about them."""
    families = [(architecture, shape) for architecture in ARCHITECTURES for shape in SHAPES if (architecture, shape) not in held_out]
    alike = generate(REPEATS, HISTORY + ASKED, seed, families, JOBS)
    unlike = [_renamed(epoch) for epoch in generate(REPEATS, ASKED, seed, held_out, JOBS)]
    history, later = alike[:HISTORY], alike[HISTORY:]
    forecaster = learn_forecaster([epoch.run for epoch in history])
    asked = [epoch.run for epoch in (*later, *unlike)]
    nearest = [forecaster.index.nearest(question_of(epoch.run))[0].index for epoch in later]
    same = [index is not None and history[index].family == epoch.family for index, epoch in zip(nearest, later, strict=True)]
    doubts = _doubts(forecaster, [epoch.run for epoch in history], asked)
    return Outcome(answers_of(forecaster, asked, widened=False), answers_of(forecaster, asked), same, doubts)


def _doubts(forecaster: Forecaster, history: Sequence[ForecastRun], asked: Sequence[ForecastRun]) -> list[float]:
    """By the graph of finished runs; 1 for runs alike."""
    graph = RunGraph(judged([facts_of(run) for run in history], forecaster))
    unlike = [forecaster.index.nearest(question_of(run))[0].unlike for run in asked]
    return [graph.doubt(run.features.architecture) if new else 1.0 for run, new in zip(asked, unlike, strict=True)]


def _renamed(epoch: Epoch) -> Epoch:
    """The same epoch on a graph of another name."""
    features = replace(epoch.run.features, dataset=f"unlike-{epoch.run.features.dataset}")
    return replace(epoch, run=replace(epoch.run, features=features))


def missed(answers: Sequence[Answer]) -> FloatArray:
    """(n,) 1 where the 95 % interval missed."""
    truth = np.log([one.measured_seconds for one in answers])
    low, high = ends(answers)[1]
    outside: FloatArray = ((truth < low) | (truth > high)).astype(np.float64)
    return outside


def area(score: FloatArray, positive: FloatArray) -> float:
    """Area under the ROC curve: the chance that a miss scores higher than a hit, ties half (Mann & Whitney 1947)."""
    ranks = scipy.stats.rankdata(score)
    hits = positive.sum()
    return float((ranks[positive > 0].sum() - hits * (hits + 1) / 2.0) / (hits * (len(score) - hits)))


def _pooled(answers: Sequence[Sequence[Answer]], part: slice) -> list[Answer]:
    """The same part of every outcome."""
    return [one for each in answers for one in each[part]]


def family_rows(seeds: Sequence[int], quick: bool) -> list[Row]:
    """All clusters together."""
    hands = [(10 * seed + number, hand) for seed in seeds for number, hand in enumerate(deal(seed)[: 1 if quick else DEALS])]
    outcomes = [outcome(hand, seed) for seed, hand in hands]
    before, after = [found.before for found in outcomes], [found.after for found in outcomes]
    unlike_before = _pooled(before, slice(ASKED, None))
    unlike, alike = _pooled(after, slice(ASKED, None)), _pooled(after, slice(ASKED))
    asked_before = _pooled(before, slice(None))
    misses, distances = missed(asked_before), np.array([one.forecast.distance for one in asked_before])
    widening = np.array([one.forecast.widening for one in asked_before])
    doubts = np.concatenate([found.doubts for found in outcomes])
    same = 100.0 * float(np.concatenate([found.same_family for found in outcomes]).mean())
    features_alone, with_graph = (area(score + 1e-6 * distances, misses) for score in (widening, widening * doubts))
    covered = 100.0 * (1.0 - float(missed(unlike).mean()))
    case = "held-out families"
    return [
        Row(NAME, case, OURS, "misses of 95 % before widening", float(misses.sum()), "runs"),
        Row(NAME, case, OURS, "coverage of 95 % before widening", 100.0 * (1.0 - float(missed(unlike_before).mean())), "%"),
        Row(NAME, case, OURS, "AUROC of widening for misses", features_alone, ""),
        Row(NAME, case, OURS, "AUROC of widening and the graph of runs", with_graph, ""),
        Row(NAME, case, "distance alone", "AUROC for misses", area(distances, misses), ""),
        *interval_rows(NAME, case, OURS, unlike),
        *interval_rows(NAME, "families of the history", OURS, alike),
        Row(NAME, "families of the history", OURS, "nearest is of the same family", same, "%"),
        common.goal(NAME, "100 / misses before widening", OURS, 100.0 / max(1.0, float(misses.sum())), 1.0, ""),
        common.goal(NAME, "0.85 / AUROC for misses before widening", OURS, 0.85 / features_alone, 1.0, ""),
        common.goal(NAME, "held-out families: |coverage - 95 %| after widening", OURS, abs(covered - 95.0), 3.0, "points"),
        common.goal(NAME, "runs alike: nearest is of another family", OURS, 100.0 - same, 5.0, "%"),
    ]


def few_rows(clusters: int) -> list[Row]:
    """95 % intervals of unlike runs where a history is too small to teach how wide they must be."""
    rows = []
    for count, jobs in FEW.items():
        answers: list[Answer] = []
        for seed in range(clusters):
            history = [epoch.run for epoch in generate(REPEATS, count, seed, deal(seed)[0], jobs)]
            asked = [_renamed(epoch).run for epoch in generate(REPEATS, 40, seed + 1000, None, 16)]
            answers += [one for one in answers_of(learn_forecaster(history), asked) if one.forecast.distance > 1.0]
        case = f"unlike runs after {count} runs of {jobs} jobs"
        half = np.median([math.log(one.forecast.high_95 / one.forecast.low_95) / 2.0 for one in answers])
        rows.append(Row(NAME, case, OURS, f"coverage of 95 % ({len(answers)} rows)", 100.0 * (1.0 - float(missed(answers).mean())), "%"))
        rows.append(Row(NAME, case, OURS, "median width of 95 %, either way", math.exp(float(half)), "times"))
    return rows


def time_rows(counts: Sequence[int]) -> list[Row]:
    """Time of one exact question."""
    epochs = generate(REPEATS, 2000, 0, jobs=None)
    rows = []
    for count in counts:
        index = NoveltyIndex([epochs[place % len(epochs)].run for place in range(count)])
        start = time.perf_counter()
        for epoch in epochs[:10]:
            index.nearest(epoch.run)
        rows.append(Row(NAME, f"{count} runs", "numpy, exact", "time of one question", (time.perf_counter() - start) * 100.0, "ms"))
    return rows


def main() -> int:
    """Run as said above."""
    arguments = common.parser(__doc__ or "")
    arguments.add_argument("--seeds", type=int, default=1, help="deals of the families")
    options = arguments.parse_args()
    rows = family_rows(range(1 if options.quick else options.seeds), options.quick)
    rows += few_rows(4 if options.quick else 20)
    rows += time_rows([1_000, 10_000] if options.quick else [1_000, 10_000, 100_000])
    return common.report(rows, options.json)


if __name__ == "__main__":
    raise SystemExit(main())
