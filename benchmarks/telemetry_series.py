"""Series that agents bring, and how well the links that no agent measures are estimated from them.

series     of a node and of a cluster, new ones in a day, and bytes of the answer to one query, beside the operator's limit
estimates  a made-up cluster of racks in zones: error of the links that no schedule measures, estimated from the pairs of each

Peer: the schedule until now: all pairs of a block of 16 and log2 n others, drawn again every minute and kept for 15 minutes, with 23 series
each.

Example: python -m benchmarks.telemetry_series --json rows.json
"""

from __future__ import annotations

import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import hashlib  # noqa: E402
import math  # noqa: E402
import sys  # noqa: E402
from collections.abc import Callable, Iterator  # noqa: E402
from itertools import permutations, product  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Final, NamedTuple  # noqa: E402

import numpy as np  # noqa: E402
from prometheus_client import CollectorRegistry, generate_latest  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import telemetry_source  # noqa: E402
from benchmarks.common import Row, goal, parser, report  # noqa: E402
from hyperscale.agent.probe.probe_metrics import LinkCollector, ProbeSeries  # noqa: E402
from hyperscale.agent.probe.probe_schedule import ProbeSchedule  # noqa: E402
from hyperscale.model.graph import FloatArray, IntArray  # noqa: E402
from hyperscale.observe.prometheus.http import MAX_BODY_BYTES  # noqa: E402
from hyperscale.planner.graph import completion  # noqa: E402
from hyperscale.planner.graph.tiers import calibrated, constants  # noqa: E402

NAME: Final = "telemetry_series"
OURS: Final = "hyperscale"
FORMER: Final = "until now"
MAX_SERIES: Final = 60
SIZES: Final = (10, 24, 50, 100, 500, 1000, 5000)
ESTIMATED: Final = (100, 200, 500)
"""Nodes; beyond, the answer to one query was longer than the operator reads."""
WORSE: Final = 1.2
"""The estimates may be so much worse, from a sixth of the pairs at 500 nodes."""
FORMER_BLOCK: Final = 16
FORMER_ALL: Final = 24
FORMER_ROUNDS: Final = 16
FORMER_SERIES: Final = 23
SAMPLES: Final = 100_000
LEVELS: Final = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone", "fabric.topograph.run/tier-0")
REASONS: Final = ("busy", "budget", "full", "occupied", "protocol", "size", "token")
AGENT_SERIES: Final = 3
"""hyperscale_agent_state, _build_info and _reading_seconds."""

Pairs = set[tuple[int, int]]


class World(NamedTuple):
    """A cluster whose links are known."""

    domains: IntArray
    """(n, 3) region, zone, rack."""
    latency: FloatArray
    """(n, n) seconds."""
    bandwidth: FloatArray
    """(n, n) bytes a second."""


def groups(nodes: int) -> list[str]:
    """Group of each node: its rack, as the source of benchmarks/telemetry.py has them."""
    return [
        f"zone-{rack // telemetry_source.RACKS_PER_ZONE}/leaf-{rack}" for rack in (at // telemetry_source.RACK_NODES for at in range(nodes))
    ]


def ours(nodes: int, group: list[str], number: int = 0) -> Pairs:
    """What agents measure now."""
    schedule = ProbeSchedule({telemetry_source.node_name(at): group[at] for at in range(nodes)})
    index = {telemetry_source.node_name(at): at for at in range(nodes)}
    found = ((at, schedule.targets(name, number)) for name, at in index.items())
    return {(at, index[other]) for at, targets in found for other in (*targets.near, *targets.far)}


def former(nodes: int, group: list[str]) -> Pairs:
    """What agents measured until now, and served for 15 minutes."""
    if nodes <= FORMER_ALL:
        return set(permutations(range(nodes), 2))
    members: dict[str, list[int]] = {}
    for at in range(nodes):
        members.setdefault(group[at], []).append(at)
    found = {pair for mates in members.values() for pair in _within_blocks(mates)}
    for number in range(FORMER_ROUNDS):
        steps = {1 + _draw(f"{nodes} {number} {at}") % (nodes - 1) for at in range(math.ceil(math.log2(nodes)))}
        found.update((at, (at + step) % nodes) for at, step in product(range(nodes), steps))
    return found


def _within_blocks(mates: list[int]) -> Pairs:
    """All pairs within each of the equal blocks into which a group's nodes are cut."""
    blocks = math.ceil(len(mates) / FORMER_BLOCK)
    block = {node: at * blocks // len(mates) for at, node in enumerate(mates)}
    return {(a, b) for a, b in permutations(mates, 2) if block[a] == block[b]}


def _draw(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])


def series(sizes: tuple[int, ...]) -> Iterator[Row]:
    """Of a node, of the cluster, in a day, and the bytes of an answer."""
    for nodes in sizes:
        group = groups(nodes)
        schedule = ProbeSchedule({telemetry_source.node_name(at): group[at] for at in range(nodes)})
        chosen = range(nodes) if nodes <= 200 else range(0, nodes, nodes // 100)
        counts, new, measured = [], [], []
        for at in chosen:
            rounds = [schedule.targets(telemetry_source.node_name(at), number) for number in range(25)]
            hours = [{*targets.near, *targets.far} for targets in rounds]
            counts.append(AGENT_SERIES + _served(hours[0]))
            new.append(2 * len(set.union(*hours) - hours[0]))
            measured.append(len(hours[0]))
        case, mean = f"{nodes} nodes", sum(measured) / len(measured)
        yield goal(NAME, f"{case}: series of a node, most, GPUs left out", OURS, max(counts), MAX_SERIES, "series")
        yield Row(NAME, case, OURS, "series of the cluster", nodes * sum(counts) / len(counts), "series")
        yield Row(NAME, case, OURS, "new series of a node in a day, most", max(new), "series")
        line = len(telemetry_source.link_line("hyperscale_link_bandwidth_bytes_per_second", (nodes - 1, nodes // 2), 7, False))
        yield goal(NAME, f"{case}: answer to one query over the operator's limit", OURS, nodes * mean * line / MAX_BODY_BYTES, 1.0, "ratio")
        if nodes <= max(ESTIMATED):
            pairs = len(former(nodes, group))
            yield Row(NAME, case, FORMER, "series of the cluster", pairs * FORMER_SERIES, "series")
            yield Row(NAME, case, FORMER, "answer to one query over the operator's limit", pairs * line / MAX_BODY_BYTES, "ratio")


def _served(destinations: set[str]) -> int:
    """Lines of the exposition of the link probe, every reason to refuse included."""

    class Found:
        sent = lost = 1

        def __init__(self) -> None:
            self.series = {name: ProbeSeries(1e-4, 1e9, rank=at) for at, name in enumerate(sorted(destinations))}

    registry = CollectorRegistry()
    registry.register(LinkCollector("me", Found(), dict.fromkeys(REASONS, 1)))
    return sum(not line.startswith("#") for line in generate_latest(registry).decode().splitlines())


def world(nodes: int, seed: int) -> World:
    """Zones, racks, uplinks of racks, cards of nodes and links differ from one another; one rack in ten and one card in 30 is slow."""
    rng = np.random.default_rng(seed)
    rack = np.arange(nodes) // telemetry_source.RACK_NODES
    zone = rack // telemetry_source.RACKS_PER_ZONE
    domains = np.stack([zone // telemetry_source.ZONES_PER_REGION, zone, rack], axis=1)
    tier = sum((domains[:, None, level] == domains[None, :, level]).astype(np.int64) for level in range(3))
    zones, racks = int(zone.max()) + 1, int(rack.max()) + 1

    def spread(count: int, sigma: float, of: IntArray) -> FloatArray:
        table = rng.lognormal(0.0, sigma, (count, count))
        return np.asarray(table[of[:, None], of[None, :]])

    away = np.asarray(tier < 3)
    latency = np.array([3e-2, 1e-3, 1e-4, 2e-5])[tier] * np.where(away, spread(zones, 0.4, zone) * spread(racks, 0.1, rack), 1.0)
    uplink = rng.choice([1.0, 0.5], racks, p=[0.9, 0.1])[rack]
    card = 12e9 * rng.choice([1.0, 0.25], nodes, p=[29 / 30, 1 / 30])
    shared = np.minimum(uplink[:, None], uplink[None, :]) * spread(zones, 0.3, zone) * spread(racks, 0.1, rack)
    bandwidth = np.array([1.25e8, 1.25e9, 3e9, 12e9])[tier] * np.where(away, shared, 1.0)
    bandwidth = np.minimum(bandwidth, np.minimum(card[:, None], card[None, :]))
    noise = [np.exp(0.1 * rng.standard_normal((nodes, nodes))) for _ in range(2)]
    return World(domains, latency * noise[0], bandwidth * noise[1])


def estimates(sizes: tuple[int, ...], seeds: int) -> Iterator[Row]:
    """Mean relative error, at most 1 each, of links that no schedule measures."""
    for nodes in sizes:
        rack = groups(nodes)
        for labels, group, levels in (("racks", rack, 3), ("zones only", [name.partition("/")[0] for name in rack], 2)):
            schedules = {OURS: ours(nodes, group), FORMER: former(nodes, group)}
            measured = set.union(*schedules.values())
            errors: dict[tuple[str, str], list[float]] = {}
            for seed in range(seeds):
                made = world(nodes, seed)
                for method, pairs in schedules.items():
                    for figure, error in _errors(made, pairs, measured, levels, seed).items():
                        errors.setdefault((method, figure), []).append(error)
            case = f"{nodes} nodes, labels of {labels}"
            for (method, figure), found in errors.items():
                yield Row(NAME, case, method, f"{figure}: mean error of unmeasured links", float(np.mean(found)), "ratio")
            for figure in ("latency", "bandwidth"):
                ratio = float(np.mean(errors[OURS, figure]) / np.mean(errors[FORMER, figure]))
                name = f"{case}: error of {figure}, ours over {FORMER}"
                yield goal(NAME, name, OURS, ratio, WORSE, "ratio") if labels == "racks" else Row(NAME, name, OURS, "ratio", ratio, "ratio")


def _errors(made: World, pairs: Pairs, measured: Pairs, levels: int, seed: int) -> dict[str, float]:
    nodes = len(made.domains)
    keys = np.array(sorted(source * nodes + destination for source, destination in pairs))
    rng = np.random.default_rng(seed)
    source, destination = keys // nodes, keys % nodes
    domains = made.domains[:, :levels]
    tier = _tier(domains, source, destination)
    figures = (made.latency[source, destination], made.bandwidth[source, destination])
    tiers = calibrated(constants(LEVELS[:levels]), tier, *figures)
    of_tier = (tiers.latency_seconds, tiers.bandwidth_bytes_per_second)
    found = completion.fit(domains, keys, tier, figures, of_tier)
    ends = rng.integers(0, nodes, (2, SAMPLES))
    known = np.array([a * nodes + b for a, b in measured] + [b * nodes + a for a, b in measured])
    ends = ends[:, (ends[0] != ends[1]) & ~np.isin(ends[0] * nodes + ends[1], known)]
    errors = {}
    for place, name in enumerate(("latency", "bandwidth")):
        way = None if found is None else (found.latency, found.bandwidth)[place]
        guess = np.log(of_tier[place][_tier(domains, *ends)])
        if isinstance(way, completion.LinkFigure) and way.model is not None:
            excess = way.model.pairs(ends[0], ends[1], guess)
            guess = np.where(np.isfinite(excess), np.clip(guess + excess, way.low, way.high), guess)
        truth = (made.latency, made.bandwidth)[place][ends[0], ends[1]]
        errors[name] = float(np.minimum(1.0, np.abs(np.exp(guess) / truth - 1)).mean())
    return errors


def _tier(domains: IntArray, source: IntArray, destination: IntArray) -> IntArray:
    tier = np.zeros(len(source), dtype=np.int64)
    for level in range(domains.shape[1]):
        tier[domains[source, level] == domains[destination, level]] = level + 1
    return tier


def main() -> int:
    """Run the chosen parts."""
    arguments = parser(__doc__ or "")
    arguments.add_argument("--only", choices=("series", "estimates"), help="one part instead of both")
    given = arguments.parse_args()
    parts: dict[str, Callable[[], Iterator[Row]]] = {
        "series": lambda: series(SIZES[::2] if given.quick else SIZES),
        "estimates": lambda: estimates(ESTIMATED[1:2] if given.quick else ESTIMATED, 2 if given.quick else 5),
    }
    rows = [row for name, part in parts.items() if given.only in (None, name) for row in part()]
    report(rows, given.json)
    return 0 if all(row.holds is not False for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
