"""Measures the peers whose turn it is, and keeps the figures that are served."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Final

from hyperscale.agent.peers import Peer
from hyperscale.agent.probe_client import PINGS, Burst, Client, PeerError, Trips
from hyperscale.agent.probe_metrics import Series
from hyperscale.agent.probe_schedule import FAR_ROUND_SECONDS, Cadence, Targets, cadence, targets
from hyperscale.agent.probe_server import RESERVE_BYTES, Busy, train_bytes
from hyperscale.agent.probe_settings import LinkSettings
from hyperscale.agent.probe_smooth import Smoother
from hyperscale.agent.probe_socket import ECHO_BYTES, Datagrams, Purse
from hyperscale.agent.probe_train import IP_BYTES, PACKET_BYTES, packets
from hyperscale.agent.tokens import TokenError, TokenFile

LOGGER: Final = logging.getLogger("hyperscale.agent.links")
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
MAX_DESTINATIONS: Final = 256
IDLE_SECONDS: Final = 120.0


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

    def __init__(self, name: str, settings: LinkSettings, tokens: TokenFile, datagrams: Datagrams, purse: Purse, busy: Busy) -> None:
        """busy: whether this node's training communicates right now."""
        self.series: dict[str, Series] = {}
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
        found = {peer.name: peer for peer in peers}
        if found == self.peers:
            return
        gone = [name for name, peer in self.peers.items() if found.get(name) != peer]
        self.peers, self._round = found, -1
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
        number = int(time.time() // FAR_ROUND_SECONDS)
        if number == self._round:
            return
        self._round = number
        groups = {name: peer.group for name, peer in self.peers.items()}
        groups.setdefault(self.name, "")
        self._targets = targets(self.name, groups, number)
        for name in (*self._targets.near, *self._targets.far):
            if name not in self._destinations:
                client = Client(self.name, self.peers[name], self._tokens, self._datagrams, self._purse)
                start = time.monotonic()
                self._destinations[name] = Destination(client, trip_due=start, rate_due=start + self._random.uniform(0.2, 2.0))

    def _expire(self, now: float) -> None:
        """Figures that nobody renewed are no figures; destinations of former rounds go, the oldest first where there are too many."""
        current = {*self._targets.near, *self._targets.far}
        pace = self._cadence()
        for name, destination in tuple(self._destinations.items()):
            series = self.series.get(name)
            keep = self._settings.keep_seconds if name not in self._targets.near else 30.0 + 4.0 * pace.burst_seconds
            if series is not None and now - destination.rate_at > keep:
                series.bandwidth_bytes_per_second = series.bandwidth_at_least = None
            if series is not None and now - destination.trip_at > max(30.0, keep):
                series.latency_seconds = None
            if name not in current and not destination.visiting:
                idle = now - destination.trip_at
                if idle > self._settings.keep_seconds:
                    self._forget(name)
                elif idle > IDLE_SECONDS and destination.client.open:
                    self._spawn(destination.client.close())
        if len(self._destinations) > MAX_DESTINATIONS:
            old = sorted((d.trip_at, name) for name, d in self._destinations.items() if name not in current)
            for _, name in old[: len(self._destinations) - MAX_DESTINATIONS]:
                self._forget(name)

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
        except (PeerError, TokenError) as error:
            LOGGER.debug("link probe: %s: %s", name, error)
            trips = Trips((), 1)
        finally:
            destination.visiting = False
        self._note_trips(name, destination, trips)

    def _note_trips(self, name: str, destination: Destination, trips: Trips) -> None:
        if self._destinations.get(name) is not destination:
            return
        series = self.series.setdefault(name, Series())
        series.sent += trips.sent
        series.lost += trips.sent - len(trips.seconds)
        series.bytes += trips.sent * ECHO_BYTES // 2
        for seconds in trips.seconds:
            series.observe(seconds)
        if trips.median is None:
            destination.misses += trips.sent > 0
            if destination.misses >= MISSES:
                series.latency_seconds = series.bandwidth_bytes_per_second = series.bandwidth_at_least = None
                destination.trip_due = max(destination.trip_due, time.monotonic() + 5.0)
            return
        destination.misses = 0
        destination.trip_at = time.monotonic()
        if destination.trip.add(trips.median) and destination.trip.count > 1:
            destination.rate_due = min(destination.rate_due, time.monotonic() + CONFIRM_SECONDS)
        value = destination.trip.value
        series.latency_seconds = None if value is None else value / 2

    async def _burst(self, name: str, destination: Destination, every: float) -> None:
        destination.rate_due = time.monotonic() + every * self._random.uniform(0.9, 1.1)
        known = destination.latest
        try:
            wait = self._purse.seconds_until(train_bytes(packets(known)), RESERVE_BYTES)
            await asyncio.sleep(min(wait, every))
            burst = await destination.client.burst(known, paced=not destination.unpaced, reserve=RESERVE_BYTES)
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
        series = self.series.setdefault(name, Series())
        series.bytes += burst.packets * (PACKET_BYTES + IP_BYTES)
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

    def _note_bound(self, destination: Destination, series: Series, bytes_per_second: float) -> None:
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
