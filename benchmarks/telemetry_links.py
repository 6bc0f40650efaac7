"""Links measured by agents, and links that were not measured: how far off, and at what cost.

estimates  half of the pairs of published matrices hidden and estimated, beside named peers; the error stated beside the one found
schedule   probes and bytes of every node for 10 to 5,000 nodes, and how they grow
shaped     agents in network namespaces behind htb: rate and round trip of every ordered pair beside the shaped and the directly measured
           ones, and how soon an altered link is seen (needs root)

One file, though longer than others, so that the whole measurement can be read at once.

example: python -m benchmarks.telemetry_links --only estimates --json rows.json
"""

from __future__ import annotations

import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import math  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable, Iterator, Mapping  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Final, NamedTuple  # noqa: E402

import numpy as np  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import telemetry_shaped  # noqa: E402
from benchmarks.common import Row, goal, median, parser, report  # noqa: E402
from hyperscale.agent.probe import probe_schedule as schedule  # noqa: E402
from hyperscale.agent.probe.probe_client import PINGS  # noqa: E402
from hyperscale.agent.probe.probe_server import train_bytes  # noqa: E402
from hyperscale.agent.probe.probe_settings import LinkSettings  # noqa: E402
from hyperscale.agent.probe.probe_socket import ECHO_BYTES  # noqa: E402
from hyperscale.agent.probe.probe_train import packets  # noqa: E402
from hyperscale.model.cluster import ClusterSnapshot  # noqa: E402
from hyperscale.model.graph import FloatArray, IntArray  # noqa: E402
from hyperscale.observe.files import hulk, matrix  # noqa: E402
from hyperscale.planner.graph import completion, completion_models  # noqa: E402
from hyperscale.planner.graph.tiers import calibrated, constants  # noqa: E402

NAME: Final = "telemetry_links"
DATA: Final = Path(__file__).parents[2] / "shared" / "data"
FEW_PAIRS: Final = 100
MAX_ERROR: Final = 0.15
COUNTS: Final = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
DELAYED: Final = {
    (0, 1): (200.0, 0.5),
    (1, 0): (100.0, 0.5),
    (0, 2): (200.0, 1.5),
    (2, 0): (150.0, 1.5),
    (1, 2): (50.0, 3.0),
    (2, 1): (200.0, 3.0),
}
"""Mbit/s and milliseconds one way; not faster, for every packet passes through a process that holds it."""
SHORTEST_SECONDS: Final = 2e-4
"""Shorter round trips stay inside one machine: how lately the processor did the same decides about them, not a link."""
SHAPES: Final = {(0, 1): 1000.0, (1, 0): 200.0, (0, 2): 200.0, (2, 0): 1000.0, (1, 2): 500.0, (2, 1): 100.0}
"""Mbit/s by (source, destination): no pair is as fast there as back."""


class Case(NamedTuple):
    """One matrix: its figure of every unordered pair."""

    name: str
    figure: str
    domains: IntArray
    """(n, levels)"""
    levels: tuple[str, ...]
    pairs: IntArray
    """(m, 2)"""
    values: FloatArray
    """(m,)"""


def cases() -> Iterator[Case]:
    """Hulk's and DT-FM's matrices, each with the labels that its source gives and without any."""
    folder = DATA / "hulk"
    given = hulk.parse((folder / "edge.txt").read_text(), (folder / "node_feature.csv").read_text(), folder)
    yield from _both("hulk", "latency", given)
    for number, figures in ((1, ("bandwidth",)), (2, ("bandwidth",)), (3, ("latency", "bandwidth"))):
        file = next((DATA / "dtfm").glob(f"case{number}_*.json"))
        for figure in figures:
            yield from _both(f"dt-fm {number}", figure, matrix.parse_json(file.read_bytes(), file))
    yield from _regions()


def _both(name: str, figure: str, snapshot: ClusterSnapshot) -> Iterator[Case]:
    index = {node.name: at for at, node in enumerate(snapshot.nodes)}
    found = {}
    for link in snapshot.links:
        sample = link.latency_seconds if figure == "latency" else link.bandwidth_bytes_per_second
        if sample.value:
            ends = sorted((index[link.source], index[link.destination]))
            found[ends[0], ends[1]] = sample.value
    pairs, values = np.array(sorted(found)), np.array([found[pair] for pair in sorted(found)])
    names = [node.domains[0] if node.domains else "" for node in snapshot.nodes]
    codes = np.array([[sorted(set(names)).index(one)] for one in names])
    if len(set(names)) > 1:
        yield Case(name, figure, codes, snapshot.levels, pairs, values)
    yield Case(f"{name} unlabelled", figure, codes[:, :0], (), pairs, values)


def _regions() -> Iterator[Case]:
    """The measured region pairs themselves (10 nodes, 45 pairs), and eight machines in every region, as DT-FM's own larger cases are."""
    rows = [line.split(",") for line in (DATA / "dtfm" / "region_pairs.csv").read_text().splitlines()[1:]]
    names = sorted({row[0] for row in rows} | {row[1] for row in rows})
    for figure, column, scale in (("latency", 2, 1e-3), ("bandwidth", 3, 1e9 / 8)):
        known = {frozenset((names.index(row[0]), names.index(row[1]))): float(row[column]) * scale for row in rows}
        for each in (1, 8):
            count = len(names) * each
            pairs = [(a, b) for a in range(count) for b in range(a + 1, count) if a // each != b // each]
            values = np.array([known[frozenset((a // each, b // each))] for a, b in pairs])
            yield Case(f"dt-fm regions x{each} unlabelled", figure, np.zeros((count, 0), dtype=np.int64), (), np.array(pairs), values)


def estimates(seeds: int) -> Iterator[Row]:
    """Half of the pairs of every case hidden."""
    for case in cases():
        errors: dict[str, list[float]] = {}
        for seed in range(seeds):
            for method, value in _hidden(case, seed).items():
                errors.setdefault(method, []).append(value)
                yield Row(NAME, f"{case.name} {case.figure}", method, "median relative error", value, "ratio", seed)
        for method, values in errors.items():
            yield Row(NAME, f"{case.name} {case.figure}", method, "median over seeds", median(values), "ratio")
        if case.levels and case.name == "hulk":  # harder than the goal: nothing known of half of the pairs of cities
            harder = [_hidden(case, seed, whole_domains=True) for seed in range(seeds)]
            for method in harder[0]:
                values = [errors[method] for errors in harder if method in errors]
                yield Row(NAME, f"{case.name} {case.figure}, city pairs hidden", method, "median over seeds", median(values), "ratio")
        if len(case.pairs) < FEW_PAIRS:
            continue  # ten nodes with four known links each: shown, but no goal of the product
        yield goal(NAME, f"{case.name} {case.figure}, half hidden", "hyperscale", median(errors["hyperscale"]), MAX_ERROR, "ratio")


def _split(case: Case, seed: int, whole_domains: bool) -> tuple[IntArray, IntArray]:
    """Which pairs are hidden and which shown: half of them, or all pairs of half of the pairs of domains."""
    rng = np.random.default_rng(seed)
    if not whole_domains:
        order = rng.permutation(len(case.pairs))
        return order[: len(order) // 2], order[len(order) // 2 :]
    ends = np.sort(case.domains[case.pairs, 0], axis=1)
    between = ends[:, 0] * (ends.max() + 1) + ends[:, 1]
    order = rng.permutation(np.unique(between))
    away = np.isin(between, order[: len(order) // 2])
    return np.flatnonzero(away), np.flatnonzero(~away)


def _hidden(case: Case, seed: int, whole_domains: bool = False) -> dict[str, float]:
    """Median relative error on the hidden pairs by method; and of ours, the mean and what was stated beforehand."""
    hidden, shown = _split(case, seed, whole_domains)
    count = len(case.domains)
    source, destination = case.pairs[shown].T
    keys = np.concatenate([source * count + destination, destination * count + source])
    figures = np.concatenate([case.values[shown]] * 2)[np.argsort(keys)]
    keys = np.sort(keys)
    tier = _tier(case.domains, keys // count, keys % count)
    nothing = np.full(len(keys), np.nan)
    both = (figures, nothing) if case.figure == "latency" else (nothing, figures)
    tiers = calibrated(constants(case.levels), tier, *both)
    of_tier = tiers.latency_seconds if case.figure == "latency" else tiers.bandwidth_bytes_per_second
    rows, columns = case.pairs[hidden].T
    known = np.log(of_tier[_tier(case.domains, rows, columns)])
    truth = case.values[hidden]
    links = completion_models.LinkSamples(
        count, keys // count, keys % count, np.log(figures) - np.log(of_tier[tier]), np.log(of_tier[tier])
    )
    no_labels = case.domains[:, :0]
    flat = np.full(len(keys), np.median(np.log(figures)))
    plain = completion_models.LinkSamples(count, links.source, links.destination, np.log(figures) - flat, flat)
    under = completion_models.by_domain(plain, no_labels)
    answers = {
        "tier medians": known,
        "Vivaldi": known + completion_models.by_place(links).pairs(rows, columns, known),
        "plain low rank": flat[0] + completion_models.by_factors(plain, under).pairs(rows, columns, known),
    }
    found = completion.fit(case.domains, keys, tier, both, (tiers.latency_seconds, tiers.bandwidth_bytes_per_second))
    way = None if found is None else (found.latency if case.figure == "latency" else found.bandwidth)
    guess = known
    if isinstance(way, completion.LinkFigure) and way.model is not None:
        excess = way.model.pairs(rows, columns, known)
        guess = np.where(np.isfinite(excess), np.clip(known + excess, way.low, way.high), known)
    answers["hyperscale"] = guess
    errors = {name: float(np.median(np.abs(np.exp(one) / truth - 1))) for name, one in answers.items()}
    errors["hyperscale, mean error at most 1 each"] = float(np.minimum(1.0, np.abs(np.exp(guess) / truth - 1)).mean())
    if isinstance(way, completion.LinkFigure):
        tier_of_hidden = _tier(case.domains, rows, columns)
        stated = [
            way.expected_errors(rows[at : at + 1], columns[at : at + 1], tier_of_hidden[at].reshape(1, 1))[0, 0] for at in range(len(rows))
        ]
        errors["hyperscale, mean error stated"] = float(np.mean(stated))
    return errors


def _tier(domains: IntArray, source: IntArray, destination: IntArray) -> IntArray:
    tier = np.zeros(len(source), dtype=np.int64)
    for level in range(domains.shape[1]):
        tier[domains[source, level] == domains[destination, level]] = level + 1
    return tier


def probes(counts: tuple[int, ...]) -> Iterator[Row]:
    """What every node does a minute, racks of 20 in zones of 500."""
    settings = LinkSettings()
    pairs, burst = [], train_bytes(packets(None))
    for count in counts:
        names = [f"node-{number}" for number in range(count)]
        groups = {name: f"rack-{at // 20}" for at, name in enumerate(names)}
        chosen = names if count <= 200 else names[:: count // 100]
        known = schedule.ProbeSchedule(groups)
        per_node = [len(found.near) + len(found.far) for found in (known.targets(name, 7) for name in chosen)]
        most = max(per_node)
        pairs.append(count * sum(per_node) / len(per_node))
        pace = schedule.cadence(most, settings.budget_bytes_per_second, PINGS * ECHO_BYTES, burst)
        trips, trains = 60 * most / pace.round_trip_seconds, 60 * most / pace.burst_seconds
        spent = 2 * (trips * PINGS * ECHO_BYTES + trains * burst)  # a node is measured about as often as it measures
        case = f"{count} nodes"
        yield Row(NAME, case, "schedule", "destinations of a node", most, "nodes")
        yield Row(NAME, case, "schedule", "probes of a node a minute", trips * PINGS + trains, "1/min")
        yield Row(NAME, case, "schedule", "round trip of a pair every", pace.round_trip_seconds, "s")
        yield Row(NAME, case, "schedule", "train of a pair every", pace.burst_seconds, "s")
        yield Row(NAME, case, "schedule", "bytes of a node", spent / 60, "B/s")
        yield Row(NAME, case, "schedule", "bytes of the cluster", count * spent / 2 / 60, "B/s")
        yield Row(NAME, case, "schedule", "pairs measured, all", pairs[-1], "pairs")
        yield Row(NAME, case, "all pairs", "pairs measured, all", count * (count - 1), "pairs")
        yield goal(NAME, f"{case}: budget", "schedule", spent / 60 / settings.budget_bytes_per_second, 1.0, "ratio")
    yield goal(
        NAME, f"pairs of {counts[-1]} nodes over n log2 n", "schedule", pairs[-1] / (counts[-1] * math.log2(counts[-1])), 1.0, "ratio"
    )


def fitting(counts: tuple[int, ...]) -> Iterator[Row]:
    """Processor seconds to learn both figures from what the schedule measures."""
    for count in counts:
        zone, rack = np.arange(count) // 500, np.arange(count) // 20
        source = np.repeat(np.arange(count), 28)
        rng = np.random.default_rng(0)
        near = rack[source] * 20 + rng.integers(0, 20, len(source))
        far = rng.integers(0, count, len(source))
        destination = np.where(rng.random(len(source)) < 0.5, np.minimum(near, count - 1), far)
        keys = np.unique(source * count + destination)
        keys = keys[keys // count != keys % count]
        source, destination = keys // count, keys % count
        domains = np.stack([zone, rack], axis=1)
        tier = _tier(domains, source, destination)
        places = rng.normal(0, 0.02, (zone[-1] + 1, 2))
        base = np.array([1e-3, 1e-4, 2e-5])[tier] + np.linalg.norm(places[zone[source]] - places[zone[destination]], axis=1)
        latency = base * np.exp(rng.normal(0, 0.2, len(keys)))
        tiers = calibrated(constants(("zone", "rack")), tier, latency, 1e5 / latency)
        took = []
        for _ in range(3):
            began = time.process_time()
            completion.fit(domains, keys, tier, (latency, 1e5 / latency), (tiers.latency_seconds, tiers.bandwidth_bytes_per_second))
            took.append(time.process_time() - began)
        yield Row(NAME, f"{count} nodes", "hyperscale", "measured pairs", len(keys), "pairs")
        yield Row(NAME, f"{count} nodes", "hyperscale", "learning both figures", min(took), "CPU s")
        yield goal(NAME, f"{count} nodes: learning", "hyperscale", min(took), 0.5, "CPU s")


def shaped(quick: bool) -> Iterator[Row]:
    """Every ordered pair of three agents, with delays and without; then one link is altered."""
    missing = telemetry_shaped.why_not()
    if missing:
        sys.stderr.write(f"shaped: left out: {missing}\n")
        return
    if Path("/dev/net/tun").exists():
        delayed = {pair: telemetry_shaped.Shape(*shape) for pair, shape in DELAYED.items()}
        yield from _agents("delayed", delayed, 6 if quick else 25, (100.0, 200.0)[: 1 if quick else 2])
        if quick:
            return
    else:
        sys.stderr.write("shaped: links with delays left out: /dev/net/tun is not here\n")
    shapes = {pair: telemetry_shaped.Shape(megabits) for pair, megabits in SHAPES.items()}
    yield from _agents("shaped", shapes, 6 if quick else 25, (200.0,) if quick else (200.0, 1000.0))


def _agents(name: str, shapes: Mapping[tuple[int, int], telemetry_shaped.Shape], wait: float, altered: tuple[float, ...]) -> Iterator[Row]:
    """Three agents; wait: seconds until they are asked; altered: rates that the first link is given then, one after the other."""
    machines = telemetry_shaped.Machines(3, shapes, (sys.executable, "-m", "benchmarks.telemetry_shaped"))
    try:
        machines.up()
        time.sleep(5)
        before, began = machines.costs(), time.monotonic()
        time.sleep(wait)
        after, seconds = machines.costs(), time.monotonic() - began
        used = [later[0] - earlier[0] for earlier, later in zip(before, after, strict=True)]
        yield Row(NAME, name, "agents", "processor of one, most", max(used) / seconds, "cores")
        yield Row(NAME, name, "agents", "memory of one, most", max(memory for _, memory in after) / 2**20, "MiB")
        for pair in sorted(shapes):
            yield from _pair(name, machines, pair)
        for megabits in altered:
            machines.shape(0, 1, telemetry_shaped.Shape(megabits))
            seconds = _seen(machines, (0, 1), megabits)
            yield goal(NAME, f"{name}: link altered to {megabits:g} Mbit/s, seen after", "agents", seconds, 30.0, "s")
        yield Row(NAME, name, "agents", "bytes spent to measure, all nodes", machines.spent_bytes(), "B")
    finally:
        machines.down()


def _pair(name: str, machines: telemetry_shaped.Machines, pair: tuple[int, int]) -> Iterator[Row]:
    case = f"{name} node{pair[0]} to node{pair[1]}"
    figures = machines.figures()
    rate = figures.get(("hyperscale_link_bandwidth_bytes_per_second", *pair), math.nan) * 8 / 1e6
    direct = machines.direct(*pair)
    trip = 2 * machines.figures().get(("hyperscale_link_latency_seconds", *pair), math.nan)
    wanted = machines.shapes[pair].megabits
    yield Row(NAME, case, "agents", "rate", rate, "Mbit/s")
    yield Row(NAME, case, "tc", "rate", wanted, "Mbit/s")
    yield Row(NAME, case, "agents", "round trip", trip * 1e6, "us")
    yield Row(NAME, case, "ICMP", "round trip", direct * 1e6, "us")
    yield goal(NAME, f"{case}: rate", "agents", abs(rate / wanted - 1), 0.10, "ratio")
    yield Row(NAME, case, "agents", "round trip, difference", abs(trip / direct - 1), "ratio")
    if direct >= SHORTEST_SECONDS:
        yield goal(NAME, f"{case}: round trip", "agents", abs(trip / direct - 1), 0.20, "ratio")


def _seen(machines: telemetry_shaped.Machines, pair: tuple[int, int], megabits: float) -> float:
    """Seconds until the agent's figure is within 10 % of the altered rate; infinite after a minute."""
    began = time.monotonic()
    while (waited := time.monotonic() - began) < 60:
        rate = machines.figures().get(("hyperscale_link_bandwidth_bytes_per_second", *pair), math.nan) * 8 / 1e6
        if abs(rate / megabits - 1) <= 0.10:
            return waited
        time.sleep(0.25)
    return math.inf


def main() -> int:
    """Run the chosen parts."""
    arguments = parser(__doc__ or "")
    arguments.add_argument("--only", choices=("estimates", "schedule", "shaped"), help="one part instead of all")
    given = arguments.parse_args()
    counts = COUNTS[::2] if given.quick else COUNTS
    parts: dict[str, Callable[[], Iterator[Row]]] = {
        "estimates": lambda: estimates(2 if given.quick else 10),
        "schedule": lambda: iter([*probes(counts), *fitting(counts[-1:])]),
        "shaped": lambda: shaped(given.quick),
    }
    if not DATA.is_dir() and given.only in (None, "estimates"):
        sys.stderr.write(f"{DATA.name}: published matrices are not here; estimates are left out\n")
        parts.pop("estimates")
    rows = [row for name, part in parts.items() if given.only in (None, name) for row in part()]
    report(rows, given.json)
    return 0 if all(row.holds is not False for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
