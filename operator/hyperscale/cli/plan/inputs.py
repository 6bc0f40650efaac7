"""From arguments to what a plan is made from: job, policy and snapshot, out of files or out of the live cluster."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from hyperscale.cli import spinner
from hyperscale.cli.documents import STDIN, display_name, read_object, read_objects
from hyperscale.cli.exit_codes import InputError, one_line
from hyperscale.model.api.job import JobSpec
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.observe.prometheus.credentials import Access, from_variables

if TYPE_CHECKING:
    from hyperscale.cli.live import LiveCluster
    from hyperscale.model.api.topology import TopologyStatus
    from hyperscale.spec.parse import SpecError

PROMETHEUS_VARIABLE: Final = "HYPERSCALE_PROMETHEUS_URL"
LOGIN_FILES: Final = frozenset({"token_file", "username_file", "password_file"})
NO_GPU_NODES: Final = "the cluster has no GPU nodes: none offers nvidia.com/gpu; is the device plugin installed?"
OFFLINE: Final = {
    "plan": ", or plan on a file with --snapshot",
    "topology": ", or read a file with --snapshot",
    "explain": ", or read a file with -f",
}
"""What a command can do without a cluster, as the end of a message."""
ROOT_FIELDS: Final = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})
NAMESPACE: Final = re.compile("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
DEFAULT_POLICY: Final = "default"
"""PlannerPolicy that counts where a job names none."""


@dataclass(frozen=True)
class JobInput:
    """A job as read from a file."""

    spec: JobSpec
    name: str
    namespace: str
    shown: str
    """Name of the file, for messages."""
    resource: dict[str, Any]
    """The whole object."""

    @property
    def labels(self) -> dict[str, str]:
        """Its labels; those that are no text are left to the API server, which refuses them."""
        labels = self.resource["metadata"].get("labels")
        return {key: text for key, text in labels.items() if isinstance(text, str)} if isinstance(labels, dict) else {}

    @property
    def key(self) -> str:
        """namespace/name."""
        return f"{self.namespace}/{self.name}"


def read_jobs(paths: list[str], namespace: str | None) -> list[JobInput]:
    """The jobs in files, one at least in each; `namespace` counts where a file names none."""
    if paths.count(STDIN) > 1:
        raise InputError("-f: standard input is named twice; name it once")
    return [_job(resource, shown, namespace) for path in paths for shown, resource in read_objects(path)]


def _job(resource: dict[str, Any], shown: str, namespace: str | None) -> JobInput:
    from hyperscale.model.api.datasets import dataset_size
    from hyperscale.spec.parse import SpecError, parse_job, with_read_sizes

    _check_root(resource, shown)
    try:
        spec = with_read_sizes(parse_job(resource), resource)
        dataset_size(spec)
    except SpecError as error:
        raise refusal(shown, error) from None
    except ValueError as error:
        raise InputError(f"{shown}: {error}, or read it with: hyperscale data inspect FILE") from None
    written = resource["metadata"].get("namespace")
    if written is not None and not (isinstance(written, str) and NAMESPACE.fullmatch(written)):
        raise InputError(
            f"{shown}: metadata.namespace: {written!r} is no namespace's name; write at most 63 characters of a-z, 0-9 and -, "
            "first and last no -"
        )
    if written and namespace and written != namespace:
        raise InputError(f"{shown}: metadata.namespace: is {written!r}, --namespace is {namespace!r}; make them equal or leave one out")
    return JobInput(spec, resource["metadata"]["name"], written or namespace or "default", shown, resource)


def read_policy(path: str) -> PolicySpec:
    """The policy in a file."""
    resource = read_object(path)
    _check_root(resource, display_name(path))
    return parse_policy(resource, display_name(path))


def _check_root(resource: dict[str, Any], shown: str) -> None:
    """Refuse what `kubectl apply` does: a field of the spec that stands beside it, for one, would be without effect."""
    if strange := sorted(set(resource) - ROOT_FIELDS):
        raise InputError(f"{shown}: {strange[0]}: unknown field beside spec; indent it below spec, or remove it")


def parse_policy(resource: dict[str, Any], shown: str) -> PolicySpec:
    """The spec of a PlannerPolicy; `shown` says in messages where it came from."""
    from hyperscale.spec import parse

    try:
        return parse.parse_policy(resource)
    except parse.SpecError as error:
        raise refusal(shown, error) from None


def refusal(shown: str, error: SpecError) -> InputError:
    """A fault of a spec as bad input; `shown` says where the object came from."""
    return InputError(f"{shown}: {error.path}: {error.message}" if error.path else f"{shown}: {error.message}")


def overridden(snapshot: ClusterSnapshot, policy: PolicySpec) -> ClusterSnapshot:
    """The snapshot under the policy's overrides; says which of them fit nothing in it."""
    from hyperscale.observe.snapshot.offline import with_overrides

    snapshot, notes = with_overrides(snapshot, policy)
    for said in notes:
        note(f"--policy: spec.overrides: {said}")
    return snapshot


def connect(arguments: argparse.Namespace) -> LiveCluster:
    """The live cluster that the arguments name."""
    from hyperscale.cli.live import LiveCluster  # the kubernetes client takes half a second to import

    return LiveCluster.of_kubeconfig(arguments.kubeconfig, arguments.context, instead=OFFLINE.get(arguments.command, ""))


def cluster_policy(cluster: LiveCluster, wanted: str | None) -> PolicySpec:
    """The PlannerPolicy named `wanted`, else the one called default, else built-in figures."""
    from hyperscale.cli.live import ApiRefusedError

    try:
        resource = cluster.policy(wanted or DEFAULT_POLICY)
    except ApiRefusedError as error:
        if error.status != 403 or wanted is not None:
            raise
        note(f"PlannerPolicies cannot be read ({error.message}): built-in figures are used")
        return PolicySpec()
    if resource is None and wanted is not None:
        raise InputError(f"spec.policyRef.name: PlannerPolicy {wanted!r} is not in the cluster; create it or name a file with --policy")
    return PolicySpec() if resource is None else parse_policy(resource, f"PlannerPolicy {wanted or DEFAULT_POLICY!r}")


def topology_status(cluster: LiveCluster) -> TopologyStatus | None:
    """What the ClusterTopology says; None where there is none, or none that this user may read and this program understands."""
    import msgspec

    from hyperscale.cli.live import ApiRefusedError
    from hyperscale.control.apply import paths
    from hyperscale.model import constants
    from hyperscale.model.api.topology import TopologyStatus
    from hyperscale.util.rfc3339 import unix_seconds

    try:
        status = msgspec.convert(cluster.object(paths.topologies(constants.TOPOLOGY_NAME)).get("status"), TopologyStatus)
        unix_seconds(status.snapshot_time)
    except (ApiRefusedError, msgspec.ValidationError, ValueError):
        return None
    return status


def shown_url(url: str) -> str:
    """The URL without what may be a password in it."""
    return url.rpartition("@")[2] if "@" in url else url


def prometheus_url(arguments: argparse.Namespace) -> str:
    """URL of the metrics source; "" where none is named."""
    url: str = arguments.prometheus or os.environ.get(PROMETHEUS_VARIABLE, "")
    if url and not url.startswith(("http://", "https://")):
        option = "--prometheus" if arguments.prometheus else PROMETHEUS_VARIABLE
        raise InputError(f"{option}: {url!r} is no http URL; write for example http://localhost:9090")
    return url


def prometheus_access(arguments: argparse.Namespace) -> Access:
    """How Prometheus is asked: as the options say, else as the operator's own variables do."""
    given = {name: text for name in Access.__struct_fields__ if (text := getattr(arguments, f"prometheus_{name}")) is not None}
    configured = from_variables(os.environ)
    if LOGIN_FILES & given.keys():  # one way to log in replaces another
        configured = replace(configured, **dict.fromkeys(LOGIN_FILES, ""))
    access = replace(configured, **given)
    if (fault := access.fault()) is not None:
        raise InputError(f"--prometheus-{fault[0].replace('_', '-')}: {fault[1]}")
    return access


def live_snapshot(cluster: LiveCluster, policy: PolicySpec, url: str, access: Access) -> ClusterSnapshot:
    """The cluster as it is now, with metrics where a source is named; progress goes to standard error."""
    from hyperscale.observe.prometheus.reader import PrometheusReader
    from hyperscale.observe.snapshot.build_snapshot import build_snapshot

    now = time.time()
    spinner.say("reading nodes and pods")
    nodes, pods = cluster.nodes(), cluster.pods()
    note(f"read {len(nodes)} nodes and {len(pods)} bound pods")
    spinner.say("reading metrics")
    reading = PrometheusReader(url, access).read(policy, now)
    note(reading.state.message or f"metrics: {sum(len(series) for series in reading.series.values())} series")
    try:
        snapshot = build_snapshot(nodes, pods, reading, policy, now, fabric=cluster.fabric())
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"the cluster's nodes cannot be read ({type(error).__name__}: {error}); is this a Kubernetes API server?"
        ) from None
    if not snapshot.nodes:
        raise InputError(NO_GPU_NODES)
    return snapshot


def read_snapshot_file(path: str) -> ClusterSnapshot:
    """A snapshot from any of the known file forms."""
    from hyperscale.observe.files.bounded import SnapshotError
    from hyperscale.observe.files.snapshot_files import read_snapshot

    if not Path(path).exists():
        raise InputError(f"{path}: no such file; write one with `hyperscale snapshot -o FILE`")
    try:
        snapshot = read_snapshot(Path(path))
    except SnapshotError as error:
        raise InputError(str(error)) from None
    if not snapshot.nodes:
        raise InputError(f"{path}: holds no nodes; write a snapshot of a cluster with GPU nodes")
    return snapshot


def note(message: str) -> None:
    """One line of progress on standard error."""
    print(one_line(message), file=sys.stderr)
