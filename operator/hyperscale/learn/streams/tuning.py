"""The index rule, tuned afresh: the strongest opponent the agent has, its prior, and what decides without it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

from hyperscale.learn.streams.scenario import FAMILIES, Conditions
from hyperscale.learn.streams.simulator import (
    OPERATORS_RULE,
    SHORTEST_FIRST,
    SMALLEST_FIRST,
    TUNED_RULE,
    JobOrder,
    RuleKnobs,
    Simulator,
    index,
)

TUNING_SEEDS: Final = 700_000
LOADS: Final = (0.5, 0.7, 0.9, 1.1, 1.3)
DRAWN: Final = 64
"""Settings drawn at random, beside the plain rules."""
ROUNDS: Final = ((25, 16), (75, 6))
"""Streams of a round, and settings that survive it."""
LAST_STREAMS: Final = 150
SPEEDUPS: Final = (1.1, 1.7)
"""Range of θ in half of those; the others wait for no running job."""
NEIGHBOURS: Final = 12
"""Settings near the best ones that join for the last round."""


class Tried(NamedTuple):
    """One setting and how it did: the geometric mean of weighted completion time over that of shortest job first."""

    knobs: RuleKnobs
    ratio: float


def tune(seed: int = 0, streams: int = LAST_STREAMS, report: Callable[[int, int], None] = lambda done, of: None) -> tuple[Tried, ...]:
    """Settings of the last round, best first: random ones, halved twice, and neighbours of the best. Deterministic by seed."""
    rng = np.random.default_rng([seed, 17])
    cases = tuple(_case(number) for number in range(streams))
    settings = [SHORTEST_FIRST, SMALLEST_FIRST, TUNED_RULE, OPERATORS_RULE, *(_draw(rng) for _ in range(DRAWN))]
    for count, kept in ROUNDS:
        used = cases[: max(5, count * streams // LAST_STREAMS)]
        settings = [tried.knobs for tried in _ranked(settings, used, report)[:kept]]
    settings += [_near(settings[number % len(settings)], rng) for number in range(NEIGHBOURS)]
    return tuple(_ranked(settings, cases, report))


def _case(number: int) -> Simulator:
    family, load = FAMILIES[number % len(FAMILIES)], LOADS[number // len(FAMILIES) % len(LOADS)]
    return Simulator(TUNING_SEEDS + number, Conditions(family, load))


def _ranked(settings: Sequence[RuleKnobs], cases: Sequence[Simulator], report: Callable[[int, int], None]) -> list[Tried]:
    plain = [case.run(index(SHORTEST_FIRST)).mean_completion for case in cases]
    ranked = []
    for number, knobs in enumerate(settings):
        logs = [math.log(case.run(index(knobs)).mean_completion / base) for case, base in zip(cases, plain, strict=True)]
        ranked.append(Tried(knobs, math.exp(sum(logs) / len(logs))))
        report(number + 1, len(settings))
    return sorted(ranked, key=lambda tried: tried.ratio)


def _draw(rng: np.random.Generator) -> RuleKnobs:
    order = JobOrder.SECONDS if rng.random() < 0.6 else JobOrder.AREA
    patience = float(math.exp(rng.uniform(math.log(1.3), math.log(6.0))))
    exponents = float(rng.uniform(0.0, 0.8)), float(rng.uniform(0.0, 0.5))
    size, communication, costs = float(rng.uniform(0.0, 0.4)), float(rng.uniform(0.0, 2.5)), float(rng.uniform(0.8, 2.4))
    speedup = float(rng.uniform(*SPEEDUPS)) if rng.random() < 0.5 else 0.0
    return RuleKnobs(order, *exponents, patience, size, communication, costs, speedup)


def _near(knobs: RuleKnobs, rng: np.random.Generator) -> RuleKnobs:
    return RuleKnobs(
        knobs.order,
        max(0.0, knobs.thrift_alone + float(rng.normal(0.0, 0.08))),
        max(0.0, knobs.thrift + float(rng.normal(0.0, 0.04))),
        max(1.0, knobs.patience * math.exp(float(rng.normal(0.0, 0.12)))),
        max(0.0, knobs.size_exponent + float(rng.normal(0.0, 0.05))),
        max(0.0, knobs.communication_factor + float(rng.normal(0.0, 0.3))),
        max(0.0, knobs.patience_costs + float(rng.normal(0.0, 0.2))),
        max(1.0, knobs.wait_speedup + float(rng.normal(0.0, 0.1))) if knobs.wait_speedup else 0.0,
    )
