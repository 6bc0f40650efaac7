"""What the checks judge: narrow, plain values as gathered at one moment. Whatever could not be read says why instead. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import msgspec

from hyperscale.doctor.series import SeriesFigure
from hyperscale.model.api.policy import PolicySpec

Json = dict[str, Any]
T = TypeVar("T")


class Unread(msgspec.Struct, frozen=True):
    """Why something could not be read."""

    what: str
    """What was asked for, e.g. `list deployments.apps`."""
    status: int
    """HTTP status; 0 where no answer came."""
    message: str


class ServerFacts(msgspec.Struct, frozen=True):
    """The API server."""

    version: str
    """As it says itself, e.g. v1.34.4."""
    answered_seconds: float
    ahead_seconds: float | None = None
    """Its clock minus ours; None where it sent no Date."""
    doubt_seconds: float = 1.0
    """A Date header has whole seconds, and the answer took its time."""


class Right(NamedTuple):
    """One permission, as in authorization.k8s.io/v1 ResourceAttributes."""

    verb: str
    group: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""


class Review(msgspec.Struct, frozen=True):
    """Answers about the rights of one account."""

    account: str
    """`system:serviceaccount:NAMESPACE:NAME`, or `you`."""
    denied: tuple[Right, ...]
    asked: int


class Crd(msgspec.Struct, frozen=True):
    """A CustomResourceDefinition."""

    name: str
    served: tuple[str, ...]
    established: bool
    complaint: str = ""
    """The server's message where it is not established."""
    fields: frozenset[str] = frozenset()
    """Paths of all properties of our own version, e.g. `spec.queue.order`; empty for other groups."""


class WorkloadFacts(msgspec.Struct, frozen=True):
    """A Deployment or DaemonSet."""

    kind: str
    namespace: str
    name: str
    labels: dict[str, str] = {}
    wanted: int = 1
    ready: int = 0
    images: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    """Command and arguments of the first container."""
    environment: dict[str, str] = {}
    """Variables of the first container that are plain text."""
    referenced: dict[str, str] = {}
    """Variables that come from elsewhere, with the place, e.g. `Secret db, key url`."""
    account: str = "default"
    message: str = ""
    """What its conditions complain of."""

    @property
    def place(self) -> str:
        """namespace/name."""
        return f"{self.namespace}/{self.name}"


class PodTrouble(msgspec.Struct, frozen=True):
    """A container that does not get to run."""

    image: str
    reason: str
    """As the kubelet says, e.g. ImagePullBackOff."""
    message: str


class Pod(msgspec.Struct, frozen=True):
    """A pod of ours."""

    namespace: str
    name: str
    node: str = ""
    phase: str = "Pending"
    component: str = ""
    """operator, agent, worker, launcher or "" for one of a job."""
    images: tuple[str, ...] = ()
    troubles: tuple[PodTrouble, ...] = ()
    restarts: int = 0
    ended: str = ""
    """Reason of the last end, e.g. OOMKilled."""


class LeaseFacts(msgspec.Struct, frozen=True):
    """A coordination.k8s.io Lease."""

    namespace: str
    name: str
    holder: str
    silent_seconds: float
    """Since it was renewed, by the API server's clock where that is known."""
    duration_seconds: float = 15.0

    @property
    def fresh(self) -> bool:
        """It has a holder, who renewed it in time; one hung API call is allowed for."""
        return bool(self.holder) and self.silent_seconds <= 2 * self.duration_seconds


class JobFacts(msgspec.Struct, frozen=True):
    """A GNNTrainingJob that has not ended."""

    namespace: str
    name: str
    queue: str = ""
    policy: str = ""
    suspended: bool = False


class Kueue(msgspec.Struct, frozen=True):
    """What is known of Kueue."""

    served: tuple[str, ...] = ()
    """Versions of kueue.x-k8s.io; empty where it is not installed."""
    frameworks: tuple[str, ...] | None = None
    """integrations.frameworks of its configuration; None where it cannot be read."""
    external: tuple[str, ...] = ()
    """integrations.externalFrameworks."""
    queues: tuple[str, ...] | None = None
    """LocalQueues as namespace/name; None where they cannot be read."""


class Ways(NamedTuple):
    """Ways of one kind between the GPUs of a node."""

    pairs: int
    """Ordered pairs of GPUs that have no better one."""
    links: int
    """Sum of their NVLinks; of other kinds each counts 1."""


class Metrics(msgspec.Struct, frozen=True):
    """What Prometheus answered."""

    url: str = ""
    """As shown, without credentials; empty where none is set."""
    way: str = ""
    """How it was asked: `directly`, or `through the API server`."""
    failure: tuple[str, str] | None = None
    """Reason and message where it does not answer at all."""
    ahead_seconds: float | None = None
    """Its clock minus ours."""
    doubt_seconds: float = 0.1
    figures: dict[str, SeriesFigure] = {}
    names: dict[str, int] | None = None
    """Series by metric name, of exporters that are known."""
    targets: tuple[tuple[str, int, int], ...] = ()
    """Scrape job, targets up, targets down."""
    pairs: tuple[int, int] = (0, 0)
    """Ordered pairs of GPU nodes with a latency, and with a bandwidth."""
    linked: frozenset[str] = frozenset()
    """Nodes with at least one measured link."""
    with_series: frozenset[str] = frozenset()
    """Nodes with at least one GPU series."""
    refused: dict[str, float] = {}
    """Link probes that agents refused in the last minutes, by reason."""
    agent_states: dict[str, tuple[str, ...]] = {}
    """Nodes whose GPUs the agent cannot read, by what it says of itself."""
    gpu_states: dict[str, tuple[tuple[str, str], ...]] = {}
    """(node, number of the GPU) of each that an agent cannot read, by the state that it reports."""
    ways: dict[str, dict[str, Ways]] = {}
    """How the GPUs of a node reach each other, by node and the agent's kinds of ways."""
    frozen: tuple[int, int] | None = None
    """GPUs whose power has not moved for long, and GPUs asked; None where not asked."""


class HistoryFacts(msgspec.Struct, frozen=True):
    """Whether the database of finished runs answers."""

    url: str = ""
    """As shown, without credentials."""
    complaint: str = ""
    """Why it does not answer; empty where it does."""


class Unusable(msgspec.Struct, frozen=True):
    """An API object that the operator cannot use as it is."""

    kind: str
    name: str
    """With its namespace, where it has one."""
    message: str
    """Which field, and what is wrong with it."""


class Facts(msgspec.Struct, frozen=True):
    """Everything that the checks judge."""

    version: str
    """Of this command."""
    server: ServerFacts | Unread
    crds: tuple[Crd, ...] | Unread = ()
    workloads: tuple[WorkloadFacts, ...] | Unread = ()
    """All Deployments and DaemonSets that matter here."""
    pods: tuple[Pod, ...] | Unread = ()
    """Of ours."""
    leases: tuple[LeaseFacts, ...] | Unread = ()
    """Operator Leases, ours and mpi-operator's."""
    nodes: tuple[Json, ...] | Unread = ()
    """v1 Nodes, cut down."""
    node_clocks: tuple[tuple[str, float], ...] | Unread = ()
    """Nodes whose heartbeat lies in the API server's future, and how far, seconds."""
    policies: tuple[Json, ...] | Unread = ()
    jobs: tuple[JobFacts, ...] | Unread = ()
    unusable: tuple[Unusable, ...] | Unread = ()
    kueue: Kueue | Unread = Kueue()
    reviews: tuple[Review, ...] | Unread = ()
    mpi_may_resume: bool | None = None
    """Whether mpi-operator may update jobs/status; None where not asked."""
    metrics: Metrics = Metrics()
    history: HistoryFacts = HistoryFacts()
    suggested_prometheus: str = ""
    """A Service that looks like Prometheus, as URL; "" where there is none."""
    policy: PolicySpec = PolicySpec()
    """The one by which jobs without a policyRef are planned; built in where it is missing or broken."""


def or_empty(items: tuple[T, ...] | Unread) -> tuple[T, ...]:
    """What was read; nothing where it could not be."""
    return () if isinstance(items, Unread) else items
