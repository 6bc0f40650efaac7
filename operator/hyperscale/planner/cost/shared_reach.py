"""How far a curve that several namespaces taught may be used: only as far as no single one of them decides what it predicts. Pure; slow."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace

from hyperscale.model.graph import FloatArray
from hyperscale.model.history.step_curves import LinkClass, Step, StepTime, node_class
from hyperscale.planner.cost.shared_form import cell_of, common_rows
from hyperscale.planner.cost.steptime import Design, curve_seconds, figures
from hyperscale.planner.cost.steptime_fit import form

MOST_MOVED: Final = 0.2
"""Of ln(seconds), by which one namespace may move what a curve predicts for others, or by what its range spans where that is more."""
SPREADS: Final = 2.0
"""That a range spans to either side."""


def classes_decided_by(curve: StepTime, rows: Sequence[Step], owners: Sequence[str]) -> dict[str, frozenset[int]]:
    """Return by namespace the classes of placements where the curve without its rows is further off than MOST_MOVED; most moved first.

    curve: as `learn` makes it of these rows and owners
    """
    kept = common_rows(rows, owners)
    rows, owners = [rows[row] for row in kept], [owners[row] for row in kept]
    cells = list({cell_of(row): row for row in rows}.values())
    design, kinds = Design.of(cells), np.array([node_class(cell.gpus) for cell in cells])
    whole, allowed = np.log(curve_seconds(figures(curve), design)), max(MOST_MOVED, SPREADS * curve.log_error)
    moves: dict[str, tuple[float, frozenset[int]]] = {}
    for name in sorted(set(owners)):
        moved = np.abs(np.log(curve_seconds(_form_without(name, rows, owners), design)) - whole)
        if (moved > allowed).any():
            moves[name] = float(moved.max()), frozenset(kinds[moved > allowed].tolist())
    return {name: classes for name, (_, classes) in sorted(moves.items(), key=lambda entry: (-entry[1][0], entry[0]))}


def _form_without(name: str, rows: Sequence[Step], owners: Sequence[str]) -> FloatArray:
    """(14,) the form of the rows of all others."""
    rest = [row for row, owner in enumerate(owners) if owner != name]
    left = [owners[row] for row in rest]
    return form([rows[row] for row in rest], left if len(set(left)) > 1 else ())


def without_classes(curve: StepTime, classes: Collection[int]) -> StepTime:
    """Return the curve, which reaches no placement of these classes."""
    links = tuple(
        LinkClass(link.fixed_seconds, link.hop_seconds, link.volume_seconds) if kind in classes else link
        for kind, link in enumerate(curve.links)
    )
    return replace(curve, links=links)
