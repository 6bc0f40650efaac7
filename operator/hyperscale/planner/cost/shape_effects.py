"""What measured placements say about placements of similar shape, on top of the step time curve.

Kriging (Rasmussen & Williams 2006, chapter 2) of the curve's error over shapes. How it is fitted: shape_fit.py.

Two similarities, because two causes differ. Arithmetic depends on how full the nodes are: GPUs of one node share its processors, its
memory and its cooling. The allreduce depends on the nodes, the GPUs of the fullest and of the emptiest node, and all GPUs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from hyperscale.model.graph import FloatArray
from hyperscale.model.history.step_curves import LARGEST_EFFECT, ShapeWeight

DENSITY_LENGTH: Final = 1 / 8
"""Difference of GPUs a node, as a part of the most GPUs on one node, at which two shapes are similar by exp(-1/2)."""

SHAPE_LENGTH: Final = 1 / 4
"""The same for nodes, all GPUs, and GPUs of the fullest and of the emptiest node, as parts of the largest among the shapes."""

Shape = tuple[int, ...]


def similarity(asked: Sequence[Shape], measured: Sequence[Shape]) -> FloatArray:
    """Return (2, n, m) between 0 and 1: how similar each of n shapes is to m measured ones, for arithmetic and for allreduce.

    Lengths are parts of the largest figures among the measured shapes, so that a table of larger nodes has wider ones.
    """
    ours, theirs = _features(asked), _features(measured)
    largest = theirs.max(axis=0)
    apart = (ours[:, None, :] - theirs[None, :, :]) / largest
    density = apart[:, :, 0] / DENSITY_LENGTH * largest[0] / largest[1]
    rest = (apart[:, :, 1:] ** 2).sum(axis=2) / SHAPE_LENGTH**2
    alike: FloatArray = np.exp(-0.5 * np.stack([density**2, rest]))
    return alike


def _features(shapes: Sequence[Shape]) -> FloatArray:
    """(n, 5) GPUs a node in the mean, of the fullest node, of the emptiest; nodes; all GPUs."""
    return np.array([[sum(one) / len(one), max(one), min(one), len(one), sum(one)] for one in shapes], dtype=np.float64).reshape(-1, 5)


def shape_effects(weights: Sequence[ShapeWeight], asked: Sequence[Shape]) -> FloatArray:
    """Return (n, 2) logarithms of what arithmetic and allreduce of each shape are multiplied with; zeros without weights."""
    if not weights or not asked:
        return np.zeros((len(asked), 2))
    shares = np.array([[one.compute, one.sync] for one in weights])
    distinct = sorted(set(asked))
    effects: FloatArray = np.einsum("pnm,mp->np", similarity(distinct, [one.gpus for one in weights]), shares)
    position = {shape: index for index, shape in enumerate(distinct)}
    return effects.clip(-LARGEST_EFFECT, LARGEST_EFFECT)[[position[shape] for shape in asked]]
