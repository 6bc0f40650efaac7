"""Whether this node's training communicates right now, where its workers say so."""

from __future__ import annotations

import asyncio
import http.client
from typing import Final
from urllib.parse import urlsplit

POLL_SECONDS: Final = 2.0
DEADLINE_SECONDS: Final = 1.0
MAX_BODY_BYTES: Final = 256 * 1024
GAUGE: Final = "hyperscale_training_phase_seconds"
WAITING: Final = frozenset({"halo", "fetch", "allreduce"})
"""Phases of a worker's epoch in which it waits for others; docs/explanation/training.md names them all."""
BUSY_SHARE: Final = 0.5
"""From this part of an epoch on that is spent talking, a train would most likely meet it."""


class Quiet:
    """Asks the workers' metrics every now and then."""

    def __init__(self, urls: tuple[str, ...]) -> None:
        """urls: metrics of this node's training workers; none: nothing is known, and trains run."""
        self._urls = urls
        self._busy = False

    def busy(self) -> bool:
        """True where a worker of this node says that it spends most of its time communicating."""
        return self._busy

    async def run(self) -> None:
        """For ever."""
        while self._urls:
            shares = [await asyncio.to_thread(_share, url) for url in self._urls]
            self._busy = max(shares) >= BUSY_SHARE
            await asyncio.sleep(POLL_SECONDS)


def share(text: str) -> float:
    """Part of the last epoch spent in phases of communication, from a worker's metrics; 0 where they do not say."""
    talking = total = 0.0
    for line in text.splitlines():
        if not line.startswith(GAUGE + "{"):
            continue
        labels, _, value = line.rpartition(" ")
        phase = labels.partition('phase="')[2].partition('"')[0]
        try:
            seconds = float(value)
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):
            total += seconds
            talking += seconds if phase in WAITING else 0.0
    return talking / total if total > 0 else 0.0


def _share(url: str) -> float:
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=DEADLINE_SECONDS)
    try:
        connection.request("GET", parts.path or "/")
        response = connection.getresponse()
        return share(response.read(MAX_BODY_BYTES).decode(errors="replace")) if response.status == 200 else 0.0
    except (OSError, http.client.HTTPException, ValueError):  # ValueError: a name that no name server can be asked for
        return 0.0  # no worker runs there now
    finally:
        connection.close()
