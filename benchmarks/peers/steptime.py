"""Other forms of a step's time, fitted to the same rows by the same robust least squares in ln(seconds).

a/p + b per batch   Amdahl's curve of one sample's time over p GPUs, two figures for every batch: knows nothing of nodes
Pollux              OSDI'21, section 3.2: latency and growth with the GPUs, within a node and between nodes, an overlap exponent
ring, no overlap    the objective's own terms (docs/explanation/planner.md): arithmetic plus a ring over its slowest link, nothing hidden
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np
from scipy.optimize import least_squares

from hyperscale.model.history.step_curves import LARGEST_EXPONENT, Step
from hyperscale.planner.cost.steptime_fit import ROBUST_SCALE

FloatArray = np.ndarray[Any, np.dtype[np.float64]]
Curve = Callable[[FloatArray, FloatArray, FloatArray, FloatArray], FloatArray]
"""Parameters, batch, GPUs, nodes -> seconds."""


def arrays(steps: Sequence[Step]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(n,) batch, GPUs and nodes of each step."""
    batch = np.array([step.batch for step in steps])
    return batch, np.array([float(sum(step.gpus)) for step in steps]), np.array([float(len(step.gpus)) for step in steps])


def amdahl(known: Sequence[Step], asked: Sequence[Step]) -> FloatArray:
    """Seconds a sample are a / p + b for each batch, those of a step (a + b p) · batch; a batch never measured takes the nearest's."""
    lines = {}
    for batch in sorted({step.batch for step in known}):
        rows = [step for step in known if step.batch == batch]
        gpus, seconds = arrays(rows)[1], np.array([row.step_seconds for row in rows])
        if len(set(gpus.tolist())) > 1:
            lines[batch] = np.polyfit(gpus, seconds, 1, w=1.0 / seconds)
        else:
            lines[batch] = np.array([0.0, float(np.median(seconds))])
    nearest = [_nearest(lines, step.batch) for step in asked]
    return np.array([np.polyval(lines[batch], sum(step.gpus)) for batch, step in zip(nearest, asked, strict=True)]).clip(1e-6)


def _nearest(batches: Iterable[float], batch: float) -> float:
    """The batch closest by ratio, the smaller of two."""
    return min(batches, key=lambda known: (abs(np.log(known / batch)), known))


def pollux(known: Sequence[Step], asked: Sequence[Step]) -> FloatArray:
    """Pollux's T_iter = (T_grad^γ + T_sync^γ)^(1/γ)."""

    def curve(p: FloatArray, batch: FloatArray, gpus: FloatArray, nodes: FloatArray) -> FloatArray:
        grad = p[0] + p[1] * batch
        sync = np.where(nodes > 1, p[2] + p[3] * np.maximum(gpus - 2, 0), p[4] + p[5] * np.maximum(gpus - 2, 0))
        sync = np.where(gpus > 1, sync, 0.0)
        largest = np.maximum(np.maximum(grad, sync), 1e-12)
        seconds: FloatArray = largest * ((grad / largest) ** p[6] + (sync / largest) ** p[6]) ** (1 / p[6])
        return seconds

    return _best(curve, known, asked, (0, 1, 0, 0, 0, 0), exponents=(1.2, 2.5, 6.0))


def ring(known: Sequence[Step], asked: Sequence[Step]) -> FloatArray:
    """Arithmetic, affine in the batch, plus 2 (k - 1) · latency + 2 (k - 1) / k · bytes / bandwidth of the slowest link."""

    def curve(p: FloatArray, batch: FloatArray, gpus: FloatArray, nodes: FloatArray) -> FloatArray:
        hops = 2 * (gpus - 1)
        link = np.where(nodes > 1, p[2] * hops + p[3] * hops / gpus, p[4] * hops + p[5] * hops / gpus)
        seconds: FloatArray = p[0] + p[1] * batch + link
        return seconds

    return _best(curve, known, asked, (0, 1, 0, 0, 0, 0), exponents=())


FORMS: Final[dict[str, Callable[[Sequence[Step], Sequence[Step]], FloatArray]]] = {
    "a/p + b per batch": amdahl,
    "Pollux": pollux,
    "ring, no overlap": ring,
}


def _best(
    curve: Curve, known: Sequence[Step], asked: Sequence[Step], per_batch: Sequence[int], *, exponents: Sequence[float]
) -> FloatArray:
    """Predictions of the best fit from several first guesses; all figures are at least 0, exponents between 1 and 20."""
    batch, gpus, nodes = arrays(known)
    measured = np.log([step.step_seconds for step in known])
    scale = float(np.exp(np.median(measured)))
    sizes = np.array([scale / float(batch.max()) if one else scale for one in per_batch] + [1.0] * bool(exponents))
    low = np.concatenate([np.zeros(len(per_batch)), [1.0] * bool(exponents)])
    high = np.concatenate([np.full(len(per_batch), np.inf), [LARGEST_EXPONENT] * bool(exponents)])
    low[0] = 1e-9

    def errors(figures: FloatArray) -> FloatArray:
        off: FloatArray = np.log(curve(figures, batch, gpus, nodes)) - measured
        return off

    found = []
    for exponent in exponents or (0.0,):
        for part in (0.1, 0.5):
            guess = np.concatenate([part * sizes[: len(per_batch)], [exponent] * bool(exponents)])
            settings = {"x_scale": sizes, "loss": "soft_l1", "f_scale": ROBUST_SCALE, "max_nfev": 400}
            found.append(least_squares(errors, guess, bounds=(low, high), **settings))
    return curve(min(found, key=lambda one: float(one.cost)).x, *arrays(asked))
