"""What a measured placement table says of itself: how far permutations of one placement differ, and what looking them up predicts.

Placements that are each other's permutations (4-3-1 and 4-1-3) should take equally long. A row looked up by the geometric mean of its
other permutations at the same batch is off by the table's noise floor. A prediction of placements that were held out with all their
permutations (`new placements` of the suite pollux) is compared with that floor over the same rows.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from hyperscale.cli.history.placements import read_table
from hyperscale.model.history.step_curves import Step

FLOOR_RATIO_LIMIT: Final = 1.5
"""Error over the table's noise floor that a prediction of new placements may have."""
HOST_TYPE: Final = "host_type"
"""Column of a table that names the type of its hosts, where it has several."""

FloatArray = np.ndarray[Any, np.dtype[np.float64]]


def looked_up(rows: Sequence[Step]) -> tuple[list[int], FloatArray]:
    """Return positions of the rows that have other permutations at their batch, and the geometric mean of those, (n,) seconds."""
    groups: dict[tuple[tuple[int, ...], float], list[int]] = defaultdict(list)
    for position, row in enumerate(rows):
        groups[row.counts, row.batch].append(position)
    logs = np.log([row.step_seconds for row in rows])
    positions, seconds = [], []
    for position, row in enumerate(rows):
        group = groups[row.counts, row.batch]
        if len(group) > 1:
            positions.append(position)
            seconds.append(float(np.exp((logs[group].sum() - logs[position]) / (len(group) - 1))))
    return positions, np.array(seconds)


def noise_floor(rows: Sequence[Step]) -> float:
    """Return the mean of |looked up / measured - 1|; NaN where no placement of the table has a permutation."""
    positions, seconds = looked_up(rows)
    measured = np.array([rows[position].step_seconds for position in positions])
    return float(np.mean(np.abs(seconds / measured - 1.0))) if positions else float("nan")


def host_types(file: Path) -> list[tuple[str, list[Step], list[Step]]]:
    """Return each host type of a table with the rows of the others and its own; empty where no column host_type names several.

    Raises ValueError where the table has rows without a type.
    """
    with file.open(newline="", encoding="utf-8") as stream:
        reader = csv.DictReader(stream)
        if HOST_TYPE not in (reader.fieldnames or ()):
            return []
        types = [row[HOST_TYPE] or "" for row in reader]
    if "" in types:
        raise ValueError(f"{file.name}, line {types.index('') + 2}: no {HOST_TYPE}; write one on every line or leave the column out")
    steps = read_table(file)
    names = sorted(set(types))
    if len(names) < 2:
        return []
    rows = list(zip(types, steps, strict=True))
    return [(name, [step for kind, step in rows if kind != name], [step for kind, step in rows if kind == name]) for name in names]
