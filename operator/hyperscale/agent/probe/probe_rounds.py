"""Measures the peers whose turn it is, and keeps the figures that are served."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Final

from hyperscale.agent.probe.peers import Peer
from hyperscale.agent.probe.probe_client import PINGS, Burst, Client, PeerError, Trips
from hyperscale.agent.probe.probe_metrics import ProbeSeries
from hyperscale.agent.probe.probe_schedule import ROUND_SECONDS, Cadence, ProbeSchedule, Targets, cadence
from hyperscale.agent.probe.probe_server import RESERVE_BYTES, Busy, train_bytes
from hyperscale.agent.probe.probe_settings import LinkSettings
from hyperscale.agent.probe.probe_smooth import Smoother
from hyperscale.agent.probe.probe_socket import ECHO_BYTES, Datagrams, SocketBudget
from hyperscale.agent.probe.probe_train import packets
from hyperscale.agent.probe.tokens import TokenError, TokenFile

LOGGER: Final = logging.getLogger("hyperscale.agent.probe.probe")
TICK_SECONDS: Final = 0.1
AT_ONCE: Final = 8
"""Visits for round trips at the same time."""
CONFIRM_SECONDS: Final = 0.7
CONFIRMATIONS: Final = 6
"""A train that disagrees is repeated soon, but at most so often in a row."""
AGAIN_SECONDS: Final = 1.0
"""After a train that was refused because another was under way."""
BOUNDS: Final = 3
CONFIRMED: Final = 0.9
"""A lower bound of so much of the last figure renews it."""
FASTER: Final = 1.12
MISSES: Final = 3
"""Visits without any answer after which a link has no figures."""
LOSS_VISITS: Final = 60
"""Visits that a loss is a part of."""


def _rate() -> Smoother:
    return Smoother(window=5, agreeing=2, change_ratio=0.12)


@dataclass
class Destination:
    """What is known about one peer, and when it is its turn."""

    client: Client
    trip: Smoother = field(default_factory=lambda: Smoother(window=9, agreeing=3, change_ratio=0.25))
    rate: Smoother = field(default_factory=_rate)
    trip_due: float = 0.0
    rate_due: float = 0.0
    trip_at: float = -float("inf")
    rate_at: float = -float("inf")
    visits: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=LOSS_VISITS))
    """Round trips sent and lost, of each visit."""
    misses: int = 0
    confirmations: int = 0
    bounds: int = 0
    """Trains in a row that only showed how fast this agent sends."""
    unpaced: bool = False
    latest: float | None = None
    """Bytes a second of the last train, which sets pace and length of the next."""
    visiting: bool = False


class Rounds:
    """All destinations of this agent."""

    def __init__(self, name: str, settings: LinkSettings, tokens: TokenFile, datagrams: Datagrams, purse: SocketBudget, busy: Busy) -> None:
        """busy: whether this node's training communicates right now."""
        self.series: dict[str, ProbeSeries] = {}
        """Of the destinations of this round."""
        self.sent = self.lost = 0
        self.peers: dict[str, Peer] = {}
        self.name, self._settings, self._tokens = name, settings, tokens
        self._datagrams, self._purse, self._busy = datagrams, purse, busy
        self._destinations: dict[str, Destination] = {}
        self._targets = Targets((), ())
        self._round = -1
        self._random = random.Random(name)  # noqa: S311 - spreads agents out in time, hides nothing
        self._visits: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._bursting = False

    def replace(self, peers: tuple[Peer, ...]) -> None:
        """The list of peers now; those that left it lose their series."""
        by_name = {peer.name: peer for peer in peers}
        if by_name == self.peers:
            return
        gone = [name for name, peer in self.peers.items() if by_name.get(name) != peer]
        self.peers, self._round = by_name, -1
        for name in gone:
            self._forget(name)

    async def run(self) -> None:
        """For ever."""
        while True:
            now = time.monotonic()
            self._choose()
            self._expire(now)
            self._visit(now)
            await asyncio.sleep(TICK_SECONDS)

    async def close(self) -> None:
        """End all visits and sessions."""
        for task in tuple(self._visits):
            task.cancel()
        await asyncio.gather(*self._visits, return_exceptions=True)
        for name in tuple(self._destinations):
            await self._destinations.pop(name).client.close()

    def _choose(self) -> None:
        # Wall clock: all agents should be in the same round, so that each is measured by as many as it measures.
        number = int(time.time() // ROUND_SECONDS)
        if number == self._round:
            return
        self._round = number
        groups = {name: peer.group for name, peer in self.peers.items()}
        groups.setdefault(self.name, "")
        self._targets = ProbeSchedule(groups).targets(self.name, number)
        chosen = (*self._targets.near, *self._targets.far)
        for name in self._destinations.keys() - set(chosen):
            self._forget(name)
        for rank, name in enumerate(chosen):
            self.series.setdefault(name, ProbeSeries()).rank = rank
            if name not in self._destinations:
                client = Client(self.name, self.peers[name], self._tokens, self._datagrams, self._purse)
                start = time.monotonic()
                self._destinations[name] = Destination(client, trip_due=start, rate_due=start + self._random.uniform(0.2, 2.0))

    def _expire(self, now: float) -> None:
        """Figures that nothing renewed are no figures."""
        pace = self._cadence()
        for name, destination in self._destinations.items():
            series = self.series[name]
            keep = self._settings.keep_seconds if name not in self._targets.near else 30.0 + 4.0 * pace.burst_seconds
            if now - destination.rate_at > keep:
                series.bandwidth_bytes_per_second = series.bandwidth_at_least = None
            if now - destination.trip_at > max(30.0, keep):
                series.latency_seconds = None

    def _visit(self, now: float) -> None:
        names = (*self._targets.near, *self._targets.far)
        pace = self._cadence()
        for name in names:
            destination = self._destinations[name]
            if destination.trip_due <= now and not destination.visiting and len(self._visits) < 4 * AT_ONCE:
                destination.visiting = True
                destination.trip_due = now + pace.round_trip_seconds * self._random.uniform(0.95, 1.05)
                self._spawn(self._round_trips(name, destination))
        due = [(self._destinations[name].rate_due, name) for name in names if self._destinations[name].rate_due <= now]
        if due and not self._bursting and not self._busy():
            self._bursting = True
            name = min(due)[1]
            self._spawn(self._burst(name, self._destinations[name], pace.burst_seconds))

    def _cadence(self) -> Cadence:
        count = len(self._targets.near) + len(self._targets.far)
        return cadence(count, self._settings.budget_bytes_per_second, PINGS * ECHO_BYTES, train_bytes(packets(None)))

    async def _round_trips(self, name: str, destination: Destination) -> None:
        try:
            async with self._slots:
                trips = await destination.client.round_trips()
        except PeerError as error:
            LOGGER.debug("link probe: %s: %s", name, error)
            trips, away = Trips((), int(error.silent)), True
        except TokenError as error:
            LOGGER.debug("link probe: %s: %s", name, error)
            trips, away = Trips((), 0), True
        else:
            away = False
        finally:
            destination.visiting = False
        self._note_trips(name, destination, trips, away)

    def _note_trips(self, name: str, destination: Destination, trips: Trips, away: bool = False) -> None:
        """away: no visit was possible. Without it a visit that sent nothing had no budget, which says nothing of the peer."""
        if self._destinations.get(name) is not destination or not (trips.sent or away):
            return
        series = self.series[name]
        lost = trips.sent - len(trips.seconds)
        self.sent, self.lost = self.sent + trips.sent, self.lost + lost
        if trips.median is None:
            self._note_miss(destination, series, trips.sent)
            return
        if destination.misses >= MISSES:
            destination.visits.clear()  # what is back is judged by what it does from now on
        destination.misses = 0
        destination.visits.append((trips.sent, lost))
        sent, gone = (sum(counts) for counts in zip(*destination.visits, strict=True))
        series.loss_ratio = gone / sent
        destination.trip_at = time.monotonic()
        if destination.trip.add(trips.median) and destination.trip.count > 1:
            destination.rate_due = min(destination.rate_due, time.monotonic() + CONFIRM_SECONDS)
        value = destination.trip.value
        series.latency_seconds = None if value is None else value / 2

    def _note_miss(self, destination: Destination, series: ProbeSeries, sent: int) -> None:
        """A visit without an answer; sent: 0 where the peer's machine answered and its agent is away."""
        if sent:
            destination.visits.append((sent, sent))
        destination.misses += 1
        if destination.misses < MISSES:
            return
        series.latency_seconds = series.bandwidth_bytes_per_second = series.bandwidth_at_least = None
        series.loss_ratio = 1.0 if sent else 0.0
        destination.trip_due = max(destination.trip_due, time.monotonic() + 5.0)

    async def _burst(self, name: str, destination: Destination, every: float) -> None:
        destination.rate_due = time.monotonic() + every * self._random.uniform(0.9, 1.1)
        last_rate = destination.latest
        try:
            wait = self._purse.seconds_until(train_bytes(packets(last_rate)), RESERVE_BYTES)
            await asyncio.sleep(min(wait, every))
            burst = await destination.client.burst(last_rate, paced=not destination.unpaced, reserve=RESERVE_BYTES)
        except (PeerError, TokenError) as error:
            LOGGER.debug("link probe: burst to %s: %s", name, error)
            destination.rate_due = min(destination.rate_due, time.monotonic() + AGAIN_SECONDS * self._random.uniform(0.5, 1.5))
        else:
            self._note_burst(name, destination, burst)
        finally:
            self._bursting = False

    def _note_burst(self, name: str, destination: Destination, burst: Burst) -> None:
        if self._destinations.get(name) is not destination:
            return
        series = self.series[name]
        again = time.monotonic() + CONFIRM_SECONDS * self._random.uniform(0.8, 1.2)
        if burst.limited and not destination.unpaced:
            destination.unpaced, destination.rate_due = True, again  # faster than was thought: once more, as fast as can be
            return
        if burst.limited and not burst.blocked:
            self._note_bound(destination, series, burst.bytes_per_second)
            return
        destination.rate_at = time.monotonic()
        series.bandwidth_at_least, destination.bounds = None, 0
        destination.unpaced, destination.latest = False, burst.bytes_per_second
        disagrees = destination.rate.add(burst.bytes_per_second)
        destination.confirmations = destination.confirmations + 1 if disagrees else 0
        if disagrees and destination.confirmations <= CONFIRMATIONS:
            destination.rate_due = min(destination.rate_due, again)
        series.bandwidth_bytes_per_second = destination.rate.value

    def _note_bound(self, destination: Destination, series: ProbeSeries, bytes_per_second: float) -> None:
        """The train left no faster than it arrived: the link is at least that fast. More than the figure so far, that is no more true."""
        value = destination.rate.value
        if value is None or bytes_per_second >= value * CONFIRMED:
            destination.rate_at = time.monotonic()  # less says nothing for the figure: it may have become too high since
        if value is not None and bytes_per_second <= value * FASTER:
            return  # nothing new: a busy processor
        destination.bounds += 1
        if destination.bounds < BOUNDS:
            destination.rate_due = min(destination.rate_due, time.monotonic() + CONFIRM_SECONDS)
            return
        destination.rate = _rate()
        series.bandwidth_bytes_per_second = None
        series.bandwidth_at_least = max(bytes_per_second, series.bandwidth_at_least or 0.0)

    def _forget(self, name: str) -> None:
        destination = self._destinations.pop(name, None)
        self.series.pop(name, None)
        if destination is not None:
            self._spawn(destination.client.close())

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._visits.add(task)
        task.add_done_callback(self._visits.discard)
