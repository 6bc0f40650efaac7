"""Forecast of live runs: five small trainings on this machine's processor, then the sixth, forecast from the five.

    python benchmarks/live_forecast.py [--quick] [--seeds N] [--json FILE]

Protocol. A run is the project's training worker (hyperscale.training.worker.train) as a process, or as two ranks under mpirun, each with
one computing thread. It trains GraphSAGE on a generated graph of communities; its figure is what it reports, the median of its epochs after
the first. A round has five runs and a sixth that is asked before it starts. Cases:
- "repeat": the six runs are of one job.
- "between": graphs of six sizes, the sixth within the range of the five.
- "larger": the sixth is 1.5 times as large as the largest of the five.
- "2 ranks": as "between", every run on two ranks.
The physical model gets rough figures of a processor, fixed before: the five runs have to correct it. Named peers: the physical model alone,
and the median ratio of measured to physical seconds of the five.

Other programs on the machine change the figures: an asked run is done three times and its median counts; all runs of a case are dealt in an
order drawn by the seed, so that a slow minute hits no size alone. "spread" is the range of the three over their median: where it is above
the limit of the goal, the machine was not idle enough to judge.
--noise trains nothing and simulates runs instead: how good the method is where nothing disturbs the machine.
--seeds draws more rounds. The goal is of the median error over all rounds and cases. Without Horovod or mpirun "2 ranks" is left out.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import msgspec
import numpy as np

from benchmarks import common
from benchmarks.common import Row
from benchmarks.epochtables import workload
from hyperscale.evaluate.forecast.epoch_forecast import forecast
from hyperscale.evaluate.forecast.forecast_types import EpochForecast, ForecastQuestion, ForecastRun, RunFeatures
from hyperscale.evaluate.forecast.physical_epoch import HostFigures, physical_epoch
from hyperscale.model.api.measured import RESULT_PREFIX, Measured

ROOT: Final = Path(__file__).resolve().parents[1]
NAME: Final = "live_forecast"
OURS: Final = "hyperscale"
LIMIT: Final = 10.0
"""Per cent."""
DEGREE: Final = 16
FEATURES, HIDDEN, CLASSES, LAYERS = 64, 64, 8, 2
EPOCHS, QUICK_EPOCHS = 40, 12
REPEATS: Final = 3
"""Of an asked run."""
PROCESSOR: Final = HostFigures(5e9, 1e9, 1e9, 1e10, 5e-5, 5e-5)
"""One computing thread, and the loopback between two ranks; round numbers, not fitted."""
TIMEOUT_SECONDS: Final = 600


@dataclass(frozen=True)
class Size:
    """One run's job."""

    vertices: int
    ranks: int = 1

    @property
    def edges(self) -> int:
        """Directed edges that are drawn."""
        return DEGREE * self.vertices


Measure = Callable[[Size], float]
"""Seconds of an epoch of one run."""


@dataclass(frozen=True)
class Case:
    """Five runs and the sixth."""

    name: str
    given: tuple[Size, ...]
    asked: Size


def cases(scale: int, two_ranks: bool) -> list[Case]:
    """All cases; `scale` is the number of vertices of the smallest graph."""
    sizes = [Size(scale * step) for step in (1, 2, 3, 5, 8)]
    made = [
        Case("repeat", (Size(4 * scale),) * 5, Size(4 * scale)),
        Case("between", tuple(sizes), Size(4 * scale)),
        Case("larger", tuple(sizes), Size(12 * scale)),
    ]
    if two_ranks:
        made.append(Case("2 ranks", tuple(Size(size.vertices, 2) for size in sizes), Size(4 * scale, 2)))
    return made


def question(size: Size) -> ForecastQuestion:
    """What is asked before a run starts: stated sizes, and physical seconds from them."""
    shape = {"nodes": size.vertices, "feature_dim": FEATURES, "classes": CLASSES, "train_vertices": int(0.6 * size.vertices)}
    shape |= {"layers": LAYERS, "hidden": HIDDEN}
    work = workload("GraphSAGE", {name: str(value) for name, value in shape.items()}, size.edges, None, ())
    parts = physical_epoch(work, PROCESSOR, size.ranks, 1)
    features = RunFeatures(
        "GraphSAGE",
        gpu_product="processor",
        vertices=float(size.vertices),
        edges=float(size.edges),
        feature_size=float(FEATURES),
        hidden_size=float(HIDDEN),
        layers=float(LAYERS),
    )
    return ForecastQuestion(features, size.ranks, 1, parts.seconds, parts.communication)


def train(size: Size, epochs: int, seed: int) -> float:
    """Seconds of an epoch as the worker reports them. RuntimeError where it fails."""
    dataset = f"SBM?vertices={size.vertices}&edges={size.edges}&featureSize={FEATURES}&classes={CLASSES}"
    model = {"architecture": "GraphSAGE", "layers": LAYERS, "hiddenSize": HIDDEN, "epochs": epochs}
    variables = {
        "HYPERSCALE_MODEL": json.dumps(model),
        "HYPERSCALE_DATASET_SOURCE": "generated",
        "HYPERSCALE_DATASET_PATH": dataset,
        "HYPERSCALE_PLAN_FILE": str(ROOT / "no plan"),
        "HYPERSCALE_METRICS_PORT": "0",
        "HYPERSCALE_SEED": str(seed),
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "operator"), str(ROOT)]),
    }
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("HYPERSCALE_", "OMPI_"))}
    command = [*_launcher(size.ranks), sys.executable, "-W", "ignore", "-m", "hyperscale.training.worker.train"]
    ended = subprocess.run(
        command, env={**inherited, **variables}, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False, cwd=ROOT
    )
    results = [line for line in ended.stdout.splitlines() if line.startswith(RESULT_PREFIX)]
    if ended.returncode != 0 or not results:
        raise RuntimeError(f"a run of {size} ended with {ended.returncode}: {ended.stderr[-1000:]}")
    measured = msgspec.json.decode(results[-1].removeprefix(RESULT_PREFIX), type=Measured)
    if measured.epoch_seconds is None:
        raise RuntimeError(f"a run of {size} reported no epoch")
    return measured.epoch_seconds


def _launcher(ranks: int) -> list[str]:
    if ranks == 1:
        return []
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    loopback = ["-mca", "btl", "self,tcp", "-mca", "btl_tcp_if_include", "lo"]
    return [shutil.which("mpirun") or "mpirun", *root, "--oversubscribe", "--bind-to", "none", *loopback, "-np", str(ranks)]


def simulated(noise: float, seed: int) -> Measure:
    """Runs that nothing disturbs but normal noise of ln(seconds), and whose seconds grow less than the physical model's."""
    chance = np.random.default_rng([seed, 1])
    return lambda size: 2.3 * question(size).physical_seconds ** 0.9 * math.exp(chance.normal(0.0, noise))


@dataclass(frozen=True)
class Live:
    """One round of one case."""

    case: str
    answer: EpochForecast
    measured: list[float]
    """Of the asked run, each time."""
    peers: dict[str, float]

    @property
    def seconds(self) -> float:
        """Median of the asked run."""
        return statistics.median(self.measured)


def live(case: Case, measure: Measure, seed: int) -> Live:
    """Train the five, forecast the sixth, then train it."""
    order = np.random.default_rng([seed, len(case.name)]).permutation(len(case.given)).tolist()
    runs = []
    for place in order:
        asked = question(case.given[place])
        seconds = measure(case.given[place])
        physical, share = asked.physical_seconds, asked.communication_seconds
        runs.append(ForecastRun(f"{case.name} {place}", asked.features, asked.ranks, 1, seconds, physical, share))
    sixth = question(case.asked)
    answer = forecast(runs, sixth)  # before the run: nothing of it is in the history
    ratio = statistics.median(run.measured_seconds / run.physical_seconds for run in runs)
    peers = {"physical alone": sixth.physical_seconds, "median ratio": ratio * sixth.physical_seconds}
    return Live(case.name, answer, [measure(case.asked) for _ in range(REPEATS)], peers)


def rows_of(rounds: Sequence[tuple[int, Live]]) -> list[Row]:
    """Figures of each round, then the goal."""
    rows: list[Row] = []
    errors: dict[str, list[float]] = {}
    spreads = []
    for seed, one in rounds:
        spread = 100.0 * (max(one.measured) - min(one.measured)) / one.seconds
        spreads.append(spread)
        rows += [
            Row(NAME, one.case, OURS, "forecast of an epoch", 1e3 * one.answer.seconds, "ms", seed),
            Row(NAME, one.case, "measured", "median epoch", 1e3 * one.seconds, "ms", seed),
            Row(NAME, one.case, "measured", "spread", spread, "%", seed),
            Row(NAME, one.case, OURS, "within its 95 %", float(one.answer.low_95 <= one.seconds <= one.answer.high_95), "", seed),
        ]
        for method, seconds in {OURS: one.answer.seconds, **one.peers}.items():
            error = 100.0 * abs(seconds / one.seconds - 1.0)
            errors.setdefault(method, []).append(error)
            rows.append(Row(NAME, one.case, method, "error", error, "%", seed))
    by_case = {
        one.case: [100.0 * abs(each.answer.seconds / each.seconds - 1.0) for _, each in rounds if each.case == one.case]
        for _, one in rounds
    }
    rows += [Row(NAME, case, OURS, "median error", statistics.median(values), "%") for case, values in by_case.items()]
    rows += [Row(NAME, "all", method, "median error", statistics.median(values), "%") for method, values in errors.items()]
    rows.append(Row(NAME, "all", "measured", "median spread", statistics.median(spreads), "%"))
    rows.append(Row(NAME, "all", "machine", "load average of a minute", os.getloadavg()[0], "processes"))
    count = len(errors[OURS])
    return [*rows, common.goal(NAME, f"median error after 5 runs, {count} forecasts", OURS, statistics.median(errors[OURS]), LIMIT, "%")]


def played(options: argparse.Namespace, two_ranks: bool) -> Sequence[tuple[int, Live]]:
    """Rounds of every case, each with its seed."""
    chosen = cases(2_000, False)[1:2] if options.quick else cases(4_000, two_ranks)
    epochs, seeds = (QUICK_EPOCHS, 1) if options.quick else (EPOCHS, options.seeds)
    rounds = []
    for seed in range(seeds):
        measure = partial(train, epochs=epochs, seed=seed) if options.noise is None else simulated(options.noise, seed)
        rounds += [(seed, live(case, measure, seed)) for case in chosen]
    return rounds


def main() -> int:
    """Run as said above."""
    arguments = common.parser(__doc__ or "")
    arguments.add_argument("--seeds", type=int, default=2, help="rounds")
    arguments.add_argument("--noise", type=float, metavar="PART", help="train nothing: simulate runs that repeat within this, e.g. 0.08")
    options = arguments.parse_args()
    two_ranks = find_spec("horovod") is not None and shutil.which("mpirun") is not None
    if not two_ranks:
        print("2 ranks: left out, Open MPI or Horovod is missing")
    rows = rows_of(played(options, two_ranks))
    spread = next(row.value for row in rows if row.metric == "median spread")
    if spread > LIMIT and options.noise is None:
        print(f"The machine is too busy to judge: one job took times {spread:.0f} % apart. Run this on an idle machine.")
    return common.report(rows, options.json)


if __name__ == "__main__":
    raise SystemExit(main())
