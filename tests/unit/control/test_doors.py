"""The ports for probes and metrics: a client that holds connections to them without a request is cut, and others are served."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from e2e.cluster.ports import free_ports
from hyperscale.control.telemetry import listener
from hyperscale.control.telemetry.metrics import Telemetry, TelemetryServer


async def test_silent_connections_are_cut_and_others_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "STRANGER_SECONDS", 0.2)
    health, metrics = free_ports(2)
    server = TelemetryServer(Telemetry(), lambda: "", lambda: "")
    await server.start(health, metrics)
    try:
        streams = [
            await asyncio.open_connection("127.0.0.1", port) for port in (health, metrics) for _ in range(2 * listener.MAX_STRANGERS)
        ]
        async with asyncio.timeout(20):
            ended = await asyncio.gather(*(reader.read() for reader, _ in streams), return_exceptions=True)
        assert all(each == b"" or isinstance(each, ConnectionError) for each in ended)
        for _, writer in streams:
            writer.close()
        async with aiohttp.ClientSession() as session:
            for url in (f"http://127.0.0.1:{health}/healthz", f"http://127.0.0.1:{metrics}/metrics"):
                async with session.get(url) as got:
                    assert (got.status, got.headers["Connection"]) == (200, "close")
    finally:
        await server.stop()
