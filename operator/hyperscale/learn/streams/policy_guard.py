"""Whether a trained policy may decide by default: judged as a whole, on held-out streams and on a cluster's replayed history. Pure.

Single decisions cannot be judged: a roll-forward of the rule over a short horizon is biased, over a long one noisy
(docs/explanation/streams.md). So whole streams are compared, the policy's over the operator's rule's, with the bounds on waiting that
hold in the cluster. One figure that fails refuses the policy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np

from hyperscale.model.graph import FloatArray

MAX_RATIO: Final = 1.0
"""The upper confidence limit of the mean ratio lies below it."""
MAX_WORST: Final = 1.25
"""No stream takes longer than this multiple of its time under the rule."""
MAX_WAIT: Final = 1.0
"""Geometric mean over all streams of the longest wait over the rule's."""
MAX_FAMILY_WAIT: Final = 1.1
"""The same over the streams of one family: a tenth is within the chance of some 25 streams."""
MIN_STREAMS: Final = 20
"""Of one source; fewer say nothing about the worst one."""
RESAMPLES: Final = 4000
BOOTSTRAP_SEED: Final = 31
CONFIDENCE_PERCENT: Final = 97.5
"""Upper end of a two-sided 95 % interval."""
MOST_DECIMALS: Final = 12
"""A value that looks like its limit with fewer is the limit."""


class StreamEvidence(NamedTuple):
    """One stream under the policy and under the operator's rule."""

    source: str
    """Where it comes from: held-out streams, or the cluster's history."""
    family: str
    ratio: float
    """Weighted mean completion of the policy over the rule's."""
    longest_wait_seconds: float
    rule_longest_wait_seconds: float
    run_seconds: float
    """Mean run on the empty cluster: shorter waits count as this long, for either."""


class PolicyVerdict(msgspec.Struct, frozen=True, rename="camel"):
    """Whether the policy may decide by default."""

    accepted: bool
    refusals: tuple[str, ...] = ()
    """One sentence for every figure that refused it."""
    figures: dict[str, float] = {}
    """By source and name."""


def judged(evidence: Sequence[StreamEvidence]) -> PolicyVerdict:
    """Return the verdict on all streams, source by source; without any stream it is refused. Ratios are finite or +inf."""
    refusals: list[str] = []
    figures: dict[str, float] = {}
    if not evidence:
        refusals.append("no stream was judged")
    for source in dict.fromkeys(one.source for one in evidence):
        own = [one for one in evidence if one.source == source]
        of_source = {"streams": float(len(own)), **_ratios(own), **_waits(own)}
        figures |= {f"{source}: {name}": value for name, value in of_source.items()}
        refusals += [f"{source}: {sentence}" for sentence in _refusals(of_source)]
    return PolicyVerdict(not refusals, tuple(refusals), figures)


def upper_limit(logs: FloatArray) -> float:
    """Upper 95 % confidence limit of the geometric mean whose logarithms are (S,): percentile bootstrap over streams, one fixed seed."""
    if not np.isfinite(logs).all():
        return float("inf")
    draws = np.random.default_rng(BOOTSTRAP_SEED).integers(len(logs), size=(RESAMPLES, len(logs)))
    return float(np.exp(np.percentile(logs[draws].mean(axis=1), CONFIDENCE_PERCENT)))


def apart(value: float, limit: float, decimals: int = 2) -> str:
    """The value with `decimals` digits after the point, or as many as tell it from the limit."""
    texts = (f"{value:.{count}f}" for count in range(decimals, MOST_DECIMALS))
    return next((text for text in texts if float(text) != limit), f"{value:.{decimals}f}")


def _ratios(own: Sequence[StreamEvidence]) -> dict[str, float]:
    logs = np.log(np.array([one.ratio for one in own], dtype=np.float64))
    return {"ratio": float(np.exp(logs.mean())), "ratio, upper limit": upper_limit(logs), "worst stream": float(np.exp(logs.max()))}


def _waits(own: Sequence[StreamEvidence]) -> dict[str, float]:
    logs = np.array([_wait_log(one) for one in own])
    families = np.array([one.family for one in own])
    by_family = {f"longest wait, {family}": float(np.exp(logs[families == family].mean())) for family in sorted(set(families.tolist()))}
    return {"longest wait": float(np.exp(logs.mean())), **by_family}


def _wait_log(one: StreamEvidence) -> float:
    floor = one.run_seconds
    return float(np.log(max(one.longest_wait_seconds, floor) / max(one.rule_longest_wait_seconds, floor)))


def _refusals(figures: dict[str, float]) -> Iterator[str]:
    if figures["streams"] < MIN_STREAMS:
        yield f"{figures['streams']:.0f} streams, at least {MIN_STREAMS} are needed"
    # Written so that a NaN refuses.
    if not (limit := figures["ratio, upper limit"]) < MAX_RATIO:
        yield f"the upper confidence limit of the mean ratio to the rule is {apart(limit, MAX_RATIO, 3)}, below {MAX_RATIO:g} is needed"
    if not figures["worst stream"] <= MAX_WORST:
        yield f"the worst stream takes {apart(figures['worst stream'], MAX_WORST)} times the rule's time, at most {MAX_WORST:g} is allowed"
    if not figures["longest wait"] <= MAX_WAIT:
        yield f"the longest waits are {apart(figures['longest wait'], MAX_WAIT)} times the rule's, at most {MAX_WAIT:g} is allowed"
    for name, value in figures.items():
        if name.startswith("longest wait, ") and not value <= MAX_FAMILY_WAIT:
            family = name.removeprefix("longest wait, ")
            times = apart(value, MAX_FAMILY_WAIT)
            yield f"the longest waits of the family {family} are {times} times the rule's, at most {MAX_FAMILY_WAIT:g} is allowed"
