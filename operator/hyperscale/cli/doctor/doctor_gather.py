"""Gathers the facts for `hyperscale doctor`: independent reads side by side, each with its own deadline."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from hyperscale import __version__
from hyperscale.cli.doctor import doctor_narrow as narrow
from hyperscale.cli.doctor.doctor_api import DoctorCluster, read
from hyperscale.cli.doctor.doctor_history import probe
from hyperscale.cli.doctor.doctor_metrics import QueryAsked, direct, proxied, shown_url
from hyperscale.cli.doctor.doctor_objects import unusable
from hyperscale.cli.doctor.doctor_reviews import may_resume, reviews
from hyperscale.cli.doctor.doctor_urls import HIDDEN
from hyperscale.cli.exit_codes import InputError
from hyperscale.control.apply import paths
from hyperscale.doctor.checks.mpi import CRD as MPI_CRD
from hyperscale.doctor.checks.mpi import LEASE as MPI_LEASE
from hyperscale.doctor.checks.policies import HISTORY
from hyperscale.doctor.checks.schema import OUR_CRDS
from hyperscale.doctor.common import DEFAULT_NAMESPACE, DEFAULT_POLICY, operators
from hyperscale.doctor.facts import (
    Crd,
    Facts,
    HistoryFacts,
    JobFacts,
    Kueue,
    LeaseFacts,
    Metrics,
    Pod,
    PodTrouble,
    ServerFacts,
    Unread,
    WorkloadFacts,
    or_empty,
)
from hyperscale.model import constants
from hyperscale.model.api.policy import PolicySpec
from hyperscale.observe.identity import NodeIndex
from hyperscale.observe.kube.fields import is_gpu_node
from hyperscale.observe.prometheus.credentials import PLAIN, Access, from_variables
from hyperscale.spec.parse import SpecError, parse_policy

THREADS: Final = 8
PROMETHEUS: Final = "HYPERSCALE_PROMETHEUS_URL"
OURS: Final = ("app.kubernetes.io/part-of=hyperscale", constants.JOB_NAME_LABEL)
"""Label selectors of pods of ours: the release's, and those of jobs."""

Json = dict[str, Any]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Wishes:
    """What the arguments say."""

    prometheus: str = ""
    access: Access = PLAIN
    """For a Prometheus that the arguments name."""
    history: str = ""
    limit_seconds: float = 10.0


def gather(cluster: DoctorCluster, wishes: Wishes, say: Say) -> Facts:
    """All facts; whatever cannot be read is there as Unread. Takes a few request times, at most a few limits."""
    server = read(cluster.server)
    if isinstance(server, Unread) and server.status == 0:
        return Facts(__version__, server)
    server_now = _clock(server)
    reads: dict[str, Callable[[], Any]] = {
        "crds": partial(_crds, cluster),
        "workloads": partial(_workloads, cluster),
        "pods": partial(_pods, cluster),
        "leases": partial(_leases, cluster, server_now),
        "nodes": lambda: tuple(map(narrow.node, cluster.items(paths.nodes()))),
        "node_clocks": partial(_node_clocks, cluster, server_now),
        "policies": lambda: tuple(map(narrow.policy, cluster.items(paths.policies()))),
        "jobs": partial(_jobs, cluster),
        "kueue": partial(_kueue, cluster),
        "unusable": partial(unusable, cluster),
    }
    with ThreadPoolExecutor(THREADS, thread_name_prefix="doctor") as pool:
        facts = Facts(__version__, server, **_side_by_side(pool, {name: partial(_told, say, name, work) for name, work in reads.items()}))
        facts = replace(facts, policy=_default_policy(facts))
        others: dict[str, Callable[[], Any]] = {
            "metrics": partial(_metrics, cluster, facts, wishes, say),
            "reviews": partial(read, partial(reviews, cluster, facts)),
            "mpi_may_resume": partial(may_resume, cluster, facts),
            "history": partial(_history, cluster, facts, wishes),
            "suggested_prometheus": partial(_suggested, cluster),
        }
        return replace(facts, **_side_by_side(pool, others))


def _side_by_side(pool: ThreadPoolExecutor, works: dict[str, Callable[[], Any]]) -> dict[str, Any]:
    started = {name: pool.submit(work) for name, work in works.items()}
    return {name: future.result() for name, future in started.items()}


def _told(say: Say, name: str, work: Callable[[], Any]) -> Any:  # noqa: ANN401 - any fact
    say(f"reading {name}")
    return read(work)


def _clock(server: ServerFacts | Unread) -> Callable[[], float]:
    ahead = 0.0 if isinstance(server, Unread) or server.ahead_seconds is None else server.ahead_seconds
    return lambda: time.time() + ahead


def _crds(cluster: DoctorCluster) -> tuple[Crd, ...]:
    """By name: a cluster's full list of CRDs is tens of MiB."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    crds = (cluster.find(f"{path}/{name}") for name in (*OUR_CRDS, MPI_CRD))
    return tuple(narrow.crd(raw) for raw in crds if raw is not None)


def _workloads(cluster: DoctorCluster) -> tuple[WorkloadFacts, ...]:
    workloads = []
    for kind, plural in (("Deployment", "deployments"), ("DaemonSet", "daemonsets")):
        workloads += [narrow.workload(kind, raw) for raw in cluster.items(f"/apis/apps/v1/{plural}") if narrow.matters(raw)]
    return tuple(sorted(workloads, key=lambda one: (one.kind, one.namespace, one.name)))


def _pods(cluster: DoctorCluster) -> tuple[Pod, ...]:
    pods: dict[tuple[str, str], Pod] = {}
    for selector in OURS:
        for raw in cluster.items(paths.pods(), {"labelSelector": selector, "fieldSelector": "status.phase!=Succeeded"}):
            one = narrow.pod(raw)
            pods[one.namespace, one.name] = one
    for place, trouble in _unmounted(cluster, sorted({one.namespace for one in pods.values() if one.component})):
        if place in pods and pods[place].phase == "Pending":
            pods[place] = replace(pods[place], troubles=(*pods[place].troubles, trouble))
    return tuple(pods[key] for key in sorted(pods))


def _unmounted(cluster: DoctorCluster, namespaces: Sequence[str]) -> list[tuple[tuple[str, str], PodTrouble]]:
    """Pods of the release whose volumes cannot be mounted: their containers only say ContainerCreating."""
    latest: dict[tuple[str, str], PodTrouble] = {}
    for namespace in namespaces:
        events = read(partial(_mount_events, cluster, namespace))
        for event in [] if isinstance(events, Unread) else events:
            name = str((event.get("involvedObject") or {}).get("name"))
            latest[namespace, name] = PodTrouble("", "FailedMount", str(event.get("message") or "")[:500])
    return sorted(latest.items())


def _mount_events(cluster: DoctorCluster, namespace: str) -> list[Json]:
    return list(cluster.items(f"/api/v1/namespaces/{namespace}/events", {"fieldSelector": "reason=FailedMount,involvedObject.kind=Pod"}))


def _leases(cluster: DoctorCluster, server_now: Callable[[], float]) -> tuple[LeaseFacts, ...]:
    leases = []
    for name in (constants.LEASE_NAME, MPI_LEASE):
        listed = cluster.items("/apis/coordination.k8s.io/v1/leases", {"fieldSelector": f"metadata.name={name}"})
        leases += [narrow.lease(raw, server_now()) for raw in listed]
    return tuple(sorted(leases, key=lambda one: (one.name, one.namespace)))


def _node_clocks(cluster: DoctorCluster, server_now: Callable[[], float]) -> tuple[tuple[str, float], ...]:
    """Nodes whose last heartbeat lies in the future."""
    ahead = []
    for raw in cluster.items("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"):
        renewed = narrow.seconds_of((raw.get("spec") or {}).get("renewTime"))
        if renewed is not None and renewed - server_now() > 1.0:
            ahead.append((str(raw["metadata"]["name"]), renewed - server_now()))
    return tuple(sorted(ahead))


def _jobs(cluster: DoctorCluster) -> tuple[JobFacts, ...]:
    return tuple(one for raw in cluster.items(paths.jobs()) if (one := narrow.job(raw)) is not None)


def _kueue(cluster: DoctorCluster) -> Kueue:
    group = cluster.find("/apis/kueue.x-k8s.io")
    if group is None:
        return Kueue()
    served = tuple(str(one["version"]) for one in group.get("versions") or ())
    preferred = str((group.get("preferredVersion") or {}).get("version") or next(iter(served), ""))
    queues = read(lambda: tuple(_place(raw) for raw in cluster.items(f"/apis/kueue.x-k8s.io/{preferred}/localqueues")))
    config = read(lambda: cluster.find("/api/v1/namespaces/kueue-system/configmaps/kueue-manager-config"))
    own, external = narrow.frameworks(config) if isinstance(config, dict) else (None, ())
    return Kueue(served, own, external, None if isinstance(queues, Unread) else queues)


def _place(raw: Json) -> str:
    return f"{raw['metadata']['namespace']}/{raw['metadata']['name']}"


def _default_policy(facts: Facts) -> PolicySpec:
    default = next((one for one in or_empty(facts.policies) if one["metadata"]["name"] == DEFAULT_POLICY), None)
    try:
        return parse_policy(default) if default is not None else PolicySpec()
    except SpecError:
        return PolicySpec()


def _home(facts: Facts) -> str:
    return next((one.namespace for one in operators(facts)), DEFAULT_NAMESPACE)


def _variable(facts: Facts, name: str) -> str:
    """An environment variable of the first operator that has it; "" where none has."""
    return next((value for one in operators(facts) if (value := one.environment.get(name, ""))), "")


def _metrics(cluster: DoctorCluster, facts: Facts, wishes: Wishes, say: Say) -> Metrics:
    url = wishes.prometheus or _variable(facts, PROMETHEUS)
    if not url:
        return Metrics()
    if HIDDEN in shown_url(url):
        return Metrics(url=shown_url(url), way="directly", failure=("PrometheusUnreachable", "it is no URL with a host and a port"))
    own = next((from_variables(one.environment) for one in operators(facts)), PLAIN)
    through = None if wishes.prometheus else proxied(cluster, url, _home(facts), own)
    ask, way = (direct(url, wishes.access, wishes.limit_seconds), "directly") if through is None else (through, "through the API server")
    nodes = or_empty(facts.nodes)
    gpu_nodes = frozenset(node["metadata"]["name"] for node in nodes if is_gpu_node(node))
    metrics = QueryAsked(ask, facts.policy, NodeIndex(nodes), gpu_nodes, say).metrics(shown_url(url), way)
    if not any(one.placed < one.count for one in metrics.figures.values()):
        return metrics
    # Some exporters name their pod instead of its node: only now is it worth to list every pod.
    say("reading all pods to place series that name pods")
    try:
        pods = cluster.pods()
    except InputError:
        return metrics
    return QueryAsked(ask, facts.policy, NodeIndex(nodes, pods), gpu_nodes, say).metrics(shown_url(url), way)


def _history(cluster: DoctorCluster, facts: Facts, wishes: Wishes) -> HistoryFacts:
    return probe(cluster, wishes.history or _variable(facts, HISTORY), _home(facts), bool(wishes.history), wishes.limit_seconds)


def _suggested(cluster: DoctorCluster) -> str:
    """URL of a Service that looks like Prometheus: the port 9090 and the name."""
    candidates = read(lambda: [one for raw in cluster.items("/api/v1/services") for one in _candidates(raw)])
    return "" if isinstance(candidates, Unread) else min(candidates, default=(0, ""))[1]


def _candidates(raw: Json) -> list[tuple[int, str]]:
    name, namespace = str(raw["metadata"]["name"]), str(raw["metadata"]["namespace"])
    ports = [int(one.get("port") or 0) for one in (raw.get("spec") or {}).get("ports") or ()]
    if "prometheus" not in name or not ports or (9090 not in ports and not name.endswith("prometheus-server")):
        return []
    return [(len(name), f"http://{name}.{namespace}:{9090 if 9090 in ports else ports[0]}")]
