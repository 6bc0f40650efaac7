"""Clusters, jobs and their epochs with a truth of their own: a roofline per GPU product, not the planner's cost model.

Written apart from the forecast: it knows neither its features nor its form. Seconds of an epoch are those of a roofline (arithmetic and
memory traffic, by family and product), a slowest rank that grows with the graph's skew, an exchange that hides behind compute in part,
an allreduce per step, and a law by family. The planner's guess leaves all of that out but arithmetic, traffic and line rates.

Scenarios say how the truth is spread and how a placement came about; `truth_quantiles` gives the exact quantiles of ln(seconds) given all
that a forecaster may know, so that an oracle's interval can be scored next to a forecast's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from hyperscale.evaluate.forecast.forecast_types import ForecastRun, RunFeatures

ARCHITECTURES: Final = ("GCN", "GraphSAGE", "GAT", "RGAT")
SHAPES: Final = ("power law", "mesh", "communities", "bipartite")
PRODUCTS: Final = {
    "V100": (14e12, 0.9e12, 25e9),
    "A100": (19e12, 1.9e12, 50e9),
    "L40S": (45e12, 0.86e12, 12e9),
    "H100": (60e12, 3.3e12, 100e9),
}
"""Peak FLOP/s, bytes a second of memory, bytes a second between two GPUs of a host."""
DEGREES: Final = {"power law": (10.0, 60.0), "mesh": (4.0, 8.0), "communities": (20.0, 100.0), "bipartite": (2.0, 30.0)}
SKEWS: Final = {"power law": (300.0, 3000.0), "mesh": (1.2, 2.0), "communities": (5.0, 20.0), "bipartite": (20.0, 100.0)}
CUTS: Final = {"power law": (0.5, 0.8), "mesh": (0.005, 0.03), "communities": (0.08, 0.2), "bipartite": (0.3, 0.5)}


@dataclass(frozen=True)
class Scenario:
    """How epochs differ from their median, and how placements were chosen."""

    name: str
    noise: float = 0.08
    """Standard deviation of ln(seconds)."""
    tails: float = math.inf
    """Degrees of freedom of Student's t; inf: normal."""
    by_size: float = 0.0
    """Noise is multiplied by exp(by_size * (ln V - its mean) / its deviation)."""
    neighbour_share: float = 0.0
    """Share of runs next to a loud neighbour that no record shows."""
    neighbour_effect: float = 0.0
    """ln of how much slower these are."""
    candidates: int = 0
    """Largest number of placements that a planner chose from; 0: the placement was given."""
    fewest: int = 4
    """Smallest number of placements; a history of 1 holds placements that were not chosen."""
    placement_spread: float = 0.15
    """Of ln(true seconds) among placements."""
    guess_error: float = 0.15
    """Of ln(predicted / true) among placements."""


SCENARIOS: Final = (
    Scenario("normal"),
    Scenario("heavy tails", tails=3.0),
    Scenario("noise by size", by_size=0.6),
    Scenario("a covariate is missing", noise=0.05, neighbour_share=0.25, neighbour_effect=0.25),
    Scenario("placement chosen as the minimum", candidates=64),
    Scenario("chosen, heavy tails", tails=3.0, candidates=64),
    Scenario("chosen, noise by size", by_size=0.6, candidates=64),
)

LOG_SIZES: Final = (math.log(1e5), math.log(1e8))


@dataclass(frozen=True)
class Epoch:
    """One generated run, and what an oracle knows of it."""

    run: ForecastRun
    family: str
    """Architecture and shape of the graph."""
    centre: float
    """Median of ln(seconds) given all that may be known, apart from unseen neighbours."""
    deviation: float
    """Standard deviation of ln(seconds) about it, of the placement's share too."""
    noise: float
    """The run's own part of the deviation."""


JOBS: Final = 8
"""Jobs that a cluster repeats."""


def generate(
    scenario: Scenario, count: int, seed: int, families: Sequence[tuple[str, str]] | None = None, jobs: int | None = JOBS
) -> list[Epoch]:
    """`count` epochs on one cluster of two GPU products, drawn with `seed`.

    families: of (architecture, shape); None: all
    jobs:     that are run again and again, on other ranks, hosts and placements; None: every run is of a new job
    """
    rng = np.random.default_rng([seed, *scenario.name.encode()])
    names = list(families) if families is not None else [(a, s) for a in ARCHITECTURES for s in SHAPES]
    products = [str(name) for name in rng.choice(sorted(PRODUCTS), 2, replace=False)]
    between = float(rng.choice([3e9, 12e9, 50e9]))
    drawn = [_job(names[int(rng.integers(len(names)))], number, rng) for number in range(count if jobs is None else jobs)]
    epochs = []
    for number in range(count):
        family, features = drawn[number if jobs is None else int(rng.integers(len(drawn)))]
        product = products[int(rng.integers(len(products)))]
        flops, _, inside = PRODUCTS[product]
        placed = replace(
            features, gpu_product=product, flops_per_second=flops, inside_bytes_per_second=inside, between_bytes_per_second=between
        )
        epochs.append(_epoch(scenario, family, placed, number, rng))
    return epochs


def _uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return math.exp(rng.uniform(math.log(low), math.log(high)))


def _job(family: tuple[str, str], number: int, rng: np.random.Generator) -> tuple[tuple[str, str], RunFeatures]:
    architecture, shape = family
    vertices = math.exp(rng.uniform(*LOG_SIZES))
    features = RunFeatures(
        architecture=architecture,
        dataset=f"graph-{number}",
        vertices=round(vertices),
        edges=round(vertices * _uniform(rng, *DEGREES[shape])),
        feature_size=float(rng.choice([64, 128, 256, 602])),
        hidden_size=float(rng.choice([64, 128, 256, 512])),
        layers=float(rng.choice([2, 3, 4])),
        degree_skew=_uniform(rng, *SKEWS[shape]),
        cut_share=_uniform(rng, *CUTS[shape]),
        latency_seconds=_uniform(rng, 5e-6, 60e-6),
    )
    return family, features


HEADS: Final = {"GCN": 1.0, "GraphSAGE": 2.0, "GAT": 5.0, "RGAT": 11.0}
"""Bytes per edge and hidden unit, in units of a GCN's."""
WORK: Final = {"GCN": 1.0, "GraphSAGE": 2.0, "GAT": 1.2, "RGAT": 4.0}
"""Arithmetic per vertex, in units of a GCN's."""
OVERLAP: Final = {"GCN": 0.2, "GraphSAGE": 0.5, "GAT": 0.7, "RGAT": 0.4}
"""Share of the exchange that hides behind compute."""
EFFICIENCY: Final = {"V100": 0.55, "A100": 0.62, "L40S": 0.35, "H100": 0.48}
"""Of peak memory bandwidth that gathers reach."""
CACHE: Final = {"power law": 0.75, "mesh": 0.35, "communities": 0.5, "bipartite": 1.0}
"""Share of gathers that miss the cache."""


def _parts(features: RunFeatures, ranks: int, hosts: int) -> tuple[float, float, float, float]:
    """Seconds of arithmetic, memory traffic, exchange and allreduce at full rates."""
    flops, memory, inside = PRODUCTS[features.gpu_product]
    arithmetic = 6.0 * features.layers * features.vertices * features.hidden_size * (features.feature_size + features.hidden_size)
    traffic = 12.0 * features.layers * features.edges * features.hidden_size
    copies = features.vertices * features.cut_share * math.log2(ranks) if ranks > 1 else 0.0
    line = min(inside, features.between_bytes_per_second * hosts / ranks) if hosts > 1 else inside
    exchange = 8.0 * features.layers * copies * features.hidden_size / ranks / line
    weights = 8.0 * features.layers * features.hidden_size * (features.feature_size + features.hidden_size)
    allreduce = 2.0 * (ranks - 1) * (features.latency_seconds + weights / ranks / line)
    return arithmetic / flops / ranks, traffic / memory / ranks, exchange, allreduce


def true_seconds(features: RunFeatures, family: tuple[str, str], ranks: int, hosts: int) -> float:
    """Median epoch by the generator's own roofline."""
    architecture, shape = family
    arithmetic, traffic, exchange, allreduce = _parts(features, ranks, hosts)
    gathers = traffic * HEADS[architecture] * CACHE[shape] / EFFICIENCY[features.gpu_product]
    compute = math.hypot(arithmetic * WORK[architecture] / 0.6, gathers)
    slowest = 1.0 + 0.04 * math.log2(ranks) * math.log(features.degree_skew)
    apart = exchange * (1.0 - OVERLAP[architecture]) * (2.0 if shape == "bipartite" else 1.3)
    return compute * slowest + apart + allreduce + 2e-3 * features.layers


def guessed_seconds(features: RunFeatures, ranks: int, hosts: int) -> tuple[float, float]:
    """What a planner expects of an epoch and of its communication: full rates, no family, no skew."""
    arithmetic, traffic, exchange, allreduce = _parts(features, ranks, hosts)
    return arithmetic + traffic + exchange + allreduce + 1e-3 * features.layers, exchange + allreduce


def _epoch(scenario: Scenario, family: tuple[str, str], features: RunFeatures, number: int, rng: np.random.Generator) -> Epoch:
    hosts = int(rng.choice([1, 1, 2, 4, 8]))
    ranks = hosts * int(rng.choice([1, 2, 4, 8]))
    truth = math.log(true_seconds(features, family, ranks, hosts))
    seconds, communication = guessed_seconds(features, ranks, hosts)
    guess = math.log(seconds)
    low, high = LOG_SIZES
    size = (math.log(features.vertices) - (low + high) / 2.0) / ((high - low) / math.sqrt(12.0))
    noise = scenario.noise * math.exp(scenario.by_size * size)
    centre, deviation, chosen = truth, noise, guess
    offset = 0.0
    if scenario.candidates:
        number_of = int(rng.integers(min(scenario.fewest, scenario.candidates), scenario.candidates + 1))
        places = rng.normal(0.0, scenario.placement_spread, number_of)
        errors = rng.normal(0.0, scenario.guess_error, number_of)
        best = int(np.argmin(places + errors))
        chosen, offset = guess + float(places[best] + errors[best]), float(places[best])
        trusted = scenario.placement_spread**2 / (scenario.placement_spread**2 + scenario.guess_error**2)
        centre = truth + trusted * float(places[best] + errors[best])
        deviation = math.sqrt(noise**2 + trusted * scenario.guess_error**2)
    draw = (
        rng.normal() if math.isinf(scenario.tails) else rng.standard_t(scenario.tails) / math.sqrt(scenario.tails / (scenario.tails - 2.0))
    )
    loud = scenario.neighbour_effect * float(rng.uniform() < scenario.neighbour_share)
    measured = math.exp(truth + offset + loud + noise * float(draw))
    run = ForecastRun(f"run-{number}", features, ranks, hosts, measured, math.exp(chosen), math.exp(chosen) * communication / seconds)
    return Epoch(run, "/".join(family), centre, deviation, noise)


def truth_quantiles(
    scenario: Scenario, epochs: Sequence[Epoch], parts: Sequence[float], seed: int = 0
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """(q, n) quantiles of ln(seconds) of each epoch, from 200,000 draws of what stays unknown."""
    rng = np.random.default_rng([seed, 1])
    draws = 200_000
    own = (
        rng.normal(size=draws)
        if math.isinf(scenario.tails)
        else rng.standard_t(scenario.tails, draws) / math.sqrt(scenario.tails / (scenario.tails - 2.0))
    )
    loud = scenario.neighbour_effect * (rng.uniform(size=draws) < scenario.neighbour_share)
    place = rng.normal(size=draws)
    if not scenario.by_size:
        spread = math.sqrt(max(0.0, epochs[0].deviation ** 2 - epochs[0].noise ** 2))
        offsets = np.quantile(loud + epochs[0].noise * own + spread * place, parts)
        return np.array([epoch.centre for epoch in epochs])[None, :] + offsets[:, None]
    scales = np.array([epoch.deviation for epoch in epochs])
    normal = np.quantile(place, parts)
    answer: np.ndarray[tuple[int, int], np.dtype[np.float64]] = (
        np.array([epoch.centre for epoch in epochs])[None, :] + normal[:, None] * scales[None, :]
    )
    return answer


def renamed(epochs: Sequence[Epoch], prefix: str) -> list[Epoch]:
    """The same epochs with ids and graph names of their own."""
    return [
        replace(
            epoch,
            run=replace(
                epoch.run,
                run=f"{prefix}-{epoch.run.run}",
                features=replace(epoch.run.features, dataset=f"{prefix}-{epoch.run.features.dataset}"),
            ),
        )
        for epoch in epochs
    ]
