"""Forecasts of epoch seconds on published tables (../shared/data/gnn_epochs), with their intervals and named peers.

    python benchmarks/forecast.py [--quick] [--data FILE] [--seeds N] [--json FILE]

Protocol. No row that is asked is ever in the history, and nothing is tuned on asked rows:
- The reasons to be alike and their prior variances stand in residual_kernel.py. Variances are fitted to the history of each fold alone.
- "1 and 2 GPUs": a curve is one (model, system, dataset). The history is all other curves, and the curve's own rows on 1 and 2 GPUs.
  Asked are its rows on 3 and 4. Every curve is asked once. "without borrowing": the history is the curve's own two rows.
- "dataset left out": the history is all rows of the other datasets, whatever the system. Then without any row of the dataset, or with
  one: one row of each model (every row is the given one in turn), or one row of each model and system (every GPU count in turn).
- "R-GAT": the history is MLPerf's entries on 4 and 8 GPUs, alone or with the tables. Asked are 64 GPUs. The physical constants are the
  planner's (speed table, NVLink and PCIe table, launches of a layer, sampling law); public are the reference model's shape and the
  400 Gbit/s card of each GPU of that system. None was fitted to any of these rows.
Batch sizes of samplers are not stated in the tables: 1,024 is assumed. Rows that the data's notes doubt count; figures without them are
printed as well. --data FILE asks the first two of a table with the same columns; shapes of graphs come from the dataset_stats.csv beside
it, else from the published one. Rows of the published table on datasets that FILE does not name are in its history.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from benchmarks import common
from benchmarks.common import Row
from benchmarks.epochtables import DATA, epoch_runs, faulty, rgat_runs
from benchmarks.forecastpeers import CURVES, DATASETS, Curve, curve, scaling_of_others
from benchmarks.intervalrows import Answer, answer, interval_rows
from hyperscale.evaluate.forecast.epoch_forecast import learn_forecaster
from hyperscale.evaluate.forecast.forecast_types import ForecastRun, question_of
from hyperscale.evaluate.forecast.residual_process import Variances, learn_residuals

NAME: Final = "forecast"
OURS: Final = "hyperscale"
GIVEN: Final = (1, 2)
ASKED: Final = (3, 4)
ONE_OF_MODEL: Final = "one row of each model"
Errors = dict[str, list[float]]
Runs = Sequence[ForecastRun]
Setting = tuple[list[ForecastRun], list[ForecastRun]]
"""Rows that are given, and rows that are asked."""


def error(predicted: float, run: ForecastRun) -> float:
    """|predicted / measured - 1|."""
    return abs(predicted / run.measured_seconds - 1.0)


def curves_of(runs: Iterable[ForecastRun]) -> list[Curve]:
    """Curves with rows on one host for all of `GIVEN` and `ASKED`."""
    counts: dict[Curve, set[int]] = {}
    for run in runs:
        if run.hosts == 1:
            counts.setdefault(curve(run), set()).add(run.ranks)
    return [key for key, ranks in counts.items() if ranks >= {*GIVEN, *ASKED}]


def larger_counts(runs: Sequence[ForecastRun], doubted: set[str], past: Sequence[ForecastRun] = ()) -> list[Row]:
    """3 and 4 GPUs from 1 and 2; `past` runs are in every history."""
    errors: Errors = {}
    sound: Errors = {}
    answers: list[Answer] = []
    for key in curves_of(runs):
        own = {run.ranks: run for run in runs if curve(run) == key}
        others = [*past, *(run for run in runs if curve(run) != key)]
        given, asked = [own[ranks] for ranks in GIVEN], [own[ranks] for ranks in ASKED]
        forecaster, alone = learn_forecaster([*others, *given]), learn_residuals(given)
        one, two = (run.measured_seconds for run in given)
        for run, mean in zip(asked, alone.predict(asked)[0].tolist(), strict=True):
            answers.append(answer(forecaster, run))
            predicted = {OURS: answers[-1].forecast.seconds, f"{OURS}, without borrowing": run.physical_seconds * math.exp(mean)}
            predicted |= {name: law(one, two, run.ranks) for name, law in CURVES.items()}
            predicted["scaling of others"] = scaling_of_others(others, two, run.ranks)
            _note(errors, predicted, run)
            _note(sound, {} if run.run in doubted else predicted, run)
    case = "3 and 4 GPUs from 1 and 2"
    rows = [*mape(case, errors), *mape(f"{case}, without doubted rows", sound), *interval_rows(NAME, case, OURS, answers)]
    ours, inverse = float(np.mean(errors[OURS])), float(np.mean(errors["a/p + b"]))
    rows.append(common.goal(NAME, f"{case}: MAPE", OURS, 100.0 * ours, 7.0, "%"))
    return [*rows, common.goal(NAME, f"{case}: 1.5 x MAPE / that of a/p + b", OURS, 1.5 * ours / inverse, 1.0, "")]


def _note(errors: Errors, predicted: Mapping[str, float], run: ForecastRun) -> None:
    """Add each method's error on a run."""
    for name, seconds in predicted.items():
        errors.setdefault(name, []).append(error(seconds, run))


def mape(case: str, errors: Errors) -> list[Row]:
    """Mean absolute percentage error by method."""
    return [Row(NAME, case, name, "MAPE", 100.0 * float(np.mean(values)), "%") for name, values in errors.items() if values]


def model(run: ForecastRun) -> tuple[str, ...]:
    """Rows that share a level where one row of each model is given."""
    return (run.features.architecture,)


def model_and_system(run: ForecastRun) -> tuple[str, ...]:
    """Rows that share a level where one row of each model and system is given."""
    return (run.features.architecture, run.features.system)


def settings(own: Sequence[ForecastRun], quick: bool) -> dict[str, list[Setting]]:
    """By mode, (given, asked) rows of one dataset."""
    one_of_model = []
    for architecture in sorted({run.features.architecture for run in own}):
        same = [run for run in own if run.features.architecture == architecture]
        one_of_model += [([run], [other for other in same if other is not run]) for run in same[:: 3 if quick else 1]]
    one_of_system = [_one_of_system(own, ranks) for ranks in sorted({run.ranks for run in own})]
    return {"no row of it": [([], list(own))], ONE_OF_MODEL: one_of_model, "one row of each model and system": one_of_system}


def _one_of_system(own: Sequence[ForecastRun], ranks: int) -> Setting:
    """The rows of one number of GPUs are given, those of the same models and systems asked."""
    given = [run for run in own if run.ranks == ranks]
    systems = {model_and_system(run) for run in given}
    return given, [run for run in own if run.ranks != ranks and model_and_system(run) in systems]


def left_out(runs: Sequence[ForecastRun], quick: bool, past: Sequence[ForecastRun] = ()) -> list[Row]:
    """One dataset at a time, on one host; `past` runs are in every history."""
    whole = set(curves_of(runs))
    runs = [run for run in runs if curve(run) in whole]
    errors: dict[str, Errors] = {}
    answers: dict[str, list[Answer]] = {}
    for name in sorted({run.features.dataset for run in runs}):
        training = [*past, *(run for run in runs if run.features.dataset != name)]
        own = [run for run in runs if run.features.dataset == name]
        for mode, pairs in settings(own, quick).items() if training else ():
            _left_out(mode, pairs, training, errors.setdefault(mode, {}), answers)
    return dataset_rows(errors, answers)


def _left_out(mode: str, pairs: Sequence[Setting], training: Runs, errors: Errors, answers: dict[str, list[Answer]]) -> None:
    """Ask every row of one dataset in one mode; with an interval where the given rows are one of each model and system, or none."""
    variances = learn_residuals(training).variances
    level = model if mode == ONE_OF_MODEL else model_and_system
    for given, asked in pairs:
        ours = _means(training, given, asked, variances)
        if mode != ONE_OF_MODEL:
            forecaster = learn_forecaster([*training, *given], variances=variances)
            replies = [answer(forecaster, run) for run in asked]
            answers.setdefault(mode, []).extend(replies)
            ours = [reply.forecast.seconds for reply in replies]
        for run, seconds in zip(asked, ours, strict=True):
            _note(errors, {OURS: seconds} | _peers(training, given, run, level), run)


def _means(training: Runs, given: Runs, asked: Runs, variances: Variances) -> list[float]:
    """Seconds by the mean of the process alone, without an interval."""
    means = learn_residuals([*training, *given], variances=variances).predict(asked)[0]
    return [run.physical_seconds * math.exp(mean) for run, mean in zip(asked, means.tolist(), strict=True)]


def _peers(training: Runs, given: Runs, run: ForecastRun, level: Callable[[ForecastRun], tuple[str, ...]]) -> dict[str, float]:
    """Seconds by every peer."""
    return {peer: law(training, given, run, level) for peer, law in DATASETS.items()}


def dataset_rows(errors: Mapping[str, Errors], answers: Mapping[str, list[Answer]]) -> list[Row]:
    """Figures of each mode, and the goals of those with a row."""
    rows: list[Row] = []
    for mode, by_method in errors.items():
        case = f"dataset left out, {mode}"
        rows += mape(case, by_method)
        rows += interval_rows(NAME, case, OURS, answers.get(mode, []))
        if mode == "no row of it":
            continue
        ours = float(np.mean(by_method[OURS]))
        rows.append(common.goal(NAME, f"{case}: MAPE", OURS, 100.0 * ours, 15.0, "%"))
        for peer in DATASETS:
            rows.append(common.goal(NAME, f"{case}: MAPE / that of {peer}", OURS, ours / float(np.mean(by_method[peer])), 1.0, ""))
    return rows


def rgat(file: Path, tables: Sequence[ForecastRun]) -> list[Row]:
    """64 GPUs from 4 and 8."""
    runs = rgat_runs(file)
    given, asked = [run for run in runs if run.ranks <= 8], next(run for run in runs if run.ranks == 64)
    four, eight = (float(np.median([run.measured_seconds for run in given if run.ranks == ranks])) for ranks in (4, 8))
    physical_eight = next(run.physical_seconds for run in given if run.ranks == 8)
    slope = (four - eight) * 8.0
    predicted = {
        OURS: learn_forecaster(given).ask(question_of(asked)).seconds,
        f"{OURS}, A100 tables in the history too": learn_forecaster([*tables, *given]).ask(question_of(asked)).seconds,
        "linear": eight * 8 / asked.ranks,
        "a/p + b": slope / asked.ranks + eight - slope / 8,
        "physical, scaled at 8": asked.physical_seconds * eight / physical_eight,
        "physical alone": asked.physical_seconds,
    }
    case = "R-GAT, 64 GPUs from 4 and 8"
    rows = [Row(NAME, case, "measured", "epoch", asked.measured_seconds, "s")]
    for name, seconds in predicted.items():
        rows += [Row(NAME, case, name, "epoch", seconds, "s"), Row(NAME, case, name, "error", 100.0 * error(seconds, asked), "%")]
    rows.append(common.goal(NAME, f"{case}: error", OURS, 100.0 * error(predicted[OURS], asked), 10.0, "%"))
    return rows


def _published(names: set[str]) -> list[ForecastRun]:
    """Rows of the published tables on other datasets than these, on one host."""
    return [run for run in epoch_runs(DATA / "epoch_times.csv")[0] if run.hosts == 1 and run.features.dataset not in names]


def main() -> int:
    """Run as said above."""
    arguments = common.parser(__doc__ or "")
    arguments.add_argument("--data", type=Path, metavar="FILE", help="a table with the columns of epoch_times.csv")
    arguments.add_argument("--seeds", type=int, default=1, help="unused: nothing here is random")
    options = arguments.parse_args()
    file = options.data or DATA / "epoch_times.csv"
    beside = file.parent / "dataset_stats.csv"
    runs, lines = epoch_runs(file, beside if beside.is_file() else DATA / "dataset_stats.csv")
    doubted = {run.run for run, line in zip(runs, lines, strict=True) if faulty(line)}
    past = _published({run.features.dataset for run in runs}) if options.data is not None else []
    if not curves_of(runs):
        raise SystemExit(f"{file}: no (model, system, dataset) has rows on one host with 1, 2, 3 and 4 GPUs; nothing can be asked")
    rows = [*larger_counts(runs, doubted, past), *left_out(runs, options.quick, past)]
    if options.data is None:
        rows += rgat(DATA / "mlperf_rgat.csv", runs)
    return common.report(rows, options.json)


if __name__ == "__main__":
    raise SystemExit(main())
