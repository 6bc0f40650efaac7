"""How many series the link probe of one node serves: few at any size, with any losses, and hardly any new ones in a day."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import pytest
import pytest_asyncio
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from hyperscale.agent.probe.peers import Peer
from hyperscale.agent.probe.probe_client import Burst, Trips
from hyperscale.agent.probe.probe_metrics import MAX_SERIES, LinkCollector, ProbeSeries
from hyperscale.agent.probe.probe_rounds import MISSES, Rounds
from hyperscale.agent.probe.probe_settings import LinkSettings
from hyperscale.agent.probe.probe_socket import Datagrams, SocketBudget
from hyperscale.agent.probe.tokens import TokenFile

LIMIT = 60
REASONS = ("busy", "budget", "full", "occupied", "protocol", "size", "token")
DAY_SECONDS = 86_400
TRAIN = Burst(1e9, limited=False, blocked=False, packets=320, lost=0)


def lines(text: str) -> list[str]:
    return [line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")]


def names(found: Iterable[str]) -> set[str]:
    return {line.partition("{")[0] for line in found}


@pytest_asyncio.fixture
async def rounds(tmp_path: Path) -> AsyncIterator[Rounds]:
    (tmp_path / "token").write_text("0123456789abcdef0123456789abcdef")
    purse = SocketBudget(1e6, 1e6)
    datagrams = Datagrams("127.0.0.1", 0, purse)
    made = Rounds("node-0", LinkSettings(), TokenFile(tmp_path / "token"), datagrams, purse, lambda: False)
    yield made
    await made.close()
    datagrams.close()


def cluster(count: int) -> tuple[Peer, ...]:
    """Racks of 16 in zones of 320."""
    return tuple(Peer(f"node-{at}", "127.0.0.1", 9, f"zone-{at // 320}/rack-{at // 16}") for at in range(count))


def served(rounds: Rounds) -> list[str]:
    registry = CollectorRegistry()
    registry.register(LinkCollector("node-0", rounds, dict.fromkeys(REASONS, 1)))
    return lines(generate_latest(registry).decode())


def measure(rounds: Rounds, *, lost: int = 0, silent: bool = False) -> None:
    """One visit and one train to whomever it is the turn of."""
    rounds._choose()
    for name, destination in list(rounds._destinations.items()):
        for _ in range(MISSES if silent else 1):
            rounds._note_trips(name, destination, Trips((), 2) if silent else Trips((1e-4,) * (5 - lost), 5))
        if not silent:
            rounds._note_burst(name, destination, TRAIN)


@pytest.mark.parametrize("count", [2, 17, 25, 46, 500, 5000])
async def test_a_node_serves_few_series_at_any_size_for_as_long_as_it_runs(
    rounds: Rounds, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds.replace(cluster(count))
    start, seen = time.time(), set()
    for seconds in range(0, 3600, 60):
        monkeypatch.setattr(time, "time", lambda now=start + seconds: now)
        measure(rounds, lost=seconds // 60 % 3)
        found = served(rounds)
        assert len(found) <= MAX_SERIES
        seen |= set(found)
    assert {"hyperscale_link_latency_seconds", "hyperscale_link_bandwidth_bytes_per_second"} <= names(found)
    assert len(seen) <= LIMIT + 30


async def test_a_day_brings_hardly_any_new_series(rounds: Rounds, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds.replace(cluster(1000))
    start, seen = time.time(), set()
    for seconds in range(0, DAY_SECONDS, 600):
        monkeypatch.setattr(time, "time", lambda now=start + seconds: now)
        measure(rounds)
        seen |= set(served(rounds))
    assert len(seen) <= 3 * LIMIT


async def test_a_peer_that_is_replaced_in_the_sample_takes_its_series_along(rounds: Rounds, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds.replace(cluster(1000))
    start = time.time()
    before: set[str] = set()
    for seconds in range(0, DAY_SECONDS, 3600):
        monkeypatch.setattr(time, "time", lambda now=start + seconds: now)
        measure(rounds)
        assert rounds.series.keys() == rounds._destinations.keys()
        before |= rounds.series.keys()
    assert len(before) > len(rounds.series)


async def test_a_silent_peer_has_lost_everything_and_has_no_other_figure(rounds: Rounds) -> None:
    rounds.replace(cluster(3))
    measure(rounds)
    assert "hyperscale_link_probe_loss_ratio" not in names(served(rounds))
    measure(rounds, silent=True)
    for series in rounds.series.values():
        assert (series.loss_ratio, series.latency_seconds, series.bandwidth_bytes_per_second) == (1.0, None, None)
    measure(rounds)
    for series in rounds.series.values():
        assert (series.loss_ratio, series.latency_seconds) == (0.0, 5e-5)


async def test_a_loss_is_the_part_of_the_last_visits_that_did_not_come_back(rounds: Rounds) -> None:
    rounds.replace(cluster(2))
    for _ in range(9):
        measure(rounds)
    measure(rounds, lost=1)
    assert rounds.series["node-1"].loss_ratio == pytest.approx(1 / 50)
    assert (rounds.sent, rounds.lost) == (50, 1)


async def test_a_peer_whose_agent_is_away_has_no_figures_and_no_loss(rounds: Rounds) -> None:
    """Its machine answers: the link is fine, and no agent is there to measure it with."""
    rounds.replace((Peer("node-0", "127.0.0.1", 1), Peer("node-1", "127.0.0.1", 1)))
    rounds._choose()
    for _ in range(MISSES + 1):
        await rounds._round_trips("node-1", rounds._destinations["node-1"])
    assert rounds.series["node-1"] == ProbeSeries()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.booleans(), st.booleans(), st.sampled_from([0.0, 0.01, 0.5, 1.0])), max_size=60),
    st.sets(st.sampled_from(REASONS)),
)
def test_no_losses_bring_more_series_and_what_is_lost_goes_first(found: list[tuple[bool, bool, float]], reasons: set[str]) -> None:
    class Known:
        sent = lost = 7

        def __init__(self) -> None:
            self.series = {
                f"n{at}": ProbeSeries(1e-4 if latency else None, 1e9 if bandwidth else None, loss_ratio=loss, rank=at)
                for at, (latency, bandwidth, loss) in enumerate(found)
            }

    registry = CollectorRegistry()
    known = Known()
    registry.register(LinkCollector("me", known, dict.fromkeys(reasons, 1)))
    text = generate_latest(registry).decode()
    assert len(lines(text)) <= MAX_SERIES
    losses = [series for series in known.series.values() if series.loss_ratio > 0]
    shown = [line for line in lines(text) if line.startswith("hyperscale_link_probe_loss_ratio")]
    assert len(shown) >= min(len(losses), 15)
