"""`python -m hyperscale.agent`: GPU readings and the link probe of one node behind /metrics; --once and --compare for people."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from hyperscale.util.extras import required
from hyperscale.util.json_logging import configure_logging

with required("agent", "hyperscale.agent"):
    import msgspec
    from prometheus_client import CollectorRegistry, generate_latest

    from hyperscale.agent.agent_server import AgentServer, HttpAnswer, metrics
    from hyperscale.agent.agent_settings import AgentSettings, AgentSettingsError, from_environment, variable
    from hyperscale.agent.exposition import render
    from hyperscale.agent.gpus.exposition_gpus import families
    from hyperscale.agent.gpus.nvml_dcgm import Watch
    from hyperscale.agent.gpus.nvml_poll import Poller
    from hyperscale.agent.probe import probe_settings
    from hyperscale.agent.state import DriverCondition

_LOG = logging.getLogger("hyperscale.agent")

EXIT_NOT_READ: Final = 1
EXIT_BAD_SETTINGS: Final = 2
_RESTART_SECONDS: Final = 10.0


class NodeAgent:
    """One agent: what it measures and what it serves."""

    def __init__(self, settings: AgentSettings) -> None:
        self.settings = settings
        self.registry = CollectorRegistry()
        """Of the link probe; GPU readings are rendered straight from the last one."""
        self.poller = _poller(settings)
        self.watch = Watch(self.poller, settings)
        self.server = AgentServer({"/metrics": metrics(self.text), "/healthz": self.health, "/readyz": self.readiness})

    def text(self) -> str:
        """The exposition text of everything known now."""
        poller = self.poller
        own = families(poller.latest, self.settings.node, poller.state, poller.seconds, figures=not poller.left_to_dcgm)
        return render(own) + generate_latest(self.registry).decode()

    def health(self) -> HttpAnswer:
        """Alive while the event loop is: a driver that hangs is no reason to restart, a restart does not fix it."""
        return HttpAnswer(200, f"{self.poller.state.line}\n")

    def readiness(self) -> HttpAnswer:
        """Ready once the first look at the GPUs is over, whatever it found."""
        state = self.poller.state
        return HttpAnswer(503 if state.condition is DriverCondition.STARTING else 200, f"{state.line}\n")

    async def run(self) -> int:
        """Serve until a signal; the exit code."""
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await self.server.start(self.settings.metrics_port)
        await self.watch.look()
        tasks = [asyncio.create_task(_for_ever(name, work)) for name, work in self._works().items()]
        await stop.wait()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=5)
        await self.server.stop()
        return 0

    def _works(self) -> dict[str, Callable[[], Awaitable[None]]]:
        from hyperscale.agent.probe import probe  # here, because --once and --compare do without it

        return {
            "GPU readings": self.poller.run,
            "DCGM check": self.watch.run,
            "link probe": lambda: probe.run(self.settings, self.registry),
        }


async def _for_ever(name: str, work: Callable[[], Awaitable[None]]) -> None:
    """Keep one part of the agent going: its failure must not end the others."""
    while True:
        try:
            await work()
            return
        except Exception:
            _LOG.exception("%s failed; again in %.0f s", name, _RESTART_SECONDS)
        await asyncio.sleep(_RESTART_SECONDS)


def _poller(settings: AgentSettings) -> Poller:
    if settings.gpu == "Never":
        return Poller(None, settings, time.monotonic)
    from hyperscale.agent.gpus.nvml import Nvml  # pynvml is 8,000 lines: agents without GPU readings do without

    return Poller(Nvml(), settings, time.monotonic)


async def once(settings: AgentSettings) -> int:
    """Print one exposition text of this machine's GPUs; NVLink rates need two readings, so two are taken."""
    agent = NodeAgent(settings)
    await agent.watch.look()
    await agent.poller.poll()
    if agent.poller.state.condition is DriverCondition.READY:
        await asyncio.sleep(min(1.0, settings.interval_seconds))
        await agent.poller.poll()
    sys.stdout.write(agent.text())
    state = agent.poller.state
    if state.condition in {DriverCondition.READY, DriverCondition.LEFT_TO_DCGM, DriverCondition.OFF}:
        return 0
    sys.stderr.write(f"{state.line}\n")
    return EXIT_NOT_READ


def _settings(environment: Mapping[str, str], *, by_hand: bool) -> AgentSettings:
    """Settings, those of the link probe checked as well; a person's own machine has a name even where no downward API gives one.

    Raises AgentSettingsError.
    """
    settings = from_environment(environment)
    of_links = probe_settings.from_environment(environment)
    if by_hand:
        return msgspec.structs.replace(settings, node=settings.node or socket.gethostname())
    if not settings.node:
        raise AgentSettingsError(f"{variable('node')}: missing; set it from spec.nodeName by the downward API")
    probe_settings.check_peers_known(of_links, settings.namespace, environment)
    return settings


def _arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m hyperscale.agent",
        description=__doc__,
        epilog="example: NODE_NAME=$(hostname) python -m hyperscale.agent --once",
    )
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--once", action="store_true", help="print one exposition text of the GPUs and exit; 1 when they cannot be read")
    only.add_argument("--compare", action="store_true", help="compare the GPU figures with nvidia-smi's and exit; 1 when they differ")
    return parser.parse_args(given)


def main(given: list[str] | None = None) -> int:
    """Entry point; one line on stderr and exit code 2 for settings that cannot be read."""
    arguments = _arguments(given)
    by_hand = arguments.once or arguments.compare
    try:
        settings = _settings(os.environ, by_hand=by_hand)
    except AgentSettingsError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_BAD_SETTINGS
    configure_logging(logging.ERROR if by_hand else logging.INFO)
    if arguments.compare:
        from hyperscale.agent.gpus.nvml_compare import compare

        return compare(sys.stdout)
    try:
        return asyncio.run(once(settings) if arguments.once else NodeAgent(settings).run())
    except OSError as error:  # a port that is taken
        sys.stderr.write(f"{variable('metrics_port')}: {error}; write a port that is free\n")
        return EXIT_BAD_SETTINGS


if __name__ == "__main__":
    sys.exit(main())
