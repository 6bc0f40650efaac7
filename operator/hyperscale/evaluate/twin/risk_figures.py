"""Figures of a job that follow from its futures: chances with exact bounds, means, the delay of each node, closed forms beside them."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from msgspec.structs import replace

from hyperscale.evaluate.twin.job_arrays import horizon_seconds
from hyperscale.evaluate.twin.play_futures import play
from hyperscale.evaluate.twin.twin_types import CostlyNode, Futures, JobRisk, NodeRisk, SpareWorth
from hyperscale.model.evaluation import TimePart
from hyperscale.model.graph import FloatArray

CONFIDENCE: Final = 0.95
MAX_COSTLY: Final = 10
"""Nodes that an outlook names."""
TRAINING: Final = "training"
"""Name of the time that saves work."""
EXTRA_SPARE: Final = "one-more-spare"
"""Name of the spare whose worth is asked; numbered where a node has it."""


def binomial_bounds(successes: int, trials: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the exact two-sided bounds of a probability (Clopper and Pearson 1934).

    Raises ValueError where `successes` is outside 0 .. trials, or there is no trial.
    """
    from scipy.special import betaincinv

    if not 0 <= successes <= trials or trials < 1:
        raise ValueError(f"{successes} of {trials} trials succeeded; write a number within, and at least one trial")
    outside = (1.0 - confidence) / 2.0
    low = float(betaincinv(successes, trials - successes + 1, outside)) if successes else 0.0
    high = float(betaincinv(successes + 1, trials - successes, 1.0 - outside)) if successes < trials else 1.0
    return low, high


def capped_end_seconds(futures: Futures) -> FloatArray:
    """Return (n,) ends, the horizon where a future passed it."""
    return np.minimum(futures.end_seconds, futures.horizon_seconds)


def mean_ettr(futures: Futures) -> float:
    """Return the effective training time ratio: useful / wall-clock seconds, mean over futures."""
    return float(np.mean(futures.useful_seconds / capped_end_seconds(futures)))


def mean_seconds_between_stops(futures: Futures) -> float | None:
    """Return wall-clock seconds of all futures / failures and preemptions of all; None where there was none."""
    stops = int(futures.failures.sum(dtype=np.int64)) + int(futures.preemptions.sum(dtype=np.int64))
    return float(capped_end_seconds(futures).sum()) / stops if stops else None


def closed_form_ettr(
    nodes: int, failures_per_node_second: float, restart_seconds: float, interval_seconds: float, write_seconds: float
) -> float:
    """Return E[ETTR] as arXiv 2410.21680 approximates it, at least 0.

    Holds for exponential lives, spares that never run out and few failures within one interval.
    """
    lost = nodes * failures_per_node_second * (restart_seconds + interval_seconds / 2.0)
    return max(0.0, (1.0 - lost) / (1.0 + write_seconds / interval_seconds))


def end_quantile(futures: Futures, part: float) -> float | None:
    """Return the time by which `part` of the futures end, in seconds; None where that is past the horizon."""
    ordered = np.sort(futures.end_seconds)
    end = float(ordered[min(len(ordered) - 1, math.ceil(part * len(ordered)) - 1)])
    return end if math.isfinite(end) else None


def time_parts(futures: Futures) -> tuple[TimePart, ...]:
    """Return what the time of a job goes to, in the mean of all futures; what takes none is left out. The share that trains is the ETTR."""
    seconds = {
        TRAINING: futures.useful_seconds,
        "checkpoints": futures.checkpoint_seconds,
        "lost work": futures.lost_seconds,
        "restarts": futures.restart_seconds,
        "waiting for nodes": futures.waiting_seconds,
        "slow nodes": futures.slow_seconds,
    }
    whole = capped_end_seconds(futures)
    return tuple(
        TimePart(name, mean, min(1.0, float(np.mean(each / whole)))) for name, each in seconds.items() if (mean := float(each.mean())) > 0.0
    )


def costly_nodes(job: JobRisk, futures: Futures) -> tuple[CostlyNode, ...]:
    """Return the nodes that cause most delay, largest first, equals by name."""
    members = (*job.nodes, *job.spares)
    delays = futures.node_delay_seconds.tolist()[: len(members)]
    pairs = sorted(zip(members, delays, strict=True), key=lambda pair: (-pair[1], pair[0].name))
    return tuple(CostlyNode(node.name, delay, node.lemon_factor) for node, delay in pairs[:MAX_COSTLY] if delay > 0.0)


def with_spare(job: JobRisk) -> JobRisk:
    """Return the job with one more spare: a new, ordinary node with the laws of the job's least suspect node."""
    taken = {node.name for node in (*job.nodes, *job.spares)}
    name = next(name for name in (EXTRA_SPARE, *(f"{EXTRA_SPARE}-{number}" for number in range(len(taken)))) if name not in taken)
    sound = min(job.nodes, key=lambda node: node.lemon_factor)
    return replace(job, spares=(*job.spares, NodeRisk(name, sound.laws, sound.repair)), horizon_seconds=horizon_seconds(job))


def spare_worth(job: JobRisk, base: Futures, seed: int, deadline_seconds: float | None) -> SpareWorth:
    """Return what one more spare changes. Both sides share every node's chances; past the horizon a future counts as the horizon.

    base: the job's own futures, from `seed`.
    """
    more = play(with_spare(job), len(base.end_seconds), seed)
    gain = None
    if deadline_seconds is not None:
        gain = float(np.mean(more.end_seconds <= deadline_seconds) - np.mean(base.end_seconds <= deadline_seconds))
    saved = float(np.mean(capped_end_seconds(base)) - np.mean(capped_end_seconds(more)))
    return SpareWorth(len(job.spares), saved, gain)
