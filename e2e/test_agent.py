"""Agents as pods of the chart's DaemonSet on three real nodes: what they measure is what the links are, and the next plan knows it."""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any, Final

import pytest

from e2e.cluster import prometheus
from e2e.cluster.cluster import Cluster
from e2e.cluster.control_plane import wait_until
from e2e.cluster.operator import OperatorProcess, install, start_operator
from e2e.cluster.real import agents, machines
from e2e.cluster.real.agents import AgentPod
from e2e.cluster.topology import AGENTS_FILE, Figures, LinkTable
from e2e.conftest import real_machines
from e2e.jobs import Job, namespace
from tests.unit.agent import fakenvml

LATENCY: Final = "hyperscale_link_latency_seconds"
BANDWIDTH: Final = "hyperscale_link_bandwidth_bytes_per_second"
BANDWIDTH_TOLERANCE: Final = 0.10
ROUND_TRIP_TOLERANCE: Final = 0.20
SEEN_SECONDS: Final = 30.0
"""What is promised of an altered link."""
ROUNDS: Final = 5
MORE_ROUNDS: Final = 20
"""Medians are taken over more where a busy machine spoils the first."""
PINGS: Final = 10
FIRST_SECONDS: Final = 120.0
"""Patience; nothing is judged by it."""
PLAN_SECONDS: Final = 60.0
"""Patience with two polls of the operator."""
SLOW_FACTOR: Final = 20
SLOW_LATENCY_SECONDS: Final = 0.006
READINGS: Final = "readings.txt"

Pair = tuple[str, str]


@dataclass(frozen=True)
class Watched:
    """Three real nodes with an agent each."""

    cluster: Cluster
    pods: dict[str, AgentPod]

    @property
    def pairs(self) -> list[Pair]:
        """All, both ways."""
        return list(permutations(sorted(self.pods), 2))

    def asked(self, metric: str) -> dict[Pair, float]:
        """What Prometheus says of the pairs now."""
        rows = prometheus.query(self.cluster.prometheus_url, metric)
        return {(row["metric"]["source"], row["metric"]["destination"]): float(row["value"][1]) for row in rows}

    def states(self) -> dict[str, str]:
        """What the agents say of their GPUs, by node."""
        rows = prometheus.query(self.cluster.prometheus_url, "hyperscale_agent_state")
        return {row["metric"]["node"]: row["metric"]["state"] for row in rows}

    def true(self, pair: Pair) -> Figures:
        """What the link was given."""
        return LinkTable(self.cluster.topology).figures(*pair)

    def shape(self, rates: Mapping[Pair, float]) -> None:
        """Give links other bandwidths, in bytes a second."""
        nodes = self.cluster.real_nodes
        for (source, destination), rate in rates.items():
            machines.shape_one_way(nodes[source], nodes[destination], rate * 8)


@pytest.fixture(scope="module")
def watched() -> Iterator[Watched]:
    """A cluster of its own: in the others no agent measures links."""
    with real_machines("e2e-agents", AGENTS_FILE) as here:
        install(here)
        yield Watched(here, agents.install(here, {"FAKE_NVML": f"{machines.DRIVER_PATH}/{READINGS}"}))


@pytest.fixture(scope="module")
def operator(watched: Watched) -> Iterator[OperatorProcess]:
    """Plans from what the agents measure."""
    process = start_operator(watched.cluster)
    yield process
    process.stop()


@pytest.fixture
def space(watched: Watched) -> Iterator[str]:
    """A namespace."""
    with namespace(watched.cluster.api(), "agents") as name:
        yield name


def test_every_link_is_measured_as_it_is(watched: Watched) -> None:
    wait_until(
        lambda: all(set(watched.asked(metric)) == set(watched.pairs) for metric in (BANDWIDTH, LATENCY)),
        FIRST_SECONDS,
        "not every pair was measured",
        0.5,
    )
    seen = Comparison(watched)
    while seen.rounds < ROUNDS or (seen.faults() and seen.rounds < MORE_ROUNDS):
        seen.another()
    print("\n".join(seen.table()))
    assert not seen.faults()


def test_a_node_without_a_driver_says_so_and_its_gpus_are_left_to_others(watched: Watched) -> None:
    wait_until(lambda: watched.states() == dict.fromkeys(watched.pods, "NoLibrary"), FIRST_SECONDS, "not every agent says NoLibrary")
    assert not [pod for pod in watched.pods.values() if "DCGM_FI" in pod.metrics()]


def test_an_agent_with_another_token_is_refused_and_feeds_nothing(watched: Watched, tmp_path: Path) -> None:
    asked, host = (watched.pods[name] for name in sorted(watched.pods)[:2])
    (tmp_path / "token").write_text("not the token of these agents\n")
    before = agents.refused(asked.metrics(), "token")
    with agents.stranger(host, asked, tmp_path / "token"):
        wait_until(lambda: agents.refused(asked.metrics(), "token") > before, FIRST_SECONDS, "the stranger was not refused", 0.25)
    ends = {end for metric in (LATENCY, BANDWIDTH) for pair in agents.figures(asked.metrics(), metric) for end in pair}
    assert ends == set(watched.pods)


def test_an_altered_latency_is_seen(watched: Watched) -> None:
    pair = ("node-a", "node-c")
    before = watched.asked(LATENCY)
    machines.delay_links(
        watched.cluster.directory, watched.cluster.topology, {pair: SLOW_LATENCY_SECONDS, pair[::-1]: SLOW_LATENCY_SECONDS}
    )
    began = time.monotonic()
    try:
        wait_until(
            lambda: all(abs(watched.asked(LATENCY)[one] / SLOW_LATENCY_SECONDS - 1) <= ROUND_TRIP_TOLERANCE for one in (pair, pair[::-1])),
            SEEN_SECONDS,
            f"the altered latency was not seen; before {before}",
            0.25,
        )
        print(f"latency of {' and '.join(pair)} altered to {SLOW_LATENCY_SECONDS} s: seen after {time.monotonic() - began:.1f} s")
    finally:
        machines.delay_links(watched.cluster.directory, watched.cluster.topology, {})


def test_an_altered_link_is_seen_in_time_and_the_next_plan_avoids_it(watched: Watched, operator: OperatorProcess, space: str) -> None:
    first = _planned(watched, space, "first")
    one, other = first.nodes()
    assert "LinksEstimatedFromLabels" not in first.plan().get("fallbacks", ())
    assert {one, other} == {"node-a", "node-b"}, "the fastest link, and the nearest"
    pairs = ((one, other), (other, one))
    slow = {pair: watched.true(pair).bandwidth_bytes_per_second / SLOW_FACTOR for pair in pairs}
    watched.shape(slow)
    began = time.monotonic()
    try:
        wait_until(
            lambda: all(abs(watched.asked(BANDWIDTH)[pair] / rate - 1) <= BANDWIDTH_TOLERANCE for pair, rate in slow.items()),
            SEEN_SECONDS,
            "the altered link was not seen",
            0.25,
        )
        seen = time.monotonic() - began
        again, attempt = _planned_elsewhere(watched, space, {one, other})
    finally:
        watched.shape({pair: watched.true(pair).bandwidth_bytes_per_second for pair in pairs})
    used = time.monotonic() - began
    print(f"{one} and {other} made {SLOW_FACTOR} times narrower: seen after {seen:.1f} s, avoided after {used:.1f} s by plan {attempt}")
    assert set(again.nodes()) != {one, other}


def test_a_driver_that_comes_later_is_found_and_prometheus_has_its_gpus(watched: Watched) -> None:
    """NVML is played by a library of C functions: the node has no GPU. Last, because the operator sees these GPUs too."""
    library, (node, *others) = fakenvml.compiled(), sorted(watched.pods)
    driver = watched.cluster.real_nodes[node].driver
    (driver / READINGS).write_text(fakenvml.as_text(fakenvml.whole()))
    shutil.copy(library, driver / library.name)

    def utilizations() -> dict[str, float]:
        rows = prometheus.query(watched.cluster.prometheus_url, f'DCGM_FI_DEV_GPU_UTIL{{job="pods",Hostname="{node}"}}')
        return {row["metric"]["UUID"]: float(row["value"][1]) for row in rows}

    try:
        wait_until(
            lambda: utilizations() == dict(zip(fakenvml.UUIDS, (87, 88), strict=True)), FIRST_SECONDS, "Prometheus has no GPUs of it"
        )
        wait_until(
            lambda: watched.states() == {node: "Ready"} | dict.fromkeys(others, "NoLibrary"), FIRST_SECONDS, "the state does not say so"
        )
    finally:
        for file in driver.iterdir():
            file.unlink()
        agents.restart(watched.cluster, watched.pods[node])


class Comparison:
    """Prometheus' figures of every pair beside what is so, taken in turn with direct measurements."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        self._bandwidth: dict[Pair, list[float]] = {pair: [] for pair in watched.pairs}
        self._trip: dict[Pair, list[float]] = {pair: [] for pair in watched.pairs}
        self._direct: dict[Pair, list[float]] = {pair: [] for pair in watched.pairs}
        self.rounds = 0

    def another(self) -> None:
        """One more figure of each kind for each pair."""
        pods = self._watched.pods
        for pair in self._watched.pairs:
            self._direct[pair].append(pods[pair[0]].round_trip_seconds(pods[pair[1]], PINGS))
        bandwidth, latency = self._watched.asked(BANDWIDTH), self._watched.asked(LATENCY)
        for pair in self._watched.pairs:
            self._bandwidth[pair].append(bandwidth[pair])
            self._trip[pair].append(2 * latency[pair])
        self.rounds += 1

    def ratios(self, pair: Pair) -> tuple[float, float]:
        """(bandwidth measured / shaped, round trip measured / direct)."""
        shaped = self._watched.true(pair).bandwidth_bytes_per_second
        return statistics.median(self._bandwidth[pair]) / shaped, statistics.median(self._trip[pair]) / statistics.median(
            self._direct[pair]
        )

    def faults(self) -> list[tuple[Pair, tuple[float, float]]]:
        """Pairs outside the tolerances."""
        rows = [(pair, self.ratios(pair)) for pair in self._watched.pairs]
        return [
            (pair, (bandwidth, trip))
            for pair, (bandwidth, trip) in rows
            if abs(bandwidth - 1) > BANDWIDTH_TOLERANCE or abs(trip - 1) > ROUND_TRIP_TOLERANCE
        ]

    def table(self) -> list[str]:
        """One line a pair."""
        lines = [f"{'pair':<16} {'shaped':>14} {'measured':>14} {'ratio':>6}   {'direct':>9} {'measured':>9} {'ratio':>6}"]
        for pair in self._watched.pairs:
            shaped, (bandwidth, trip) = self._watched.true(pair).bandwidth_bytes_per_second * 8e-6, self.ratios(pair)
            direct = statistics.median(self._direct[pair]) * 1e3
            lines.append(
                f"{' > '.join(pair):<16} {shaped:9.1f} Mb/s {shaped * bandwidth:9.1f} Mb/s {bandwidth:6.3f}"
                f"   {direct:6.3f} ms {direct * trip:6.3f} ms {trip:6.3f}"
            )
        return [*lines, f"medians of {self.rounds} rounds, {PINGS} direct round trips a pair in each"]


def _planned(watched: Watched, space: str, name: str, **spec: Any) -> Job:  # noqa: ANN401 - any JSON
    """A job that is only planned."""
    job = Job(watched.cluster.api(), space, name)
    job.create(startPolicy="Never", **spec)
    job.wait_reason("StartPolicyNever")
    return job


def _planned_elsewhere(watched: Watched, space: str, avoided: set[str]) -> tuple[Job, int]:
    """Plan again until the figures have arrived and the plan is not on these nodes alone. Return the last job and the count of attempts."""
    deadline, attempt = time.monotonic() + PLAN_SECONDS, 1
    while True:
        job = _planned(watched, space, f"again-{attempt}")
        if set(job.nodes()) != avoided or time.monotonic() > deadline:
            return job, attempt
        time.sleep(1.0)
        attempt += 1
