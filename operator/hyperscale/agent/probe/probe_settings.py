"""Settings of the link probe, read once from the environment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Final, Literal

import msgspec

from hyperscale.agent.agent_settings import PREFIX, AgentSettingsError, converted, is_address, is_dns_label, is_http_url, refused
from hyperscale.agent.probe.peers import Peer, PeersError, parse

GROUP_LABELS: Final = (
    "fabric.topograph.run/tier-0",
    "network.topology.nvidia.com/leaf",
    "topology.k8s.aws/network-node-layer-3",
    "cloud.google.com/gce-topology-subblock",
    "oci.oraclecloud.com/host.rack_id",
    "cloud.provider.com/topology-rack",
    "topology.kubernetes.io/zone",
)
"""The first that a node has names its group: the switch next to it, else its zone."""


class LinkSettings(msgspec.Struct, frozen=True):
    """How links are measured."""

    links: Literal["on", "off"] = "on"
    """Whether links are measured at all."""

    token_file: str = "/var/run/hyperscale/link/token"  # noqa: S105 - a path
    """File of the shared token, a mounted Secret; read again when it changes."""

    link_address: str = ""
    """Address to listen on; empty: that of the pod, else every IPv4 address."""

    budget_bytes_per_second: Annotated[float, msgspec.Meta(ge=10_000, le=1e10)] = 1_000_000.0
    """What probing may cost this node, sent and received together."""

    peers: str = ""
    """name=host:port or name@group=host:port, separated by commas; empty: the endpoints of `service`."""

    service: str = "hyperscale-agent"
    """Headless Service of the agents, in their namespace."""

    group_labels: str = ",".join(GROUP_LABELS)
    """Node labels that name a node's group, narrowest first; empty: its zone."""

    keep_seconds: Annotated[float, msgspec.Meta(ge=30, le=86400)] = 900.0
    """How long a figure of a sampled pair is served after it was last measured."""

    training_urls: str = ""
    """Metrics of this node's training workers, separated by commas; no trains while they communicate."""

    def static_peers(self) -> tuple[Peer, ...]:
        """Peers that `peers` lists."""
        return parse(self.peers)

    def labels(self) -> tuple[str, ...]:
        """Keys in `group_labels`."""
        return tuple(part.strip() for part in self.group_labels.split(",") if part.strip())

    def training(self) -> tuple[str, ...]:
        """URLs in `training_urls`."""
        return tuple(part.strip() for part in self.training_urls.split(",") if part.strip())


def from_environment(environment: Mapping[str, str]) -> LinkSettings:
    """Settings from HYPERSCALE_AGENT_<FIELD>; raises AgentSettingsError naming the variable."""
    settings = converted(environment, LinkSettings, _EXAMPLE)
    try:
        settings.static_peers()
    except PeersError as error:
        raise refused("peers", str(error), _EXAMPLE) from error
    field, problem = _fault(settings)
    if field:
        raise refused(field, problem, _EXAMPLE)
    return settings


def check_peers_known(settings: LinkSettings, namespace: str, environment: Mapping[str, str]) -> None:
    """Raises AgentSettingsError where links are to be measured, and neither a list nor a cluster tells whose."""
    listed = settings.static_peers()
    if settings.links == "off" or listed or (environment.get("KUBERNETES_SERVICE_HOST") and namespace and not settings.peers.strip()):
        return
    problem = "names no peer" if settings.peers else "missing, and there is no cluster here (KUBERNETES_SERVICE_HOST, POD_NAMESPACE)"
    raise AgentSettingsError(f"{refused('peers', problem, _EXAMPLE)}, or set {PREFIX}LINKS=off to measure no links")


def _fault(settings: LinkSettings) -> tuple[str, str]:
    """The first field that holds what cannot be, and what is wrong with it; two empty texts where all is well."""
    if settings.link_address and not is_address(settings.link_address):
        return "link_address", f"{settings.link_address[:200]!r} is no address of a machine"
    if not is_dns_label(settings.service):
        return "service", f"{settings.service[:200]!r} is no name of a Service"
    label = next((label for label in settings.labels() if not _LABEL.fullmatch(label)), None)
    if label is not None:
        return "group_labels", f"{label[:200]!r} is no key of a label"
    url = next((url for url in settings.training() if not is_http_url(url)), None)
    return ("", "") if url is None else ("training_urls", f"{url[:200]!r} is no URL")


_LABEL: Final = re.compile(r"([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_EXAMPLE: Final = LinkSettings(
    peers="node-a=10.0.0.7:9466,node-b@rack-2=10.0.0.8:9466",
    link_address="10.0.0.7",
    group_labels="topology.kubernetes.io/zone",
    training_urls="http://10.0.0.7:9464/metrics",
)
