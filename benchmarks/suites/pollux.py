"""Predicted seconds of a step against measured placement tables: error, and whether placements are ranked as they measured.

Run: python -m benchmarks.suites.pollux [--quick] [--seeds N] [--placements FILE] [--json FILE]

Longer than other modules: what each figure means stands above how it is made.

Tables: Pollux's measurements (OSDI'21) of BERT, CIFAR-10 and NCF on up to 4 nodes of 4 T4 GPUs, each placement and batch once.
Fitted on half of the rows, judged on the other half; again with whole placements held out (`new placements`).

  error     mean of |predicted / measured - 1|
  tau       Kendall's between predicted and measured step times at equal batch, over all pairs
  ceiling   the tau that true values would reach: our predictions against themselves with the table's noise on them
  clear     the same tau over the pairs whose measured times differ by more than twice the noise of a difference (95 %), and their
            share; a pair predicted equal counts as half wrong
  sure      the same over fewer pairs: those of which at most 5 % are chance (Benjamini and Hochberg 1995); where placements differ
            little, up to a third of the `clear` pairs are
  speed     tau of samples per second over all pairs of the held-out rows, all batches together: one ranking of placements for each model
  placement one ranking of the placements for each model: permutations are one placement, its figure is the mean of ln(samples per second)
            over its held-out rows, less the batch's mean
  waiting   the same of seconds of a step, where more GPUs do not help: literal, and the hardest
  repeat    `waiting` of the table itself: what the fitted half measured against what the other half measured (split by rows)
  attained  what the true times of the placements would reach against the other half if chance in both halves is independent and normal:
            by `repeat` (Spearman 1904: a correlation with one noisy side is the root of that with two)
  epoch     tau of seconds for one sample at equal batch, what a plan is chosen by: step / GPUs, all pairs; it has a ceiling too
  floor     the table's noise floor: the error of looking a row up by its other permutations (suites/permutations.py)
  looked up `clear` over the new placements that have permutations, of that look-up and of ours
  clear     of "true values": what the true times would reach over the clear pairs of new placements, by tables drawn with this table's
            noise around a truth (suites/ranking_ceiling.py); and of ours, fitted to half of such a table

A table with a column host_type: each type is held out whole, the curve of the others predicts it, and the figures are printed.

`after 24 runs`: each batch is a workload whose first runs are a history, see benchmarks/taught.py.

Noise is what the table says of itself: placements that are each other's permutations (4-3-1 and 4-1-3) should take equally long; the
standard deviation of ln(step) within such groups, for each batch. Nothing of any model is in it, so that no model can widen it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from benchmarks import common, summary, taught
from benchmarks.common import Row
from benchmarks.peers import steptime as peers
from benchmarks.suites import Options, permutations, ranking_ceiling
from hyperscale.cli.history.placements import read_table, tau
from hyperscale.model.history.step_curves import Step
from hyperscale.planner.cost.steptime import predict
from hyperscale.planner.cost.steptime_fit import LEAST_ROWS, fit

BENCHMARK: Final = "pollux"
OURS: Final = "hyperscale"
NO_MEMORY: Final = "hyperscale, curve alone"
DATA: Final = Path(__file__).resolve().parents[3] / "shared" / "data" / "pollux"
MODELS: Final = ("bert", "cifar10", "ncf")
ERROR_LIMIT: Final = 0.15
TAU_LIMIT: Final = 0.9
CLEAR: Final = 2.0
"""Standard deviations of a difference of two measured times beyond which it counts as real."""
FALSE_PART: Final = 0.05
"""Of the `sure` pairs, at most this part differs by chance."""
LEAST_FREEDOM: Final = 10
"""Degrees of freedom below which a batch's noise is not estimated and its pairs are not called clear."""
QUICK_SEEDS: Final = 2
LEAST_RANKED: Final = 5
"""Placements of a batch below which they are not ranked."""
METRICS: Final = (
    ("error", "part"),
    ("tau", ""),
    ("clear", ""),
    ("clear_share", "part"),
    ("sure", ""),
    ("sure_share", "part"),
    ("epoch", ""),
    ("speed", ""),
    ("placement", ""),
    ("waiting", ""),
)
SPLITS: Final = ("rows", "new placements")

FloatArray = np.ndarray[Any, np.dtype[np.float64]]
Form = Callable[[Sequence[Step], Sequence[Step]], FloatArray]


@dataclass(frozen=True)
class Score:
    """What one form did on one held-out half; NaN where the table has too little to say it."""

    error: float
    tau: float
    clear: float
    clear_share: float
    sure: float
    sure_share: float
    epoch: float
    speed: float
    placement: float
    waiting: float
    ceiling: float
    epoch_ceiling: float


def noise(rows: Sequence[Step]) -> dict[float, float]:
    """Standard deviation of ln(step) among permutations of one placement, by batch; batches with too few of them are left out."""
    groups: dict[float, dict[tuple[int, ...], list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        groups[row.batch][tuple(sorted(row.gpus))].append(float(np.log(row.step_seconds)))
    found = {}
    for batch, placements in sorted(groups.items()):
        freedom = sum(len(values) - 1 for values in placements.values())
        if freedom >= LEAST_FREEDOM:
            found[batch] = float(np.sqrt(sum(np.var(values) * len(values) for values in placements.values()) / freedom))
    return found


def halves(rows: Sequence[Step], split: str, seed: int) -> tuple[list[Step], list[Step]]:
    """To fit and to judge: half of the rows, or all rows of half of the placements (permutations stay together)."""
    rng = np.random.default_rng(seed)
    if split == "rows":
        chosen = set(rng.permutation(len(rows))[: len(rows) // 2].tolist())
        return [row for index, row in enumerate(rows) if index in chosen], [row for index, row in enumerate(rows) if index not in chosen]
    placements = sorted({tuple(sorted(row.gpus)) for row in rows})
    kept = {placements[index] for index in rng.permutation(len(placements))[: len(placements) // 2]}
    known = [row for row in rows if tuple(sorted(row.gpus)) in kept]
    return known, [row for row in rows if tuple(sorted(row.gpus)) not in kept]


def score(asked: Sequence[Step], predicted: FloatArray, spread: dict[float, float], seed: int) -> Score:
    """Error and ranks of predictions; rank correlations are means over batches, `clear` and `sure` count all their pairs together."""
    rng = np.random.default_rng(seed)
    measured = np.array([row.step_seconds for row in asked])
    gpus = np.log([sum(row.gpus) for row in asked])
    pairs: list[FloatArray] = [np.zeros((0, 2))]
    taus: dict[str, list[float]] = defaultdict(list)
    for batch in sorted({row.batch for row in asked}):
        rows = [index for index, row in enumerate(asked) if row.batch == batch]
        if len(rows) < LEAST_RANKED:
            continue
        true, guess, size = np.log(measured[rows]), np.log(predicted[rows]), gpus[rows]
        taus["tau"].append(tau(guess, true))
        taus["epoch"].append(tau(guess - size, true - size))
        if batch in spread:
            noisy = guess + rng.normal(0.0, spread[batch], len(rows))
            taus["ceiling"].append(tau(guess, noisy))
            taus["epoch_ceiling"].append(tau(guess - size, noisy - size))
            pairs.append(_pairs(true, guess, spread[batch]))
    figures = {name: float(np.mean(taus[name])) if name in taus else math.nan for name in ("tau", "epoch", "ceiling", "epoch_ceiling")}
    samples = np.log([sum(row.gpus) * row.batch for row in asked])
    figures["speed"] = tau(samples - np.log(predicted), samples - np.log(measured))
    figures["placement"], figures["waiting"] = _by_placement(asked, np.log(predicted), np.log(measured))
    figures["error"] = float(np.mean(np.abs(predicted / measured - 1.0)))
    apart, same = np.concatenate(pairs).T
    figures["clear"], figures["clear_share"] = _ranked(same, apart > CLEAR)
    figures["sure"], figures["sure_share"] = _ranked(same, _beyond_chance(apart))
    return Score(**figures)


def _pairs(true: FloatArray, guess: FloatArray, spread: float) -> FloatArray:
    """(p, 2) of each pair: how far apart it measured, in standard deviations of a difference; 1 in the right order, -1 in the wrong one."""
    upper = np.triu_indices(len(true), 1)
    apart, predicted = ((values[:, None] - values[None, :])[upper] for values in (true, guess))
    return np.stack([np.abs(apart) / (math.sqrt(2.0) * spread), np.sign(apart) * np.sign(predicted)], axis=1)


def _beyond_chance(apart: FloatArray) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """(p,) which pairs differ, so that at most FALSE_PART of them do by chance (Benjamini and Hochberg 1995)."""
    chance = np.array([math.erfc(value / math.sqrt(2.0)) for value in apart.tolist()])
    ordered = np.sort(chance)
    accepted = np.flatnonzero(ordered <= FALSE_PART * np.arange(1, len(ordered) + 1) / max(1, len(ordered)))
    most = ordered[accepted[-1]] if len(accepted) else -1.0
    beyond: np.ndarray[Any, np.dtype[np.bool_]] = chance <= most
    return beyond


def _ranked(same: FloatArray, counted: np.ndarray[Any, np.dtype[np.bool_]]) -> tuple[float, float]:
    """Tau over the pairs that count, and their part of all; NaN where none is there."""
    return (float(same[counted].mean()), float(counted.mean())) if counted.any() else (math.nan, 0.0 if len(same) else math.nan)


def _levelled(rows: Sequence[Step], true: FloatArray) -> FloatArray:
    """(n,) the mean of ln(measured) over the rows of each row's batch."""
    of: dict[float, list[float]] = defaultdict(list)
    for row, value in zip(rows, true, strict=True):
        of[row.batch].append(value)
    means = {batch: float(np.mean(values)) for batch, values in of.items()}
    return np.array([means[row.batch] for row in rows])


def _means(rows: Sequence[Step], values: FloatArray, key: Callable[[Step], Any]) -> dict[Any, float]:
    """Mean of `values` (n,) by what `key` says of a row."""
    found: dict[Any, list[float]] = defaultdict(list)
    for row, value in zip(rows, values, strict=True):
        found[key(row)].append(value)
    return {name: float(np.mean(found[name])) for name in sorted(found)}


def _by_placement(asked: Sequence[Step], guess: FloatArray, true: FloatArray) -> tuple[float, float]:
    """Tau of samples per second and of seconds, one mean of logarithms for each unlike placement; batches are levelled by the measured."""
    level = _levelled(asked, true)
    first, second = (_means(asked, values - level, lambda row: row.counts) for values in (guess, true))
    size = np.log([sum(counts) for counts in first])
    predicted, measured = np.array(list(first.values())), np.array(list(second.values()))
    return tau(size - predicted, size - measured), tau(predicted, measured)


def repeat(known: Sequence[Step], asked: Sequence[Step]) -> tuple[float, float]:
    """What the measurements of one half say of the other's placements: their `waiting`, and what true times would reach (`attained`).

    NaN for both where the halves have too few placements in common, or agree no better than by chance.
    """
    rows = [*known, *asked]
    true = np.log([row.step_seconds for row in rows])
    values = true - _levelled(rows, true)
    first = _means(known, values[: len(known)], lambda row: row.counts)
    second = _means(asked, values[len(known) :], lambda row: row.counts)
    both = sorted(set(first) & set(second))
    if len(both) < LEAST_RANKED:
        return math.nan, math.nan
    found = tau(np.array([first[name] for name in both]), np.array([second[name] for name in both]))
    if found <= 0.0:
        return math.nan, math.nan
    # Kendall's tau of a normal pair is 2 / pi asin(correlation).
    return found, 2.0 / math.pi * math.asin(math.sqrt(math.sin(math.pi / 2.0 * found)))


def ours(known: Sequence[Step], asked: Sequence[Step]) -> FloatArray:
    """The product's curve, and what it remembers of placements."""
    return predict(fit(known), asked)


def curve_alone(known: Sequence[Step], asked: Sequence[Step]) -> FloatArray:
    """The product's curve without what it remembers of single placements."""
    return predict(fit(known), asked, remembered=False)


FORMS: Final[dict[str, Form]] = {OURS: ours, NO_MEMORY: curve_alone, **peers.FORMS}


def tables(placements: Path | None) -> Iterator[tuple[str, list[Step]]]:
    """Name and rows of each table: the one asked for, else Pollux's three where they are."""
    if placements is not None:
        yield placements.stem, read_table(placements)
        return
    for model in MODELS:
        file = DATA / f"placements_{model}_aws.csv"
        if file.exists():
            yield model, read_table(file)


def run(options: Options) -> list[Row]:
    """Rows of every table, split and form; see `judge`."""
    return judge(options.placements, options.seeds[: QUICK_SEEDS if options.quick else None])


def judge(placements: Path | None, seeds: Sequence[int]) -> list[Row]:
    """Rows of every table, split and form; the goal on ranks is for the split by rows, the harder one is printed beside it."""
    rows: list[Row] = []
    for name, steps in tables(placements):
        if min(len(known) for split in SPLITS for known, _ in [halves(steps, split, 0)]) < LEAST_ROWS:
            print(f"pollux: {name} has too few rows, {len(steps)}, to fit a curve on half of them")
            continue
        spread = noise(steps)
        for batch, value in spread.items():
            rows.append(Row(BENCHMARK, name, f"the table, batch {batch:g}", "noise", value, "ln(s)"))
        for split in SPLITS:
            rows += _judged(name, steps, spread, split, seeds)
        rows += taught.rows(BENCHMARK, name, steps, seeds)
        rows.append(Row(BENCHMARK, name, "the table, its other permutations", "floor", permutations.noise_floor(steps), "part"))
    if placements is not None:
        for kind, known, asked in permutations.host_types(placements):
            found = score(asked, predict(fit(known), asked), noise(asked), 0)
            rows += [
                Row(BENCHMARK, f"{kind} held out", OURS, metric.replace("_", " "), getattr(found, metric), unit) for metric, unit in METRICS
            ]
    if placements is None and not rows:
        print("pollux: no placement tables beside the repository (../shared/data/pollux), and none given with --placements")
    return rows


def _judged(name: str, steps: Sequence[Step], spread: dict[float, float], split: str, seeds: Sequence[int]) -> list[Row]:
    case = f"{name}, {split}"
    rows: list[Row] = []
    both = [halves(steps, split, seed) for seed in seeds]
    scores = {}
    for form, answer in FORMS.items():
        scores[form] = [score(asked, answer(known, asked), spread, seed) for seed, (known, asked) in zip(seeds, both, strict=True)]
        for metric, unit in METRICS:
            rows += _rows(case, form, metric, _values(scores[form], metric), unit)
    if split == SPLITS[0]:
        repeats = [repeat(known, asked) for known, asked in both]
        for metric, values in zip(("repeat", "attained"), zip(*repeats, strict=True), strict=True):
            rows += _rows(case, "the table's other half", metric, values, "")
    for metric in ("ceiling", "epoch_ceiling"):
        rows += _rows(case, "the table's noise", metric, _values(scores[OURS], metric), "")
    if split != SPLITS[0]:
        rows += _by_permutations(case, steps, spread, both, scores[OURS])
    return rows + _goals(case, scores[OURS], spread, split)


def _by_permutations(
    case: str, steps: Sequence[Step], spread: dict[float, float], both: Sequence[tuple[list[Step], list[Step]]], scores: Sequence[Score]
) -> list[Row]:
    """Rows and goals of new placements against what the table says of itself by their other permutations."""
    taus: list[tuple[float, float]] = []
    for known, asked in both:
        positions, seconds = permutations.looked_up(asked)
        again = [asked[position] for position in positions]
        if again:
            predicted = ours(known, again)
            taus.append((score(again, seconds, spread, 0).clear, score(again, predicted, spread, 0).clear))
    rows: list[Row] = []
    for method, values in zip(("the table, its other permutations", OURS), zip(*taus, strict=True), strict=False):
        rows += _rows(case, method, "looked up", values, "")
    rows += _ceilings(case, steps, len(both))
    floor, error = permutations.noise_floor(steps), float(np.mean(_values(scores, "error")))
    if not math.isnan(floor):
        rows.append(common.goal(BENCHMARK, f"{case}: error / noise floor", OURS, error / floor, permutations.FLOOR_RATIO_LIMIT, "ratio"))
    return rows


def _ceilings(case: str, steps: Sequence[Step], count: int) -> list[Row]:
    """Rows of `clear` and `sure` that true values, and the product's curve, reach over new placements of simulated tables."""
    rows: list[Row] = []
    for truth in ranking_ceiling.TRUTHS:
        simulation = ranking_ceiling.simulation(steps, truth)
        if simulation is None:
            continue
        found: dict[tuple[str, str], list[float]] = defaultdict(list)
        for seed in range(count):
            again = [simulation.drawn(ranking_ceiling.DRAWS * seed + draw) for draw in range(ranking_ceiling.DRAWS)]
            split = [halves(table, SPLITS[1], seed) for table in again]
            true = [score(asked, simulation.true_seconds(asked), noise(table), 0) for table, (_, asked) in zip(again, split, strict=True)]
            fitted = [score(asked, ours(known, asked), noise(table), 0) for table, (known, asked) in zip(again, split, strict=True)]
            for metric in ("clear", "sure"):
                for method, scores in (("true values", true), (OURS, fitted)):
                    found[method, metric].append(float(np.nanmean(_values(scores, metric))))
        for (method, metric), values in found.items():
            rows += _rows(case, f"{method}, simulated, {truth}", metric, values, "")
    return rows


def _values(scores: Sequence[Score], metric: str) -> list[float]:
    return [getattr(one, metric) for one in scores]


def _goals(case: str, scores: Sequence[Score], spread: dict[float, float], split: str) -> list[Row]:
    """Goals of ours; a goal is a figure that must not be exceeded: 1 - tau."""
    error = float(np.mean(_values(scores, "error")))
    rows = [common.goal(BENCHMARK, f"{case}: error below 15 %", OURS, error, ERROR_LIMIT, "part")]
    ranks = [("speed", "of samples/s, all pairs"), ("placement", "of placements, samples/s"), ("waiting", "of placements, seconds")]
    ranks.insert(0, ("clear", "over clear pairs") if spread else ("tau", "over all pairs, noise unknown"))
    for metric, ranked in ranks:
        reached = float(np.mean(_values(scores, metric)))
        rows.append(common.goal(BENCHMARK, f"{case}: 1 - tau {ranked}", OURS, 1.0 - reached, 1.0 - TAU_LIMIT, ""))
    return rows


def _rows(case: str, method: str, metric: str, values: Sequence[float], unit: str) -> list[Row]:
    known = [(seed, value) for seed, value in enumerate(values) if not math.isnan(value)]
    return [Row(BENCHMARK, case, method, metric.replace("_", " "), value, unit, seed) for seed, value in known]


def main() -> None:
    """Run the suite alone."""
    arguments = common.parser(__doc__ or "")
    arguments.add_argument("--seeds", type=int, default=5, help="random halves, e.g. --seeds 5")
    arguments.add_argument("--placements", type=Path, metavar="FILE", help="another table with the same columns")
    given = arguments.parse_args()
    rows = judge(given.placements, tuple(range(given.seeds))[: QUICK_SEEDS if given.quick else None])
    print(summary.text(rows))
    if given.json is not None:
        given.json.write_bytes(msgspec.json.encode(rows))


if __name__ == "__main__":
    main()
