"""What several namespaces measured of one shape or placement: no single one of them says how it differs from the curve."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from hyperscale.model.graph import BoolArray, FloatArray
from hyperscale.planner.cost.agreed_spread import MIN_NAMESPACES, between_others


def agreed_errors(owners: Sequence[str], places: Sequence[Hashable], error: FloatArray) -> tuple[BoolArray, FloatArray]:
    """Return (n,) which rows are of places that two namespaces measured, and (n,) errors within what they agree on there.

    Each namespace says its median; the curve, whose error is 0, is the third of two. Whatever one namespace measured, the error lies
    between those of others and the curve. Without owners all rows are of one namespace, and stay as they are.
    owners: namespace of each row; places: shape or placement of each; error: (n,) ln(measured / the curve's)
    """
    kept, agreed = np.ones(len(error), dtype=np.bool_), error.copy()
    if not owners:
        return kept, agreed
    rows_of: dict[Hashable, dict[str, list[int]]] = {}
    for row, (place, owner) in enumerate(zip(places, owners, strict=True)):
        rows_of.setdefault(place, {}).setdefault(owner, []).append(row)
    for by_owner in rows_of.values():
        rows = [row for own in by_owner.values() for row in own]
        if len(by_owner) == 1:
            kept[rows] = False
            continue
        medians = [float(np.median(error[own])) for own in by_owner.values()]
        ranked = medians if len(medians) >= MIN_NAMESPACES else [*medians, 0.0]
        agreed[rows] = [between_others(float(error[row]), ranked) for row in rows]
    return kept, agreed
