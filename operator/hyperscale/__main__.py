"""`python -m hyperscale`: take the Lease, then watch; leave when told to, or when the Lease is lost."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import time
import uuid
from functools import partial
from pathlib import Path

from hyperscale.util.extras import required
from hyperscale.util.json_logging import configure_logging

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    # What history teaches is fitted in this process: small matrices take ten times the processor time on several threads. Read when numpy
    # is imported, below.
    os.environ.setdefault(_variable, "1")

with required("operator", "hyperscale"):
    import kopf

    from hyperscale.control.apply.client import ApiClient, ConfigException
    from hyperscale.control.apply.lease import Lease, LeaseThread
    from hyperscale.control.apply.pace import Pace
    from hyperscale.control.controller import handlers
    from hyperscale.control.controller.handlers import register
    from hyperscale.control.controller.manager import Operator
    from hyperscale.control.controller.preview_server import PreviewServer
    from hyperscale.control.controller.reconciler import ReconcileHooks
    from hyperscale.control.milestones import OnMilestone, ignore
    from hyperscale.control.settings import Settings, SettingsError, from_environment
    from hyperscale.control.telemetry.metrics import TelemetryServer

_LOG = logging.getLogger("hyperscale")

EXIT_LEASE_LOST = 3
EXIT_BAD_SETTINGS = 2
BURST_SECONDS = 10.0
LEASE_CONNECTIONS = 2
"""Where one hangs, the other renews."""


async def operate(settings: Settings, on_milestone: OnMilestone = ignore) -> int:
    """Run until a signal or until the Lease is lost; the exit code."""
    stop = asyncio.Event()
    _leave_on_signals(stop)
    watches = 3 + 2 * max(1, len(settings.watch_namespaces))
    client = await ApiClient.connect(settings.request_timeout_seconds, settings.concurrent_reconciles * 2 + watches)
    identity = settings.identity or f"{socket.gethostname()}-{uuid.uuid4().hex[:8]}"
    connect = partial(ApiClient.connect, settings.request_timeout_seconds, LEASE_CONNECTIONS)
    lease = LeaseThread(connect, partial(_lease, settings, identity), _leave_at_once)
    await lease.start()
    pace = Pace(settings.api_requests_per_second, BURST_SECONDS, time.monotonic)
    operator = Operator(client.bounded(pace, lease), settings, ReconcileHooks(lease.confirm, on_milestone))
    server = TelemetryServer(operator.telemetry, operator.liveness, operator.readiness, operator.page)
    await server.start(settings.health_port, settings.metrics_port, settings.topology_port)
    previews = PreviewServer(operator.previews, operator.readiness, Path(settings.preview_key_file))
    if settings.preview_port:
        await previews.start(settings.preview_port)
    try:
        return await _hold_and_work(operator, lease, identity, stop)
    finally:
        await lease.close()
        await previews.stop()
        await server.stop()
        await client.close()


def _lease(settings: Settings, identity: str, client: ApiClient) -> Lease:
    return Lease(client, settings.namespace, identity, settings.lease_duration_seconds, settings.lease_renew_seconds, time.monotonic)


def _leave_at_once() -> None:
    """Without waiting for an event loop that may be busy."""
    _LOG.error("the Lease is lost: leaving at once, so that no two operators act")
    os._exit(EXIT_LEASE_LOST)


async def _hold_and_work(operator: Operator, lease: LeaseThread, identity: str, stop: asyncio.Event) -> int:
    stopping = asyncio.create_task(stop.wait())
    acquiring = asyncio.create_task(lease.acquire())
    await asyncio.wait({stopping, acquiring}, return_when=asyncio.FIRST_COMPLETED)
    if stop.is_set():
        acquiring.cancel()
        return 0
    lease.hold()
    registry = kopf.OperatorRegistry()
    register(registry, operator)
    handlers.read_from(operator.feed)
    started = asyncio.Event()
    watching = asyncio.create_task(
        kopf.operator(
            registry=registry,
            identity=handlers.identity(identity),
            standalone=True,
            clusterwide=True,  # which namespaces are served is the feed's affair
            stop_flag=stop,
            ready_flag=started,
        )
    )
    signals = asyncio.create_task(_take_signals_back(started, stop))
    working = asyncio.create_task(operator.run())
    await asyncio.wait({stopping, watching, working}, return_when=asyncio.FIRST_COMPLETED)
    stop.set()
    lease.let_go()
    for task in (signals, working):
        task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.wait({watching, working}, timeout=8)
    for task in (watching, working):
        if task.done() and not task.cancelled() and task.exception() is not None:
            _LOG.error("the operator failed", exc_info=task.exception())
            return 1
    return 0


def _leave_on_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)


async def _take_signals_back(started: asyncio.Event, stop: asyncio.Event) -> None:
    """Once kopf has put its own handlers in place of ours: they would end its watches at once, but our passes only five seconds later."""
    await started.wait()
    _leave_on_signals(stop)


def main(on_milestone: OnMilestone = ignore) -> int:
    """Entry point; one line on stderr and exit code 2 for settings that cannot be read."""
    try:
        settings = from_environment(os.environ)
    except SettingsError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_BAD_SETTINGS
    configure_logging()
    try:
        return asyncio.run(operate(settings, on_milestone))
    except (OSError, ConfigException) as error:  # a port that is taken, no API server to be found
        sys.stderr.write(f"hyperscale: {error}\n")
        return EXIT_BAD_SETTINGS


if __name__ == "__main__":
    sys.exit(main())
