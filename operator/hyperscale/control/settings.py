"""Settings of one operator process, read once from the environment at the border and passed down as a value."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from hyperscale.observe.prometheus.credentials import PLAIN, Access, from_variables


class Settings(msgspec.Struct, frozen=True):
    """How this process runs. What concerns plans is in PlannerPolicy, not here."""

    namespace: str = "hyperscale-system"
    """Where the Lease lives."""

    identity: str = ""
    """Holder written into the Lease. In a cluster the pod's name, so that a restarted container need not wait for its own Lease to run out.
    Empty makes one up for each process."""

    watch_namespaces: tuple[str, ...] = ()
    """Namespaces to serve; empty serves all."""

    prometheus_url: str = ""
    """Base URL; empty plans from labels only, and says so."""

    prometheus_access: Access = PLAIN
    """Authority, credentials and tenant; a variable for each of its fields, such as HYPERSCALE_PROMETHEUS_CA_FILE."""

    metrics_port: int = 9090
    """Prometheus endpoint of the operator itself."""

    topology_port: int = 0
    """A page with a map of the cluster, on the loopback only. `kubectl port-forward` reaches it, and who may do that is RBAC's matter.
    0 serves none."""

    preview_port: int = 0
    """What the next plan depends on, for `hyperscale plan`, on all addresses; every request must show the key. 0 serves none."""

    preview_key_file: str = ""
    """File with that key, a mounted Secret."""

    preview_service: str = ""
    """Name of the Service in `namespace` before `preview_port`, with the port's name `preview`; the ClusterTopology says it to
    `hyperscale plan`."""

    preview_secret: str = ""
    """Name of the Secret in `namespace` that holds the key under `key`."""

    health_port: int = 8080
    """/healthz and /readyz."""

    metrics_poll_seconds: float = 10.0
    """Two thirds of the usual 15 s scrape: a plan sees a sample at most one scrape old."""

    topology_seconds: float = 60.0
    """Between two writes of the ClusterTopology on average; it is written only when it tells something new. One of 5,000 nodes costs the
    API server a second or two."""

    progress_poll_seconds: float = 10.0
    """How often running jobs are asked how far they are, all in one query; their status changes no oftener."""

    history_url: str = ""
    """Where finished runs are kept, as SQLAlchemy writes it: sqlite:////var/lib/hyperscale/history.sqlite or postgresql://…. Empty keeps
    none, and predictions stay uncorrected."""

    history_min_runs: int = 5
    """Finished runs of an architecture on a mix of GPU products before predictions are corrected by them: fewer say little of the next."""

    history_days: float = 730.0
    """How long a finished run is kept; 0 keeps runs for ever."""

    resync_seconds: float = 60.0
    """Every job is reconciled this often even when no event came: events can be lost (nolar/kopf#585)."""

    lease_duration_seconds: float = 15.0
    """client-go's default for leader election."""

    lease_renew_seconds: float = 3.0
    """Between two renewals; a holder that has not renewed for two thirds of the duration leaves, before others may take the Lease."""

    api_requests_per_second: float = 200.0
    """To the API server in the long run, watches and the Lease aside; ten seconds' worth may come at once. 0 sets no limit."""

    request_timeout_seconds: float = 10.0
    """One API request; a frozen load balancer must not stop the operator."""

    concurrent_reconciles: int = 16
    """Jobs reconciled at once; bounds API load and memory."""

    container_memory_bytes: int = 0
    """Memory limit of the container, which operator and planner share; 0 where it is not known."""

    planner_memory_bytes: int = 0
    """Memory that the planner process may write. At the limit the plan fails and the operator keeps running. `0` takes PLANNER_SHARE of
    the container's limit, and sets no limit where that is not known."""

    weights_folder: str = ""
    """Weights that `hyperscale learn` published, e.g. a mounted volume; what it lacks, and all without one, comes with the package."""

    worker_image: str = "hyperscale/worker:0.1.0"
    """Image of launcher and workers where the job's template names none."""


PLANNER_SHARE = 0.6
"""Part of the container's memory that the planner may write. With 5,000 nodes the planner held at most 830 MiB, the operator 425 MiB."""

EVALUATION_SHARE = 0.375
"""Part of the container's memory beyond the planner's that an evaluation may write: 230 MiB by default. A plan of 1,000 nodes takes at most
224 MiB, one of a few nodes 64 MiB."""

EVALUATION_MEMORY_BYTES = 384 * 2**20
"""That an evaluation may write where the container's limit is not known."""

RENEW_DEADLINE_SHARE = 2 / 3
"""Of the Lease's duration, in which its holder must have renewed it (client-go: 10 s of 15 s)."""

MIN_OPERATOR_BYTES = 200 * 2**20
"""Least memory for the operator itself: it takes half of this with a few nodes."""


class SettingsError(ValueError):
    """A variable cannot be read; the message names it and says what to write."""


PREFIX = "HYPERSCALE_"


def planner_limit_bytes(settings: Settings) -> int:
    """Return the memory limit of the planner process; 0 for none."""
    return settings.planner_memory_bytes or int(settings.container_memory_bytes * PLANNER_SHARE)


def evaluation_limit_bytes(settings: Settings) -> int:
    """Return the memory limit of an evaluation, which runs next to operator and planner."""
    left = settings.container_memory_bytes - planner_limit_bytes(settings)
    return int(left * EVALUATION_SHARE) if settings.container_memory_bytes else EVALUATION_MEMORY_BYTES


def from_environment(environment: Mapping[str, str]) -> Settings:
    """Settings from variables named HYPERSCALE_<FIELD>; raises SettingsError naming the variable."""
    given: dict[str, object] = {}
    for info in msgspec.structs.fields(Settings):
        if info.type is Access:
            continue
        raw = environment.get(PREFIX + info.name.upper())
        if raw is None:
            continue
        given[info.name] = tuple(part.strip() for part in raw.split(",") if part.strip()) if info.name == "watch_namespaces" else raw
    try:
        settings = msgspec.convert(given, Settings, strict=False)
    except msgspec.ValidationError as error:
        field = str(error).rpartition("$.")[2].rstrip("`")
        raise SettingsError(f"{PREFIX}{field.upper()}: {str(error).partition(' - ')[0]}") from error
    most_renew = RENEW_DEADLINE_SHARE * settings.lease_duration_seconds
    if not 0 < settings.lease_renew_seconds < most_renew:
        raise SettingsError(
            f"{PREFIX}LEASE_RENEW_SECONDS: {settings.lease_renew_seconds:g} s is not above 0 and below {most_renew:g} s, two thirds of "
            f"{PREFIX}LEASE_DURATION_SECONDS; write at most a third of the duration"
        )
    access = from_variables(environment)
    if (fault := access.fault()) is not None:
        raise SettingsError(f"{PREFIX}PROMETHEUS_{fault[0].upper()}: {fault[1]}")
    most = settings.container_memory_bytes - MIN_OPERATOR_BYTES
    if settings.container_memory_bytes and planner_limit_bytes(settings) > most:
        raise SettingsError(
            f"{PREFIX}PLANNER_MEMORY_BYTES: {planner_limit_bytes(settings)} bytes do not fit, with the operator, into the container limit "
            f"of {settings.container_memory_bytes}: write at most {most}, or raise resources.limits.memory"
        )
    return replace(settings, prometheus_access=access)
