"""Seconds of one data-parallel step, from the GPUs each node lends and the batch: a curve fitted to measured steps. Pure.

Form and reasons: docs/steptime.md. `fit` takes measured steps of one model on one kind of node, `predict` answers for any placement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np
from scipy.optimize import least_squares, nnls

from hyperscale.model.graph import FloatArray

NODE_CLASSES: Final = 3
"""All on one node; two nodes; three and more. Two nodes share one path in both directions, three and more each have their own."""

LEAST_ROWS: Final = 12
"""Below this a fit of as many figures says nothing."""

LARGEST_EXPONENT: Final = 20.0
"""An overlap exponent beyond this is the maximum in all but name."""

EFFECT_ROUNDS: Final = 60
"""Rounds in which the effects of single placements are told from chance; more change the fourth digit."""

LEAST_VARIANCE: Final = 1e-10
"""So that rows without any error divide by something."""

ROBUST_SCALE: Final = 0.1
"""Errors of 10 % count fully, larger ones less: a step that another tenant's traffic held up must not bend the curve."""


@dataclass(frozen=True)
class Step:
    """One configuration, and what it took where it was measured."""

    gpus: tuple[int, ...]
    """Used on each node, none of them 0; their order has no meaning."""
    batch: float
    """Samples a GPU and step."""
    step_seconds: float = 0.0
    sync_seconds: float | None = None
    """The part of the step that waited for the gradients, where known. The fit does without it."""
    hosts: str = ""
    """Which nodes, in any wording: what their own steps taught is kept under it. Empty: the counts stand for them."""

    @property
    def name(self) -> str:
        """The placement's name in `StepTime.corrections`."""
        return self.hosts or "-".join(str(count) for count in sorted(self.gpus, reverse=True))


class LinkClass(msgspec.Struct, frozen=True, rename="camel"):
    """Allreduce over one class of placements: a ring's latency and bandwidth (Patarasuk & Yuan 2009) beside a fixed price."""

    fixed_seconds: float
    hop_seconds: float
    """For each of the ring's k - 1 exchanges there and back."""
    volume_seconds: float
    """Seconds to send the whole gradient once over the slowest hop; the ring sends it 2 (k - 1) / k times."""

    def seconds(self, workers: FloatArray) -> FloatArray:
        """Of one allreduce of `workers` GPUs, hidden or not."""
        ring = 2.0 * (workers - 1.0)
        return self.fixed_seconds + self.hop_seconds * ring + self.volume_seconds * ring / workers


class Correction(msgspec.Struct, frozen=True, rename="camel"):
    """What one placement's own steps taught: its hosts may hold a slow GPU or a busy link that the counts do not show."""

    compute: float
    """ln(its arithmetic / the curve's)."""
    sync: float
    """ln(its allreduce / the curve's)."""


class StepTime(msgspec.Struct, frozen=True, rename="camel"):
    """A fitted curve of one model on one kind of node."""

    base_seconds: float
    sample_seconds: float
    """Forward and backward of one more sample a GPU."""
    straggle: float
    """Part of its own arithmetic that a GPU waits for the slowest of many, per doubling of their number."""
    exponent: float
    """1: nothing of the allreduce is hidden behind arithmetic; large: all that fits (Pollux, OSDI'21, section 3.2)."""
    links: tuple[LinkClass, ...]
    """By `NODE_CLASSES`."""
    node_seconds: float
    """More of an allreduce for each node beyond the third."""
    log_error: float
    """Root mean square of ln(measured / predicted) over the rows of the fit."""
    corrections: dict[str, Correction] = msgspec.field(default_factory=dict)
    """By `Step.name`, as far as its rows could be believed."""


def node_class(gpus: Sequence[int]) -> int:
    """Index into `StepTime.links`."""
    return min(len(gpus), NODE_CLASSES) - 1


def predict(curve: StepTime, steps: Sequence[Step], *, remembered: bool = True) -> FloatArray:
    """(n,) seconds of each step; `remembered` False leaves out what was learnt of single placements."""
    nothing = Correction(0.0, 0.0)
    known = [curve.corrections.get(step.name, nothing) if remembered else nothing for step in steps]
    return _curve(_vector(curve), _Design.of(steps), np.array([[effect.compute, effect.sync] for effect in known]).reshape(-1, 2))


def fit(rows: Sequence[Step]) -> StepTime:
    """The curve nearest to measured `rows` in ln(seconds), large errors counting less. ValueError: too few rows, or seconds not above 0."""
    if len(rows) < LEAST_ROWS:
        raise ValueError(f"a step time curve needs {LEAST_ROWS} measured steps, not {len(rows)}")
    if any(not row.gpus or min(row.gpus) < 1 or row.step_seconds <= 0.0 or row.batch <= 0.0 for row in rows):
        raise ValueError("a measured step needs GPUs on every node it names, a batch and seconds above 0")
    design = _Design.of(rows)
    measured = np.log([row.step_seconds for row in rows])
    scale = float(np.median(np.exp(measured)))
    guesses = [_guess(design, measured, exponent) for exponent in (1.2, 2.5, 6.0)]
    found = [_solve(design, measured, guess, scale) for guess in guesses]
    best = min(found, key=lambda pair: pair[1])[0]
    error = measured - np.log(_curve(best, design))
    return _named(best, float(np.sqrt(np.mean(error * error))), _corrections(rows, best, design, error))


@dataclass(frozen=True)
class _Design:
    """What the curve reads of n steps."""

    batch: FloatArray
    """(n,) samples a GPU."""
    workers: FloatArray
    """(n,) GPUs of all nodes together."""
    further: FloatArray
    """(n,) nodes beyond the third."""
    members: tuple[FloatArray, ...]
    """By class, (n,) 1 where a step is of it."""

    @classmethod
    def of(cls, steps: Sequence[Step]) -> _Design:
        """The arrays of `steps`."""
        kinds = np.array([node_class(step.gpus) for step in steps])
        members = tuple((kinds == kind).astype(np.float64) for kind in range(NODE_CLASSES))
        batch = np.array([step.batch for step in steps], dtype=np.float64)
        workers = np.array([sum(step.gpus) for step in steps], dtype=np.float64)
        further = np.array([max(0, len(step.gpus) - NODE_CLASSES) for step in steps], dtype=np.float64)
        return cls(batch, workers, further, members)


def _parts(vector: FloatArray, design: _Design) -> tuple[FloatArray, FloatArray]:
    """(n,) seconds of arithmetic and of allreduce; `vector` is base, sample, straggle, exponent, three a class, node."""
    base, sample, straggle = vector[:3]
    compute = (base + sample * design.batch) * (1.0 + straggle * np.log2(design.workers))
    sync = vector[-1] * design.further
    for kind, member in enumerate(design.members):
        fixed, hop, volume = vector[4 + 3 * kind : 7 + 3 * kind]
        sync += member * LinkClass(float(fixed), float(hop), float(volume)).seconds(design.workers)
    return compute, np.where(design.workers > 1, sync, 0.0)


def _curve(vector: FloatArray, design: _Design, effects: FloatArray | None = None) -> FloatArray:
    """(n,) seconds of a step; `effects` (n, 2) are logarithms of what arithmetic and allreduce are multiplied with."""
    compute, sync = _parts(vector, design)
    if effects is not None:
        compute, sync = compute * np.exp(effects[:, 0]), sync * np.exp(effects[:, 1])
    largest = np.maximum(np.maximum(compute, sync), 1e-12)
    # Powers of figures between 0 and 1 cannot overflow, whatever the exponent.
    exponent = vector[3]
    seconds: FloatArray = largest * ((compute / largest) ** exponent + (sync / largest) ** exponent) ** (1.0 / exponent)
    return seconds


def _guess(design: _Design, measured: FloatArray, exponent: float) -> FloatArray:
    """A straight line through the fastest steps for the arithmetic, the median of what is left for each class."""
    seconds = np.exp(measured)
    slope = max(1e-9, (np.percentile(seconds, 90) - np.percentile(seconds, 10)) / max(1.0, float(np.ptp(design.batch))))
    lone = design.members[0] > 0
    shortest = float(seconds[lone].min()) if lone.any() else float(seconds.min()) / 2.0
    vector = [shortest / 2.0, slope / 2.0, 0.01, exponent]
    for member in design.members:
        own = seconds[member > 0]
        over = max(float(np.median(own)) - shortest, 0.1 * shortest) if len(own) else shortest
        vector += [0.1 * over, 0.01 * over, 0.5 * over]
    return np.array([*vector, 0.01 * shortest])


def _solve(design: _Design, measured: FloatArray, guess: FloatArray, scale: float) -> tuple[FloatArray, float]:
    low = np.zeros(len(guess))
    high = np.full(len(guess), np.inf)
    low[0], low[3], high[3] = 1e-9, 1.0, LARGEST_EXPONENT
    sizes = np.full(len(guess), scale)
    sizes[1] = scale / max(1.0, float(design.batch.max()))
    sizes[2] = sizes[3] = 1.0

    def errors(vector: FloatArray) -> FloatArray:
        difference: FloatArray = np.log(_curve(vector, design)) - measured
        return difference

    start = np.clip(guess, low + 1e-12, high)
    solved = least_squares(errors, start, bounds=(low, high), x_scale=sizes, loss="soft_l1", f_scale=ROBUST_SCALE, max_nfev=400)
    return solved.x, float(solved.cost)


def _corrections(rows: Sequence[Step], vector: FloatArray, design: _Design, error: FloatArray) -> dict[str, Correction]:
    """How much slower each placement's arithmetic and allreduce were than the curve says, as far as its rows can be believed.

    Random effects by expectation maximisation (Laird & Ware 1982): error_i = parts_i . effects_placement + chance, where parts_i say
    how much of the step is arithmetic and how much allreduce. A placement measured once is believed little, one measured ten times
    almost fully, and none where placements differ by no more than chance.
    """
    names = [row.name for row in rows]
    known = sorted(set(names))
    if len(known) == len(rows):
        return {}
    place = {name: index for index, name in enumerate(known)}
    own = np.array([place[name] for name in names])
    plain = _sensitivity(vector, design)
    # Chance in the network is larger than in the arithmetic: rows are scaled to chance of one size.
    size = np.sqrt(np.maximum(plain * plain @ nnls(plain * plain, error * error)[0], LEAST_VARIANCE))
    parts, error = plain / size[:, None], error / size
    squares, products = np.zeros((len(known), 2, 2)), np.zeros((len(known), 2))
    np.add.at(squares, own, parts[:, :, None] * parts[:, None, :])
    np.add.at(products, own, parts * error[:, None])
    chance = float(np.mean(error * error)) + LEAST_VARIANCE
    between = np.full(2, float(np.mean(size * size)))
    effects = np.zeros((len(known), 2))
    for _ in range(EFFECT_ROUNDS):
        covariance = np.linalg.inv(squares / chance + np.diag(1.0 / between))
        effects = np.einsum("pij,pj->pi", covariance, products / chance)
        off = error - np.einsum("ni,ni->n", parts, effects[own])
        chance = float(off @ off + np.einsum("pij,pji->", squares, covariance)) / len(rows) + LEAST_VARIANCE
        between = (effects * effects + np.diagonal(covariance, axis1=1, axis2=2)).mean(axis=0) + LEAST_VARIANCE
    return {name: Correction(round(float(effects[index, 0]), 6), round(float(effects[index, 1]), 6)) for name, index in place.items()}


def _sensitivity(vector: FloatArray, design: _Design) -> FloatArray:
    """(n, 2) how much of a step grows with its arithmetic, and how much with its allreduce: d ln(step) / d ln(part)."""
    compute, sync = _parts(vector, design)
    largest = np.maximum(np.maximum(compute, sync), 1e-12)
    powers = np.stack([(compute / largest) ** vector[3], (sync / largest) ** vector[3]], axis=1)
    parts: FloatArray = powers / powers.sum(axis=1, keepdims=True)
    return parts


def _vector(curve: StepTime) -> FloatArray:
    links = [figure for link in curve.links for figure in (link.fixed_seconds, link.hop_seconds, link.volume_seconds)]
    return np.array([curve.base_seconds, curve.sample_seconds, curve.straggle, curve.exponent, *links, curve.node_seconds])


def _named(vector: FloatArray, log_error: float, corrections: Mapping[str, Correction]) -> StepTime:
    figures = [float(value) for value in vector]
    links = tuple(LinkClass(*figures[4 + 3 * kind : 7 + 3 * kind]) for kind in range(NODE_CLASSES))
    return StepTime(figures[0], figures[1], figures[2], figures[3], links, figures[-1], log_error, dict(corrections))
