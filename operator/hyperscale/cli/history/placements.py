"""`hyperscale history --placements FILE`: the product's step time curve, fitted to half of a measured table and judged on the rest."""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from hyperscale.cli.exit_codes import OK, InputError
from hyperscale.cli.text_tables import pairs, print_answer
from hyperscale.model.graph import FloatArray
from hyperscale.model.history.step_curves import Step, StepTime
from hyperscale.planner.cost.steptime import predict
from hyperscale.planner.cost.steptime_fit import LEAST_ROWS, fit

MOST_ROWS: Final = 20_000
LARGEST_FIGURE: Final = 1e8
SHORTEST_SHOWN: Final = 1e-9
COLUMNS: Final = ("placement", "local_bsz", "step_time_s")


class CurveJudgement(msgspec.Struct, frozen=True, rename="camel"):
    """What the curve does with a table; the schema of `-o json`."""

    file: str
    rows: int
    placements: int
    """Unlike ones, by GPUs on each node."""
    seed: int
    """Of the random half that the curve was fitted to."""
    error: float
    """Mean of |predicted / measured - 1| over the other half."""
    tau_seconds: float
    """Kendall's, of predicted and measured step times over all pairs of the other half; 0 where one has no order."""
    tau_speed: float
    """The same of samples per second of all GPUs."""
    curve: StepTime
    """Fitted to all rows."""


def read_table(file: Path) -> list[Step]:
    """Rows of a table: placement, local_bsz and step_time_s; other columns are not read.

    A placement is a digit a node (`211`), or numbers with dashes (`12-8`); nodes of 0 GPUs do not count. Raises OSError; ValueError
    that names the line.
    """
    with file.open(newline="", encoding="utf-8") as stream:
        reader = csv.DictReader(stream)
        missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
        if missing:
            raise ValueError(f"{file.name}, line 1: no column {missing[0]}; write a header with {', '.join(COLUMNS)}")
        rows = [_step(file.name, number, row) for number, row in enumerate(islice(reader, MOST_ROWS + 1), start=2)]
    if len(rows) > MOST_ROWS:
        raise ValueError(f"{file.name}: more than {MOST_ROWS} rows; leave some out")
    return rows


def _step(name: str, number: int, row: dict[str, str]) -> Step:
    placement = row["placement"] or ""
    try:
        gpus = tuple(count for part in (placement.split("-") if "-" in placement else placement) if (count := int(part)) != 0)
        step = Step(gpus, float(row["local_bsz"]), float(row["step_time_s"]), hosts=placement)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{name}, line {number}: {error}; write GPUs by node such as 211, samples a GPU and seconds") from error
    if not gpus or min(gpus) < 1 or not 0.0 < step.batch < LARGEST_FIGURE or not 0.0 < step.step_seconds < LARGEST_FIGURE:
        raise ValueError(f"{name}, line {number}: needs a GPU, and a batch and seconds above 0")
    return step


def tau(first: FloatArray, second: FloatArray) -> float:
    """Kendall's tau-b; 0 where one of the two has no order at all."""
    from scipy.stats import kendalltau

    rank_correlation = float(kendalltau(first, second)[0])
    return 0.0 if math.isnan(rank_correlation) else rank_correlation


def judge(name: str, rows: Sequence[Step], seed: int) -> CurveJudgement:
    """Fitted to a random half, judged on the other. Raises ValueError where there are too few rows."""
    chosen = set(np.random.default_rng(seed).permutation(len(rows))[: len(rows) // 2].tolist())
    if len(chosen) < LEAST_ROWS:
        raise ValueError(f"{name}: {len(rows)} rows; half of them must be {LEAST_ROWS} or more for a curve")
    curve = fit([row for index, row in enumerate(rows) if index in chosen])
    asked = [row for index, row in enumerate(rows) if index not in chosen]
    predicted, measured = predict(curve, asked), np.array([row.step_seconds for row in asked])
    samples = np.array([row.batch * sum(row.gpus) for row in asked])
    return CurveJudgement(
        file=name,
        rows=len(rows),
        placements=len({row.counts for row in rows}),
        seed=seed,
        error=float(np.mean(np.abs(predicted / measured - 1.0))),
        tau_seconds=tau(predicted, measured),
        tau_speed=tau(samples / predicted, samples / measured),
        curve=fit(rows),
    )


def run(arguments: argparse.Namespace) -> int:
    """Read, fit and print."""
    try:
        judged = judge(arguments.placements.name, read_table(arguments.placements), arguments.seed)
    except (OSError, UnicodeError, csv.Error) as error:
        raise InputError(f"--placements: {arguments.placements}: {getattr(error, 'strerror', None) or error}") from error
    except ValueError as error:
        raise InputError(f"--placements: {error}") from error
    print_answer(judged, lines(judged), arguments.output)
    return OK


def lines(judged: CurveJudgement) -> list[str]:
    """The figures in words."""
    curve = judged.curve
    one, two, more = (
        f"{_figure(link.fixed_seconds)} + {_figure(link.hop_seconds)} a hop + {_figure(link.volume_seconds)} a volume"
        for link in curve.links
    )
    compute = f"{_figure(curve.base_seconds)} s + {_figure(curve.sample_seconds)} s a sample, + {curve.straggle:.1%} a doubling of the GPUs"
    return pairs(
        (
            ("Table", f"{judged.file}: {judged.rows} measured steps of {judged.placements} placements"),
            ("Judged on", f"the half of the rows that seed {judged.seed} does not fit"),
            ("Error", f"{judged.error:.1%}, mean of |predicted / measured - 1|"),
            ("Tau", f"{judged.tau_seconds:.3f} of step times, {judged.tau_speed:.3f} of samples/s, over all pairs"),
            ("Arithmetic", compute),
            ("One node", f"{one} s"),
            ("Two nodes", f"{two} s"),
            ("More", f"{more} s, + {_figure(curve.node_seconds)} s a node beyond the third"),
            ("Overlap", f"exponent {curve.exponent:.3g} (1: nothing hidden)"),
        )
    )


def _figure(seconds: float) -> str:
    return f"{seconds:.3g}" if seconds >= SHORTEST_SHOWN else "0"
