"""Settings of one agent, read once from the environment at the border and passed down as a value."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Annotated, Final, Literal, TypeVar
from urllib.parse import urlsplit

import msgspec

Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=3600)]
Settings = TypeVar("Settings", bound=msgspec.Struct)

PREFIX: Final = "HYPERSCALE_AGENT_"
DOWNWARD: Final = {"node": "NODE_NAME", "namespace": "POD_NAMESPACE", "pod_ip": "POD_IP"}
"""Fields that the downward API gives, under its customary names."""


class AgentSettings(msgspec.Struct, frozen=True):
    """How this agent runs."""

    node: Annotated[str, msgspec.Meta(max_length=253)] = ""
    """Name of the node in Kubernetes; the label of every series."""

    namespace: str = ""
    """Namespace of the agents."""

    pod_ip: str = ""
    """Address of this pod, by which the other agents find it."""

    metrics_port: Port = 9465
    """/metrics, /healthz and /readyz."""

    probe_port: Port = 9466
    """Where the link probe listens."""

    gpu: Literal["Auto", "Always", "Never"] = "Auto"
    """Whether GPU series are served; Auto leaves them to a DCGM exporter that answers at `dcgm_url`."""

    dcgm_url: str = ""
    """Metrics of this node's DCGM exporter, e.g. http://10.0.0.7:9400/metrics; empty: there is none."""

    interval_seconds: Seconds = 10.0
    """From one reading of the GPUs to the next: what the operator itself asks for no oftener."""

    nvml_deadline_seconds: Seconds = 5.0
    """A reading that takes longer counts as stalled: its GPUs' series are gone until it returns."""

    retry_seconds: Seconds = 30.0
    """From one attempt to find a driver to the next; a driver may be installed after the agent."""


class AgentSettingsError(ValueError):
    """A variable cannot be read; the message names it and says what to write."""


def from_environment(environment: Mapping[str, str]) -> AgentSettings:
    """Settings from HYPERSCALE_AGENT_<FIELD>, and from NODE_NAME, POD_NAMESPACE, POD_IP; raises AgentSettingsError naming the variable."""
    settings = converted(environment, AgentSettings, _EXAMPLE)
    field, problem = _fault(settings)
    if field:
        raise refused(field, f"{str(getattr(settings, field))[:200]!r} {problem}", _EXAMPLE)
    return settings


def converted(environment: Mapping[str, str], kind: type[Settings], example: Settings) -> Settings:
    """The fields of `kind` from their variables; raises AgentSettingsError naming the variable, with what `example` has there."""
    given = {field.name: raw for field in msgspec.structs.fields(kind) if (raw := environment.get(variable(field.name)))}
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        field = str(error).rpartition("$.")[2].rstrip("`")
        raise refused(field, str(error).partition(" - ")[0], example) from error


def refused(field: str, problem: str, example: msgspec.Struct) -> AgentSettingsError:
    """The error that names a field's variable, what is wrong with it, and what to write."""
    return AgentSettingsError(f"{variable(field)}: {problem}; write e.g. {getattr(example, field)}")


def _fault(settings: AgentSettings) -> tuple[str, str]:
    """The first field that holds what cannot be, and what is wrong with it; two empty texts where all is well."""
    if not _WORD.fullmatch(settings.node):
        return "node", "is no name of a node"
    if settings.namespace and not is_dns_label(settings.namespace):
        return "namespace", "is no name of a namespace"
    if settings.pod_ip and not is_address(settings.pod_ip):
        return "pod_ip", "is no address of a pod"
    if settings.probe_port == settings.metrics_port:
        return "probe_port", "is the port of /metrics already"
    if settings.dcgm_url and not is_http_url(settings.dcgm_url):
        return "dcgm_url", "is no URL"
    return "", ""


def variable(field: str) -> str:
    """The environment variable of a field."""
    return DOWNWARD.get(field, PREFIX + field.upper())


def is_http_url(text: str) -> bool:
    """Whether `text` is an http or https URL with a host and a port that can be."""
    try:
        parts = urlsplit(text)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False


def is_address(text: str) -> bool:
    """Whether `text` is an IP address of a single machine."""
    try:
        return not ipaddress.ip_address(text).is_multicast
    except ValueError:
        return False


def is_dns_label(text: str) -> bool:
    """Whether `text` can name a namespace or a Service."""
    return len(text) <= 63 and _DNS_LABEL.fullmatch(text) is not None


_WORD: Final = re.compile(r"[^\s\x00-\x1f\x7f]*")
_DNS_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_EXAMPLE: Final = AgentSettings(node="node-a", namespace="hyperscale-system", pod_ip="10.0.0.7", dcgm_url="http://10.0.0.7:9400/metrics")
