"""What `hyperscale plan` plans from, and its source: the operator's figures, the API server's objects, or a file."""

from __future__ import annotations

import argparse
import dataclasses
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hyperscale.cli import spinner
from hyperscale.cli.documents import display_name
from hyperscale.cli.exit_codes import InputError
from hyperscale.cli.plan import inputs
from hyperscale.cli.plan.inputs import JobInput, note
from hyperscale.model.api.job import JobSpec
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.history.corrections import Corrections
from hyperscale.model.plan import Calibration
from hyperscale.model.planning import AskedSize
from hyperscale.model.preview import PreviewState
from hyperscale.observe.prometheus.credentials import Access
from hyperscale.util.rfc3339 import duration_text

if TYPE_CHECKING:
    from hyperscale.cli.live import LiveCluster
    from hyperscale.cli.plan.plan_history import PlanLessons
    from hyperscale.model.api.topology import TopologyStatus

OPERATOR: Final = "operator"
JOB: Final = "job"
API: Final = "api"
HELD: Final = "GPUs that planned ranks hold before their pods are bound, and the jobs that wait"
CORRECTIONS: Final = "corrections from finished runs"
LOAD: Final = "the load of the GPUs"
LINKS: Final = "measured links"
DETAILS: Final = "labels, taints, processors and memory of the nodes"


@dataclass(frozen=True)
class KnownInputs:
    """Everything that plans are made from."""

    policy: PolicySpec
    snapshot: ClusterSnapshot
    source: str
    """As `PlanFigures.source`."""
    shown: str
    """The same in words, with the age."""
    elapsed_seconds: float = 0.0
    """Since the snapshot was taken; 0 for files, so that the same file gives the same bytes at any time."""
    missing: tuple[str, ...] = ()
    """What the operator knows and this lacks."""
    state: PreviewState | None = None
    """The operator's."""
    cluster: LiveCluster | None = None
    """None for files."""
    lessons: PlanLessons | None = None
    """Of --history, instead of those in the operator's state."""

    @property
    def asked_sizes(self) -> tuple[AskedSize, ...]:
        """See `PlanRequest.asked_sizes`."""
        if self.state is not None:
            return self.state.asked_sizes
        return self.lessons.asked_sizes if self.lessons is not None else ()

    def calibration(self, job: JobSpec, namespace: str) -> tuple[Calibration, ...]:
        """What finished runs taught about a job of a namespace."""
        teacher = self.lessons or self.state
        return teacher.calibration(job, namespace) if teacher is not None else ()

    def corrections(self, job: JobSpec, namespace: str) -> Corrections | None:
        """What finished runs taught the cost model about a job of a namespace."""
        if self.lessons is not None:
            return self.lessons.placement_corrections(job, self.policy, namespace)
        return self.state.placement_corrections(job, namespace) if self.state is not None else None

    def taught_by(self, lessons: PlanLessons | None) -> KnownInputs:
        """The same with the lessons of --history; None: unchanged."""
        if lessons is None:
            return self
        missing = tuple(text for text in self.missing if text != CORRECTIONS)
        return dataclasses.replace(self, lessons=lessons, missing=missing, shown=f"{self.shown}; with {lessons.shown}")


class UnavailableError(Exception):
    """One way to the figures is closed; the message says why."""


def find(arguments: argparse.Namespace, job: JobInput | None = None) -> KnownInputs:
    """A file where one is named, else the operator's own figures, else what the API server has."""
    if getattr(arguments, "snapshot", None) is not None:
        return of_file(arguments, job)
    way = chosen(arguments)
    cluster = inputs.connect(arguments)
    if way != API:
        try:
            return of_operator(cluster, arguments, job)
        except UnavailableError as error:
            if way == OPERATOR:
                raise InputError(f"--from operator: {error}") from None
            note(f"the operator's own figures cannot be read: {error}")
    return of_api(cluster, arguments, job)


def chosen(arguments: argparse.Namespace) -> str | None:
    """The way that the arguments ask for; None where they leave it open. InputError where they contradict each other."""
    asked: str | None = getattr(arguments, "source", None)
    if arguments.prometheus is not None and asked not in (None, API):
        raise InputError(f"--prometheus: is of no use with --from {asked}, which takes the operator's own figures; leave one out")
    inputs.prometheus_access(arguments)  # raises what is wrong with it before anything is asked
    return API if asked is None and inputs.prometheus_url(arguments) else asked


def of_file(arguments: argparse.Namespace, job: JobInput | None) -> KnownInputs:
    """A snapshot from a file, under the policy of a file."""
    access = (f"prometheus_{field}" for field in Access.__struct_fields__)
    for option in ("source", "kubeconfig", "context", "prometheus", *access):
        if getattr(arguments, option) is not None:
            shown = "from" if option == "source" else option.replace("_", "-")
            raise InputError(f"--{shown}: is of no use with --snapshot, which reads no live cluster; leave one out")
    policy = inputs.read_policy(arguments.policy) if arguments.policy else None
    snapshot = inputs.read_snapshot_file(arguments.snapshot)
    if policy is None and job is not None and job.spec.policy_ref is not None:
        name = job.spec.policy_ref.name
        note(f"spec.policyRef names PlannerPolicy {name!r}, which a snapshot lacks: built-in figures are used; see --policy")
    taken = f", taken {_ago(time.time() - snapshot.taken_at)}" if snapshot.taken_at else ""
    policy, snapshot = (PolicySpec(), snapshot) if policy is None else (policy, inputs.overridden(snapshot, policy))
    return KnownInputs(policy, snapshot, "File", f"{display_name(arguments.snapshot)}{taken}")


def of_operator(cluster: LiveCluster, arguments: argparse.Namespace, job: JobInput | None) -> KnownInputs:
    """The operator's own figures, through the API server's proxy; raises UnavailableError."""
    from hyperscale.cli.plan.operator_state import read_state

    spinner.say("reading the operator's figures")
    wanted = job.spec.policy_ref.name if job is not None and job.spec.policy_ref is not None else ""
    where, age_seconds, state = read_state(cluster, wanted)
    elapsed = state.elapsed_seconds + age_seconds
    policy, missing = state.policy, list[str]()
    if arguments.policy:
        policy = inputs.read_policy(arguments.policy)
        missing.append("a second look at the figures: they are judged by the cluster's policy, not by --policy")
    if state.own_weights:
        missing.append("the operator's own weights of the learned planners")
    if state.queue.pending:
        pending = f"{state.queue.pending} pending job{'s' * (state.queue.pending != 1)}"
        missing.append(f"{pending} of this policy, which the operator decides on together with this one")
    shown = f"of the operator at {where}, {_ago(elapsed)}"
    if not state.snapshot.nodes:
        raise InputError(inputs.NO_GPU_NODES)
    return KnownInputs(policy, state.snapshot, "Operator", shown, elapsed, tuple(missing), state, cluster)


def of_api(cluster: LiveCluster, arguments: argparse.Namespace, job: JobInput | None) -> KnownInputs:
    """Nodes and pods as the API server has them, with figures of Prometheus where it is named, else with the links of ClusterTopology."""
    from hyperscale.cli.live import ApiRefusedError
    from hyperscale.observe.kube.topology_object import snapshot_of, with_links

    wanted = job.spec.policy_ref.name if job is not None and job.spec.policy_ref is not None else None
    policy = inputs.read_policy(arguments.policy) if arguments.policy else inputs.cluster_policy(cluster, wanted)
    url = inputs.prometheus_url(arguments)
    topology = inputs.topology_status(cluster) if not url else None
    try:
        snapshot = inputs.live_snapshot(cluster, policy, url, inputs.prometheus_access(arguments))
    except ApiRefusedError as error:
        if error.status != 403 or topology is None:
            raise
        note(f"nodes and pods cannot be read ({error.message}): the ClusterTopology alone is used")
        snapshot = snapshot_of(topology, time.time())
        lacks: tuple[str, ...] = (HELD, CORRECTIONS, LOAD, DETAILS)
        return KnownInputs(policy, snapshot, "ClusterTopology", _written(topology), missing=lacks, cluster=cluster)
    if url:
        shown = f"read now, metrics from {inputs.shown_url(url)}"
        return KnownInputs(policy, snapshot, "Cluster", shown, missing=(HELD, CORRECTIONS), cluster=cluster)
    if topology is None:
        lacks = (HELD, CORRECTIONS, LOAD, LINKS)
        return KnownInputs(policy, snapshot, "Cluster", "nodes and pods read now", missing=lacks, cluster=cluster)
    shown = f"nodes and pods read now; {_written(topology)}"
    lacks = (HELD, CORRECTIONS, LOAD)
    return KnownInputs(policy, with_links(snapshot, topology), "ClusterTopology", shown, missing=lacks, cluster=cluster)


def _written(topology: TopologyStatus) -> str:
    from hyperscale.util.rfc3339 import unix_seconds

    ago = _ago(time.time() - unix_seconds(topology.snapshot_time))
    return f"links of the ClusterTopology, written {ago} (again only when a figure changes)"


def _ago(seconds: float) -> str:
    return f"{duration_text(max(0.0, seconds), 2)} ago" if seconds >= 1.0 else "just now"
