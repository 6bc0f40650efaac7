"""Which steps of several namespaces form the curve of all, and what each counts for: no single namespace bends it. Pure.

A curve sees three figures of a placement, its cell: the class, all GPUs and the nodes.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from hyperscale.model.graph import FloatArray
from hyperscale.model.history.step_curves import Step, node_class

Cell = tuple[int, int, int]
Box = tuple[int, int, int]


def cell_of(row: Step) -> Cell:
    """Class, all GPUs and nodes of a placement."""
    return node_class(row.gpus), sum(row.gpus), len(row.gpus)


def common_rows(rows: Sequence[Step], owners: Sequence[str]) -> list[int]:
    """Return the places of rows within what two namespaces measured of each class: as few GPUs, as many, and as many nodes.

    So what one namespace alone measured says nothing to others, however many rows it has.
    owners: namespace of each row, two or more of them
    """
    kept = list(range(len(rows)))
    while True:
        boxes = _boxes([cell_of(rows[row]) for row in kept], [owners[row] for row in kept])
        within = [row for row in kept if _is_within(cell_of(rows[row]), boxes)]
        if len(within) == len(kept):
            return kept
        kept = within


def _boxes(cells: Sequence[Cell], owners: Sequence[str]) -> dict[int, Box]:
    """Least GPUs, most GPUs and most nodes of each class that two namespaces reach; without classes of a single one."""
    by_class: dict[int, dict[str, list[Cell]]] = {}
    for cell, owner in zip(cells, owners, strict=True):
        by_class.setdefault(cell[0], {}).setdefault(owner, []).append(cell)
    boxes = {}
    for kind, by_owner in by_class.items():
        if len(by_owner) > 1:
            least = sorted(min(gpus for _, gpus, _ in own) for own in by_owner.values())[1]
            most = sorted(max(gpus for _, gpus, _ in own) for own in by_owner.values())[-2]
            boxes[kind] = least, most, sorted(max(nodes for _, _, nodes in own) for own in by_owner.values())[-2]
    return boxes


def _is_within(cell: Cell, boxes: dict[int, Box]) -> bool:
    kind, gpus, nodes = cell
    return kind in boxes and boxes[kind][0] <= gpus <= boxes[kind][1] and nodes <= boxes[kind][2]


def votes(rows: Sequence[Step], owners: Sequence[str]) -> FloatArray:
    """Return (n,) what each row counts for, 0 to 1.

    Of one cell a namespace counts for as many rows as the one with the second most there, of a cell that it alone measured for one.
    In all it counts for no more than the middle namespace does. Without owners all rows are of one namespace, and each counts 1.
    """
    counted = np.ones(len(rows))
    if not owners:
        return counted
    cells = [cell_of(row) for row in rows]
    by_cell: dict[Cell, Counter[str]] = {}
    for cell, owner in zip(cells, owners, strict=True):
        by_cell.setdefault(cell, Counter())[owner] += 1
    for row, (cell, owner) in enumerate(zip(cells, owners, strict=True)):
        ranked = sorted(by_cell[cell].values())
        counted[row] = min(1.0, (ranked[-2] if len(ranked) > 1 else 1) / by_cell[cell][owner])
    totals = {owner: float(counted[[each == owner for each in owners]].sum()) for owner in sorted(set(owners))}
    allowed = statistics.median_low(totals.values())
    counted *= [min(1.0, allowed / totals[owner]) for owner in owners]
    return counted


def soft_loss(counted: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """Return scipy's soft L1 loss of squared errors (m,), of which the first n = len(counted) count by `counted` and the rest fully."""

    def loss(squares: FloatArray) -> FloatArray:
        more = 1.0 + squares
        root = np.sqrt(more)
        weight = np.ones(len(squares))
        weight[: len(counted)] = counted
        weighed: FloatArray = weight * np.stack([2.0 * (root - 1.0), 1.0 / root, -0.5 / (more * root)])
        return weighed

    return loss
