"""Every fault that the doctor knows is found in facts that show it, alone, with a fix that names what to do."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from hyperscale.doctor.diagnose import CHECKS, diagnose
from hyperscale.doctor.facts import (
    Facts,
    HistoryFacts,
    JobFacts,
    Kueue,
    Metrics,
    PodTrouble,
    Review,
    Right,
    ServerFacts,
    Unread,
    Unusable,
    Ways,
)
from hyperscale.doctor.faults import Fault
from hyperscale.doctor.findings import Finding, FindingState
from hyperscale.model.api.policy import PolicySpec
from tests.unit.doctor.doctor_facts import (
    ACCOUNT,
    NODES,
    agent,
    changed,
    crds,
    divided,
    facts,
    figure,
    kueue_controller,
    lease,
    metrics,
    mpi_operator,
    node,
    operator,
    plugin,
    pod,
    with_figure,
)

OTHERS = (agent(), mpi_operator(), plugin())
STRANGER = {"Hostname": "dcgm-exporter-abc", "instance": "10.0.0.9:9400"}
QUEUED = JobFacts("team-a", "cora", queue="team-a")
KUEUE = Kueue(("v1beta1",), ("kubeflow.org/mpijob",), (), ("team-a/team-a",))
FORBIDDEN = Unread("list deployments.apps", 403, "deployments.apps is forbidden")


class Case(NamedTuple):
    fault: Fault
    facts: Facts
    fix: str
    state: FindingState = FindingState.WARNING
    also: frozenset[Fault] = frozenset()


def policy(text: dict[str, object], name: str = "default") -> dict[str, object]:
    return {"apiVersion": "hyperscale.dev/v1alpha1", "kind": "PlannerPolicy", "metadata": {"name": name}, "spec": text}


def empty(alone: dict[str, int], labels: set[str] | None = None) -> dict[str, object]:
    return {"count": 0, "placed": 0, "finite": 0, "age_seconds": None, "alone": alone, "alone_labels": frozenset(labels or ())}


def without_gpu_series(**changes: object) -> Metrics:
    figures = {name: figure(name, **empty({})) if not name.startswith("link") else one for name, one in metrics().figures.items()}
    return metrics(**{"figures": figures, "seen": frozenset(), "frozen": None, **changes})


def crashed(reason: str, message: str = "", **changes: object) -> Facts:
    return facts(pods=(pod(troubles=(PodTrouble("hyperscale/operator:0.1.0", reason, message),), **changes),))


ERROR, INFO = FindingState.ERROR, FindingState.INFO


def sliced(name: str) -> dict[str, Any]:
    return divided(name, 14, gpu__product="NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", mig__strategy="single")


def shared(name: str) -> dict[str, Any]:
    return divided(name, 8, gpu__product="NVIDIA-H100-80GB-HBM3-SHARED", gpu__replicas="4", gpu__sharing_strategy="time-slicing")


LINKED = {"NVLink": Ways(2, 8)}
BRIDGED = {"NVLink": Ways(4, 16), "System": Ways(8, 8)}
CASES = (
    Case(
        Fault.NOT_CHECKED, facts(node_clocks=Unread("list leases.coordination.k8s.io", 403, "forbidden")), "kubectl auth can-i list leases"
    ),
    Case(Fault.NOT_CHECKED, facts(crds=Unread("get customresourcedefinitions", 0, "no answer")), "try again"),
    Case(Fault.NOT_CHECKED, facts(metrics=Metrics("http://p", "through", ("NotPermitted", "services/proxy"))), "port-forward"),
    Case(Fault.API_UNREACHABLE, facts(server=Unread("get /version", 0, "no answer")), "cluster-info", ERROR),
    Case(Fault.API_TOO_OLD, facts(server=ServerFacts("v1.29.3", 0.1)), "1.30", ERROR),
    Case(Fault.API_SLOW, facts(server=ServerFacts("v1.34.0", 4.0)), "requestTimeoutSeconds"),
    Case(Fault.CLOCK_SKEW, facts(server=ServerFacts("v1.34.0", 0.1, -12.0)), "timedatectl"),
    Case(Fault.CLOCK_SKEW, facts(server=ServerFacts("v1.34.0", 0.1, 95.0)), "timedatectl", ERROR),
    Case(Fault.PROMETHEUS_CLOCK_SKEW, facts(metrics=metrics(ahead_seconds=-300.0)), "timedatectl", ERROR),
    Case(Fault.NODE_CLOCK_SKEW, facts(node_clocks=(("gpu-2", 40.0),)), "timedatectl"),
    Case(Fault.RIGHT_MISSING, facts(reviews=(Review(ACCOUNT, (Right("patch", "", "pods"),), 38),)), "rbac.create=true", ERROR),
    Case(Fault.RIGHT_MISSING, facts(reviews=(Review(ACCOUNT, (Right("create", "", "events"),), 38),)), "rbac.create=true"),
    Case(Fault.CRD_MISSING, facts(crds=crds(gnntrainingjobs=None)), "crds.enabled=true", ERROR),
    Case(Fault.CRD_MISSING, facts(crds=crds(clustertopologies=None)), "crds.enabled=true"),
    Case(Fault.CRD_NOT_SERVED, facts(crds=crds(plannerpolicies=changed(crds()[1], established=False))), "crds.enabled=true", ERROR),
    Case(Fault.CRD_OLD, facts(crds=crds(plannerpolicies=changed(crds()[1], fields=frozenset({"spec"})))), "crds.enabled=true", ERROR),
    Case(Fault.CRD_NEWER, facts(crds=crds(plannerpolicies=changed(crds()[1], fields=crds()[1].fields | {"spec.x"}))), "release", INFO),
    Case(Fault.MPI_CRD_MISSING, facts(crds=crds(mpijobs=None)), "mpi-operator.yaml", ERROR),
    Case(Fault.MPI_CRD_VERSION, facts(crds=crds(mpijobs=changed(crds()[3], served=("v1",)))), "mpi-operator.yaml", ERROR),
    Case(Fault.MPI_OPERATOR_MISSING, facts(workloads=(operator(), agent(), plugin())), "mpi-operator.yaml", ERROR),
    Case(
        Fault.MPI_OPERATOR_UNSEEN,
        facts(workloads=(operator(), agent(), plugin()), leases=(lease(), lease(name="mpi-operator", holder="x"))),
        "-kube-api-qps=100",
        INFO,
    ),
    Case(Fault.MPI_OPERATOR_DOWN, facts(workloads=(operator(), agent(), mpi_operator(ready=0), plugin())), "describe pods", ERROR),
    Case(Fault.MPI_OPERATOR_DOWN, facts(workloads=(operator(), agent(), mpi_operator(ready=0, wanted=0), plugin())), "--replicas=1", ERROR),
    Case(Fault.MPI_OPERATOR_SLOW, facts(workloads=(operator(), agent(), mpi_operator("-v=4"), plugin())), "-kube-api-burst=200"),
    Case(
        Fault.MPI_OPERATOR_GANG,
        facts(workloads=(operator(), agent(), mpi_operator(*mpi_operator().arguments, "--gang-scheduling=volcano"), plugin())),
        "remove the flag",
    ),
    Case(
        Fault.MPI_OPERATOR_CANNOT_RESUME,
        facts(mpi_may_resume=False, jobs=(JobFacts("a", "b", suspended=True),)),
        "kubectl patch clusterrole",
    ),
    Case(Fault.MPI_OPERATOR_CANNOT_RESUME, facts(mpi_may_resume=False), "kubectl patch clusterrole", INFO),
    Case(Fault.NO_GPU_NODES, facts(nodes=()), "device plugin", ERROR),
    Case(
        Fault.DEVICE_PLUGIN_MISSING,
        facts(nodes=tuple(node(name, 0) for name in NODES), workloads=(operator(), agent(), mpi_operator())),
        "nvdp/nvidia-device-plugin",
        ERROR,
    ),
    Case(Fault.DEVICE_PLUGIN_SILENT, facts(nodes=(node("gpu-1"), node("gpu-2"), node("gpu-3", 0))), "nvidia-smi", ERROR),
    Case(
        Fault.GPUS_UNHEALTHY,
        facts(
            nodes=(*map(node, NODES[:2]), {**(bad := node("gpu-3")), "status": {**bad["status"], "allocatable": {"nvidia.com/gpu": "1"}}})
        ),
        "Xid",
    ),
    Case(Fault.GPU_NODES_NOT_READY, facts(nodes=(node("gpu-1"), node("gpu-2"), node("gpu-3", ready=False))), "describe node gpu-3"),
    Case(Fault.GPU_LABELS_MISSING, facts(nodes=(*map(node, NODES[:2]), node("gpu-3", gpu_product=None))), "gfd.enabled=true"),
    Case(
        Fault.GPU_SPEED_UNKNOWN, facts(nodes=(*map(node, NODES[:2]), node("gpu-3", gpu_product="NVIDIA-X9"))), '"product":"NVIDIA-X9"', INFO
    ),
    Case(Fault.GPUS_SLICED, facts(nodes=(*map(node, NODES[:2]), sliced("gpu-3"))), "node gpu-3 nvidia.com/mig.config=all-disabled", INFO),
    Case(Fault.GPUS_SLICED, facts(nodes=tuple(map(sliced, NODES))), "nvidia-smi -mig 0", ERROR),
    Case(Fault.GPUS_SHARED, facts(nodes=(*map(node, NODES[:2]), shared("gpu-3"))), "sharing.timeSlicing", INFO),
    Case(Fault.GPUS_SHARED, facts(nodes=tuple(map(shared, NODES))), "sharing.mps", ERROR),
    Case(Fault.PROMETHEUS_NOT_SET, facts(metrics=Metrics(), suggested_prometheus="http://p.m:9090"), "prometheus.url=http://p.m:9090"),
    Case(Fault.PROMETHEUS_UNREACHABLE, facts(metrics=Metrics("http://p", "", ("PrometheusUnreachable", "no"))), "prometheus.url=", ERROR),
    Case(Fault.PROMETHEUS_TIMEOUT, facts(metrics=Metrics("http://p", "", ("PrometheusTimeout", "slow"))), "metricsSeconds", ERROR),
    Case(Fault.PROMETHEUS_REFUSED, facts(metrics=Metrics("http://p", "", ("PrometheusRefused", "HTTP 401"))), "/api/v1", ERROR),
    Case(Fault.PROMETHEUS_BODY_TOO_LARGE, facts(metrics=Metrics("http://p", "", ("PrometheusBodyTooLarge", "x"))), "narrow", ERROR),
    Case(Fault.PROMETHEUS_DENIED, facts(metrics=Metrics("http://p", "", ("PrometheusDenied", "x"))), "prometheus.auth", ERROR),
    Case(Fault.PROMETHEUS_CREDENTIALS, facts(metrics=Metrics("http://p", "", ("PrometheusCredentials", "x"))), "readable file", ERROR),
    Case(Fault.TARGETS_DOWN, facts(metrics=metrics(targets=(("dcgm-exporter", 2, 1), ("kubelet", 0, 9)))), "/targets"),
    Case(
        Fault.QUERY_REFUSED, facts(metrics=with_figure("power", failure=("PrometheusRefused", "parse error"))), "spec.queries.power", ERROR
    ),
    Case(Fault.EXPORTER_MISSING, facts(metrics=without_gpu_series(names={}, targets=())), "dcgm-exporter"),
    Case(Fault.EXPORTER_MISSING, facts(metrics=without_gpu_series(names={"nvidia_smi_power": 3}, targets=())), "spec.queries"),
    Case(Fault.QUERY_EMPTY, facts(metrics=with_figure("memory_used", **empty({}))), "CSV"),
    Case(Fault.QUERY_EMPTY, facts(metrics=with_figure("xid", **empty({}))), "CSV", INFO),
    Case(
        Fault.METRIC_ABSENT,
        facts(metrics=changed(with_figure("gpu_utilization", **empty({})), names={"DCGM_FI_PROF_GR_ENGINE_ACTIVE": 6})),
        "100 * DCGM_FI_PROF_GR_ENGINE_ACTIVE",
    ),
    Case(
        Fault.LABEL_RENAMED,
        facts(metrics=with_figure("power", **empty({"P": 6}, {"hostname", "gpu"}), query='P{Hostname=~"a.*"}')),
        'P{hostname=~\\"a.*\\"}',
    ),
    Case(
        Fault.LABEL_RENAMED,
        facts(metrics=with_figure("power", **empty({"P": 6}, {"cluster"}), query='P{cluster="b"}')),
        "without selectors",
    ),
    Case(
        Fault.LABEL_RENAMED,
        facts(metrics=with_figure("power", **empty({"P": 6}, {"modelName", "gpu"}), query='P{model_name="A100"}')),
        'P{modelName=\\"A100\\"}',
    ),
    Case(
        Fault.SERIES_WITHOUT_NODE, facts(metrics=with_figure("power", placed=0, strangers=(STRANGER,))), "__meta_kubernetes_pod_node_name"
    ),
    Case(
        Fault.SERIES_WITHOUT_NODE,
        facts(metrics=with_figure("power", placed=0, strangers=({"gpu": "0"},), labels=frozenset({"gpu"}))),
        "by (Hostname, gpu, UUID)",
    ),
    Case(
        Fault.SERIES_WITHOUT_PAIR,
        facts(metrics=with_figure("link_latency", placed=0, strangers=({"from": "a"},), labels=frozenset({"from", "to"}))),
        "label_replace",
    ),
    Case(
        Fault.SERIES_WITHOUT_PAIR,
        facts(metrics=with_figure("link_latency", placed=0, strangers=({},), labels=frozenset({"exported_source"}))),
        "honorLabels: true",
    ),
    Case(Fault.WRONG_UNIT, facts(metrics=with_figure("gpu_utilization", low=0.1, middle=0.4, high=0.9, fractions=6)), ") * 100", ERROR),
    Case(Fault.WRONG_UNIT, facts(metrics=with_figure("power", middle=212_000.0, high=3e5)), ") / 1000", ERROR),
    Case(Fault.WRONG_UNIT, facts(metrics=with_figure("temperature", middle=324.0)), ") - 273.15", ERROR),
    Case(Fault.WRONG_UNIT, facts(metrics=with_figure("link_latency", middle=12.0)), ") / 1000", ERROR),
    Case(Fault.WRONG_UNIT, facts(metrics=with_figure("link_bandwidth", middle=25.0)), ") * 125000000", ERROR),
    Case(Fault.VALUES_UNUSABLE, facts(metrics=with_figure("power", faults={"not a number": 6})), "/metrics"),
    Case(
        Fault.METRICS_STALE, facts(metrics=with_figure("power", faults={"older than the limit": 6}, age_seconds=900.0)), "scrape_interval"
    ),
    Case(Fault.METRICS_FROZEN, facts(metrics=metrics(frozen=(2, 6))), "rollout restart"),
    Case(Fault.NODES_UNSEEN, facts(metrics=metrics(seen=frozenset(NODES[:2]))), "spec.nodeName=gpu-3"),
    Case(Fault.LINKS_MISSING, facts(metrics=metrics(pairs=(0, 0), linked=frozenset())), "9466"),
    Case(Fault.LINKS_MISSING, facts(metrics=metrics(pairs=(0, 0), linked=frozenset(), names={})), "9465"),
    Case(
        Fault.LINKS_MISSING,
        facts(metrics=metrics(pairs=(0, 0), linked=frozenset()), workloads=(operator(), mpi_operator(), plugin())),
        "agent.enabled=true",
        also=frozenset({Fault.AGENT_MISSING}),
    ),
    Case(Fault.LINKS_PARTIAL, facts(metrics=metrics(pairs=(2, 2), linked=frozenset(NODES[:2]))), "9466"),
    Case(
        Fault.AGENT_MISSING,
        facts(metrics=Metrics(), workloads=(operator(), mpi_operator(), plugin())),
        "agent.enabled=true",
        INFO,
        frozenset({Fault.PROMETHEUS_NOT_SET}),
    ),
    Case(Fault.AGENT_PARTIAL, facts(workloads=(operator(), agent(ready=1), mpi_operator(), plugin())), "describe daemonset"),
    Case(Fault.PROBES_REFUSED, facts(metrics=metrics(refused={"token": 7.0, "busy": 90.0})), "rollout restart"),
    Case(
        Fault.AGENT_READS_NO_GPU,
        facts(metrics=metrics(agent_states={"GpuLost": ("gpu-1",)}, gpu_states={"GpuLost": (("gpu-1", "2"),)})),
        "drain the node",
    ),
    Case(Fault.AGENT_READS_NO_GPU, facts(metrics=metrics(agent_states={"NoLibrary": NODES})), "runtimeClassName", INFO),
    Case(
        Fault.GPU_PATHS_WORSE,
        facts(metrics=metrics(ways={"gpu-1": LINKED, "gpu-2": LINKED, "gpu-3": {"System": Ways(2, 2)}})),
        "nvidia-smi nvlink --status",
    ),
    Case(
        Fault.GPU_PATHS_MIXED,
        facts(metrics=metrics(ways=dict.fromkeys(NODES, BRIDGED))),
        "gpusPerWorker",
        INFO,
    ),
    Case(
        Fault.TOPOLOGY_LABELS_MISSING,
        facts(nodes=tuple(node(name, zone=None, topology_rack=None) for name in NODES)),
        "kubectl label node gpu-1",
    ),
    Case(Fault.TOPOLOGY_LABELS_PARTIAL, facts(nodes=(*map(node, NODES[:2]), node("gpu-3", zone=None))), "kubectl label node gpu-3"),
    Case(Fault.TOPOLOGY_LEVEL_UNKNOWN, facts(policy=PolicySpec(topology_levels=("example.com/row",))), "topologyLevels"),
    Case(Fault.KUEUE_MISSING, facts(jobs=(QUEUED,)), "kubectl label gnntj -n team-a cora", ERROR),
    Case(Fault.KUEUE_DOWN, facts(kueue=KUEUE, workloads=(operator(), *OTHERS, kueue_controller(ready=0))), "describe pods", ERROR),
    Case(Fault.KUEUE_WITHOUT_MPI, facts(kueue=changed(KUEUE, frameworks=("batch/job",))), "kueue-manager-config"),
    Case(
        Fault.KUEUE_OWNS_OUR_KIND, facts(kueue=changed(KUEUE, external=("gnntrainingjob.v1alpha1.hyperscale.dev",))), "externalFrameworks"
    ),
    Case(Fault.KUEUE_QUEUE_MISSING, facts(kueue=changed(KUEUE, queues=("team-a/gpus",)), jobs=(QUEUED,)), "queue-name=gpus", ERROR),
    Case(Fault.IMAGE_PULL_FAILED, crashed("ErrImagePull", "pull access denied, unauthorized"), "docker-registry", ERROR),
    Case(Fault.IMAGE_PULL_FAILED, crashed("ImagePullBackOff", "dial tcp: no such host"), "DNS", ERROR),
    Case(Fault.IMAGE_PULL_FAILED, crashed("InvalidImageName"), "image.repository", ERROR),
    Case(Fault.POD_MISCONFIGURED, crashed("CreateContainerConfigError", 'secret "db" not found'), "create secret generic db", ERROR),
    Case(Fault.POD_CRASHING, crashed("CrashLoopBackOff", "back-off"), "logs hyperscale-7d9-x --previous", ERROR),
    Case(Fault.POD_CRASHING, facts(pods=(pod(restarts=9, ended="OOMKilled"),)), "resources.limits.memory"),
    Case(Fault.OPERATOR_MISSING, facts(workloads=OTHERS, leases=(), pods=()), "helm install hyperscale", ERROR),
    Case(Fault.OPERATOR_OUTSIDE, facts(workloads=OTHERS, pods=()), "helm install hyperscale", INFO),
    Case(Fault.OPERATOR_DOWN, facts(workloads=(operator(ready=0), *OTHERS)), "describe pods", ERROR),
    Case(Fault.LEASE_MISSING, facts(leases=()), "rollout restart", ERROR),
    Case(Fault.LEASE_STALE, facts(leases=(lease(silent_seconds=120.0),)), "rollout restart", ERROR),
    Case(Fault.LEASE_FOREIGN, facts(leases=(lease(holder="laptop-1234"),)), "delete lease", ERROR),
    Case(
        Fault.OPERATORS_OVERLAP,
        facts(workloads=(operator(), operator(namespace="b", ready=0, environment={"HYPERSCALE_WATCH_NAMESPACES": "team-a"}), *OTHERS)),
        "watchNamespaces",
        ERROR,
        frozenset({Fault.OPERATOR_DOWN}),
    ),
    Case(Fault.OPERATOR_VERSIONS, facts(pods=(pod(), pod(name="old", images=("hyperscale/operator:0.0.9",)))), "rollout status"),
    Case(Fault.OPERATOR_OTHER_VERSION, facts(version="9.9"), "same release", INFO),
    Case(Fault.HISTORY_OFF, facts(history=HistoryFacts()), "history.url=", INFO),
    Case(Fault.HISTORY_VOLATILE, facts(history=HistoryFacts("sqlite:////tmp/history.sqlite")), "PersistentVolumeClaim", INFO),
    Case(
        Fault.HISTORY_UNREACHABLE, facts(history=HistoryFacts("postgresql://db/x", True, "no ready endpoint")), "networkPolicy.historyPorts"
    ),
    Case(Fault.POLICY_INVALID, facts(policies=(policy({"seed": -1}, "mine"),)), "kubectl edit plannerpolicy mine", ERROR),
    Case(
        Fault.OBJECTS_UNUSABLE,
        facts(unusable=(Unusable("Pod", "team-a/greedy", "nvidia.com/gpu: 1e+30 is not from 0 to 4096"),)),
        "kubectl delete pod greedy -n team-a",
    ),
    Case(
        Fault.OBJECTS_UNUSABLE,
        facts(unusable=tuple(Unusable("Node", f"gpu-{number:02d}", "cpu: odd") for number in range(12))),
        "kubectl delete node gpu-00",
    ),
    Case(Fault.POLICY_MISSING, facts(jobs=(JobFacts("team-a", "cora", policy="gone"),)), "create PlannerPolicy gone", ERROR),
)


def findings(given: Facts) -> tuple[Finding, ...]:
    return diagnose(given, "https://example").findings


def test_a_sound_installation_has_no_findings() -> None:
    report = diagnose(facts(), "https://example")
    assert report.findings == ()
    assert (report.exit_code, report.state) == (0, FindingState.OK)
    assert [one.check for one in report.checks] == list(CHECKS)


@pytest.mark.parametrize("case", CASES, ids=[f"{case.fault} {index}" for index, case in enumerate(CASES)])
def test_each_fault_is_found_alone_with_its_fix(case: Case) -> None:
    found = {one.fault: one for one in findings(case.facts)}
    assert case.fault in found
    assert found[case.fault].state is case.state
    assert case.fix in found[case.fault].fix
    assert set(found) <= {case.fault} | case.also


def test_every_fault_has_a_case() -> None:
    assert {case.fault for case in CASES} == set(Fault)


@pytest.mark.parametrize("case", CASES, ids=[f"{case.fault} {index}" for index, case in enumerate(CASES)])
def test_every_finding_says_what_why_and_what_to_do_on_one_line_each(case: Case) -> None:
    for one in findings(case.facts):
        assert one.message
        assert one.fix
        assert one.cause or one.fault is Fault.API_UNREACHABLE
        assert "\n" not in one.message + one.cause + one.fix


def test_the_worst_finding_decides_the_exit_code() -> None:
    codes = {state: diagnose(facts(**changes), "").exit_code for state, changes in _BY_STATE.items()}
    assert codes == {FindingState.OK: 0, FindingState.INFO: 0, FindingState.WARNING: 3, FindingState.ERROR: 4}


_BY_STATE: dict[FindingState, dict[str, object]] = {
    FindingState.OK: {},
    FindingState.INFO: {"version": "9.9"},
    FindingState.WARNING: {"metrics": Metrics()},
    FindingState.ERROR: {"nodes": ()},
}


def test_what_nobody_may_read_is_never_a_clean_bill() -> None:
    unread = dict.fromkeys(("crds", "workloads", "pods", "leases", "nodes", "policies", "jobs", "kueue", "reviews", "unusable"), FORBIDDEN)
    report = diagnose(facts(**unread, metrics=Metrics()), "")
    assert report.state is FindingState.WARNING
    assert {one.fault for one in report.findings} >= {Fault.NOT_CHECKED}
