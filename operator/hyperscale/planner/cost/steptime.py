"""Seconds of one data-parallel step, from the GPUs each node lends and the batch, by a curve fitted to measured steps. Pure.

Form and reasons: docs/explanation/steptime.md. How it is fitted: steptime_fit.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hyperscale.model.graph import FloatArray
from hyperscale.model.history.step_curves import NODE_CLASSES, PlaceEffect, Step, StepTime, node_class
from hyperscale.planner.cost.shape_effects import shape_effects

SHORTEST_SECONDS = 1e-12
"""What a step is divided by at least."""


def predict(curve: StepTime, steps: Sequence[Step], *, remembered: bool = True) -> FloatArray:
    """(n,) seconds of each step; `remembered` False leaves out what was learnt of shapes and of single placements: the curve alone."""
    if not remembered:
        return curve_seconds(figures(curve), Design.of(steps))
    nothing = PlaceEffect(0.0, 0.0)
    own = [curve.effects.get(step.name, nothing) for step in steps]
    effects = shape_effects(curve.shapes, [step.counts for step in steps]) + np.array([[one.compute, one.sync] for one in own]).reshape(
        -1, 2
    )
    return curve_seconds(figures(curve), Design.of(steps), effects)


@dataclass(frozen=True)
class Design:
    """What the curve reads of n steps."""

    batch: FloatArray
    """(n,) samples a GPU."""
    workers: FloatArray
    """(n,) GPUs of all nodes together."""
    further: FloatArray
    """(n,) nodes beyond the third."""
    members: tuple[FloatArray, ...]
    """By class, (n,) 1 where a step belongs to the class."""

    @classmethod
    def of(cls, steps: Sequence[Step]) -> Design:
        """The arrays of `steps`."""
        kinds = np.array([node_class(step.gpus) for step in steps])
        members = tuple((kinds == kind).astype(np.float64) for kind in range(NODE_CLASSES))
        batch = np.array([step.batch for step in steps], dtype=np.float64)
        workers = np.array([sum(step.gpus) for step in steps], dtype=np.float64)
        further = np.array([max(0, len(step.gpus) - NODE_CLASSES) for step in steps], dtype=np.float64)
        return cls(batch, workers, further, members)


def ring_seconds(link: FloatArray, workers: FloatArray) -> FloatArray:
    """(n,) of one allreduce of `workers` GPUs, hidden or not; `link` is (3,) fixed, hop and volume seconds."""
    ring = 2.0 * (workers - 1.0)
    seconds: FloatArray = link[0] + link[1] * ring + link[2] * ring / workers
    return seconds


def split_seconds(vector: FloatArray, design: Design) -> tuple[FloatArray, FloatArray]:
    """(n,) seconds of arithmetic and of allreduce; `vector` is base, sample, straggle, exponent, three a class, node."""
    base, sample, straggle = vector[:3]
    compute = (base + sample * design.batch) * (1.0 + straggle * np.log2(design.workers))
    sync = vector[-1] * design.further
    for kind, member in enumerate(design.members):
        sync += member * ring_seconds(vector[4 + 3 * kind : 7 + 3 * kind], design.workers)
    return compute, np.where(design.workers > 1, sync, 0.0)


def curve_seconds(vector: FloatArray, design: Design, effects: FloatArray | None = None) -> FloatArray:
    """(n,) seconds of a step; `effects` (n, 2) are logarithms of what arithmetic and allreduce are multiplied with."""
    compute, sync = split_seconds(vector, design)
    if effects is not None:
        compute, sync = compute * np.exp(effects[:, 0]), sync * np.exp(effects[:, 1])
    largest = np.maximum(np.maximum(compute, sync), SHORTEST_SECONDS)
    # Powers of figures between 0 and 1 cannot overflow, whatever the exponent.
    exponent = vector[3]
    seconds: FloatArray = largest * ((compute / largest) ** exponent + (sync / largest) ** exponent) ** (1.0 / exponent)
    return seconds


def gradient(vector: FloatArray, design: Design) -> FloatArray:
    """(n, 14) derivatives of ln(step) by the figures of `vector`, as `curve_seconds` has them without effects."""
    base, sample, straggle, exponent = vector[:4]
    compute, sync = split_seconds(vector, design)
    largest = np.maximum(np.maximum(compute, sync), SHORTEST_SECONDS)
    parts = np.stack([compute, sync]) / largest
    powers = parts**exponent
    total = powers.sum(axis=0)
    by_compute, by_sync = parts ** (exponent - 1.0) / (total * largest)
    waits = 1.0 + straggle * np.log2(design.workers)
    slopes = np.empty((len(design.batch), len(vector)))
    slopes[:, 0] = by_compute * waits
    slopes[:, 1] = slopes[:, 0] * design.batch
    slopes[:, 2] = by_compute * (base + sample * design.batch) * np.log2(design.workers)
    logarithms = np.log(np.maximum(parts, SHORTEST_SECONDS))
    slopes[:, 3] = ((powers * logarithms).sum(axis=0) / total - np.log(total) / exponent) / exponent
    by_sync = np.where(design.workers > 1, by_sync, 0.0)
    ring = 2.0 * (design.workers - 1.0)
    for kind, member in enumerate(design.members):
        own = (by_sync * member)[:, None]
        slopes[:, 4 + 3 * kind : 7 + 3 * kind] = own * np.stack([np.ones_like(ring), ring, ring / design.workers], axis=1)
    slopes[:, -1] = by_sync * design.further
    return slopes


def figures(curve: StepTime) -> FloatArray:
    """(14,) base, sample, straggle, exponent, fixed, hop and volume of each class, node."""
    links = [figure for link in curve.links for figure in (link.fixed_seconds, link.hop_seconds, link.volume_seconds)]
    return np.array([curve.base_seconds, curve.sample_seconds, curve.straggle, curve.exponent, *links, curve.node_seconds])
