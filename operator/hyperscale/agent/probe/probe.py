"""The link probe of one agent: whom to measure, when, and what it comes to. `run` is all that the agent's process needs."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry

from hyperscale.agent.agent_settings import AgentSettings, AgentSettingsError
from hyperscale.agent.probe import probe_settings
from hyperscale.agent.probe.peers import Peer, PeersError
from hyperscale.agent.probe.peers_kube import KubePeers
from hyperscale.agent.probe.probe_metrics import LinkCollector
from hyperscale.agent.probe.probe_quiet import Quiet
from hyperscale.agent.probe.probe_rounds import Rounds
from hyperscale.agent.probe.probe_server import ProbeServer, train_bytes
from hyperscale.agent.probe.probe_settings import LinkSettings
from hyperscale.agent.probe.probe_socket import Datagrams, SocketBudget
from hyperscale.agent.probe.probe_train import MAX_BYTES, PACKET_BYTES, SKIP_BYTES
from hyperscale.agent.probe.tokens import TokenFile

LOGGER: Final = logging.getLogger("hyperscale.agent.probe.probe")
RETRY_SECONDS: Final = 10.0
PEERS_SECONDS: Final = 15.0
PEERS_SECONDS_PER_NODE: Final = 0.1
"""All agents list all endpoints: the more there are, the more seldom each asks."""
CAPACITY_TRAINS: Final = 2


async def run(settings: AgentSettings, registry: CollectorRegistry, environment: Mapping[str, str] | None = None) -> None:
    """Measure links for ever. Never raises but when cancelled: what is wrong is logged, and tried again."""
    environment = os.environ if environment is None else environment
    said = ""
    while True:
        try:
            chosen = probe_settings.from_environment(environment)
            if chosen.links == "off" or not settings.node:
                LOGGER.info("link probe: off%s", "" if chosen.links == "off" else ", NODE_NAME is not set")
                await asyncio.Event().wait()
            await _probe(settings, chosen, registry, environment)
        except (AgentSettingsError, PeersError, OSError) as error:
            if str(error) != said:
                LOGGER.error("link probe: %s", error)
            said = str(error)
        except Exception:  # the GPU half of the agent lives on whatever happens here
            LOGGER.exception("link probe: broken off")
        await asyncio.sleep(RETRY_SECONDS)


async def _probe(settings: AgentSettings, chosen: LinkSettings, registry: CollectorRegistry, environment: Mapping[str, str]) -> None:
    """One life of the probe; raises what `run` logs."""
    tokens = TokenFile(Path(chosen.token_file))
    largest = train_bytes((SKIP_BYTES + MAX_BYTES) // PACKET_BYTES + 1)
    purse = SocketBudget(chosen.budget_bytes_per_second, max(CAPACITY_TRAINS * largest, chosen.budget_bytes_per_second))
    host = chosen.link_address or settings.pod_ip or "0.0.0.0"  # noqa: S104 - an agent is there to be reached
    source = _source(settings, chosen, environment)
    datagrams = Datagrams(host, settings.probe_port, purse)
    quiet = Quiet(chosen.training())
    server = ProbeServer(settings.node, tokens, datagrams, purse, quiet.busy)
    rounds = Rounds(settings.node, chosen, tokens, datagrams, purse, quiet.busy)
    collector = LinkCollector(settings.node, rounds, server.refused)
    registry.register(collector)
    try:
        await server.start(host, datagrams.port)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_watch(source, rounds, collector, purse))
            tasks.create_task(rounds.run())
            tasks.create_task(quiet.run())
    finally:
        registry.unregister(collector)
        await rounds.close()
        await server.close()
        datagrams.close()


async def _watch(source: KubePeers | tuple[Peer, ...], rounds: Rounds, collector: LinkCollector, purse: SocketBudget) -> None:
    """Keep the list of peers and the facts about the probe itself current."""
    asked, alone_seconds = -float("inf"), 1.0
    while True:
        wait = max(PEERS_SECONDS, PEERS_SECONDS_PER_NODE * len(rounds.peers)) if rounds.peers else alone_seconds
        if time.monotonic() - asked >= wait:
            asked, alone_seconds = time.monotonic(), min(2.0 * alone_seconds, PEERS_SECONDS) if not rounds.peers else 1.0
            try:
                rounds.replace(source if isinstance(source, tuple) else await asyncio.to_thread(source.read))
            except (PeersError, OSError) as error:
                LOGGER.warning("link probe: the list of agents cannot be read, the last one stays: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
        collector.peers, collector.spent_bytes = len(rounds.peers.keys() - {rounds.name}), purse.spent_bytes
        await asyncio.sleep(1.0)


def _source(settings: AgentSettings, chosen: LinkSettings, environment: Mapping[str, str]) -> KubePeers | tuple[Peer, ...]:
    if chosen.peers:
        return chosen.static_peers()
    return KubePeers(environment, settings.namespace, chosen.service, chosen.labels(), settings.probe_port)
