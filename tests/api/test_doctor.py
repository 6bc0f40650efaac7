"""`hyperscale doctor` on a real API server and a real Prometheus: a sound installation, and one broken in each of many ways."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from e2e.cluster import prometheus
from e2e.cluster.api import Api
from e2e.cluster.components import wait_established
from e2e.cluster.control_plane import ControlPlane, kubeconfig_path, wait_until
from hyperscale.cli.doctor_view import report_lines
from hyperscale.cli.main import main
from hyperscale.doctor.findings import Report
from tests.api import doctor_world as world
from tests.fault.prometheus_stub import PrometheusStub

REPOSITORY = Path(__file__).parents[2]
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
JOB_CRD = f"{CRDS}/gnntrainingjobs.hyperscale.dev"
ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/hyperscale"


@dataclass
class Site:
    """The installation under test."""

    api: Api
    kubeconfig: Path
    exporter: world.Exporter
    url: str
    tools: str
    """Folders with kubectl and helm, as PATH."""

    def doctor(self, *arguments: str, prometheus: bool = True) -> tuple[int, dict[str, Any], str]:
        """Exit code, report, and the same report as the table that people see."""
        if self.fresh:
            world.renew(self.api)
        own = [f"http://127.0.0.1:{self.exporter.port}" if one == "EXPORTER" else one for one in arguments]
        asked = ["doctor", "--kubeconfig", str(self.kubeconfig), *(["--prometheus", self.url] if prometheus else []), *own, "-o", "json"]
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            code = main(asked)
        table = "\n".join(report_lines(msgspec.json.decode(out.getvalue(), type=Report)))
        sys.stdout.write(f"{table}\n\n")
        return code, json.loads(out.getvalue()), table

    fresh: bool = True
    """Whether the operator renews its Lease."""


@pytest.fixture(scope="module")
def site(binaries: dict[str, Path], plane: ControlPlane, api: Api, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    try:
        prometheus.executable()
    except prometheus.PrometheusMissingError as error:
        pytest.skip(str(error))
    helm = [str(binaries["helm"]), "--kubeconfig", str(plane.kubeconfig), "--namespace", world.NAMESPACE]
    api.apply(f"/api/v1/namespaces/{world.NAMESPACE}", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": world.NAMESPACE}})
    chart = str(REPOSITORY / "charts" / "hyperscale")
    installed = subprocess.run([*helm, "install", "hyperscale", chart, "--take-ownership"], capture_output=True, text=True, check=False)
    assert installed.returncode == 0, installed.stderr
    try:
        world.build(api, binaries)
        directory = tmp_path_factory.mktemp("prometheus")
        with world.Exporter(world.dcgm(), world.links()) as exporter, world.serving_prometheus(directory, exporter) as url:
            tools = os.pathsep.join(str(binaries[name].parent) for name in ("kubectl", "helm"))
            yield Site(api, plane.kubeconfig, exporter, url, tools)
    finally:
        world.remove(api)
        subprocess.run([*helm, "uninstall", "hyperscale", "--ignore-not-found"], capture_output=True, check=False)


def run_as_printed(site: Site, command: str) -> None:
    """What a person does who copies the fix into a shell at the repository's root."""
    environment = {**os.environ, "KUBECONFIG": str(site.kubeconfig), "PATH": f"{site.tools}{os.pathsep}{os.environ['PATH']}"}
    ran = subprocess.run(
        ["/bin/bash", "-c", command], cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert ran.returncode == 0, f"{command}\n{ran.stderr}"


def all_fixes(report: dict[str, Any], fault: str) -> list[str]:
    """Fixes of every finding of a fault."""
    return [one["fix"] for check in report["checks"] for one in check["findings"] if one["fault"] == fault]


def findings(report: dict[str, Any], least: str = "warning") -> dict[str, dict[str, Any]]:
    """Findings by fault, from a severity on."""
    order = ["ok", "info", "warning", "error"]
    found = [finding for check in report["checks"] for finding in check["findings"]]
    return {one["fault"]: one for one in found if order.index(one["state"]) >= order.index(least)}


def test_a_sound_installation_has_no_finding_above_a_note(site: Site) -> None:
    code, report, table = site.doctor()
    assert findings(report) == {}, table
    assert code == 0
    assert report["state"] in ("ok", "info")
    assert {check["check"] for check in report["checks"]} >= {"api", "rights", "crds", "mpi-operator", "gpus", "queries", "links"}


@dataclass(frozen=True)
class Broken:
    """One way in which an installation is broken."""

    name: str
    break_it: Callable[[Site], None]
    mend: Callable[[Site], None]
    fault: str
    fix: tuple[str, ...]
    """Texts that the fix must contain."""
    code: int = 4
    arguments: tuple[str, ...] = ()
    also: frozenset[str] = frozenset()
    """Further findings that the same cause may have."""
    runs: bool = False
    """The fix is a command: it is run as printed, and the fault must be gone."""


def _restore_crd(site: Site, name: str) -> None:
    path = f"{CRDS}/{name}.hyperscale.dev"
    raw = yaml.safe_load((REPOSITORY / "crds" / f"{name}.hyperscale.dev.yaml").read_text(encoding="utf-8"))
    site.api.apply(path, raw)
    wait_established(site.api, path)


def _delete_crd(site: Site, name: str) -> None:
    path = f"{CRDS}/{name}.hyperscale.dev"
    site.api.delete(path)
    wait_until(lambda: site.api.find(path) is None, 60.0, "the CRD is still there")


def _age_crd(site: Site) -> None:
    """The CRD of a release that did not know minibatches nor partitions in volumes."""
    path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/partitioning/properties"
    site.api.patch(JOB_CRD, [{"op": "remove", "path": f"{path}/volumeClaimName"}])


def _rules(site: Site) -> list[dict[str, Any]]:
    return list(site.api.get(ROLE)["rules"])


def _without_pod_patch(site: Site) -> None:
    rules = _rules(site)
    for rule in rules:
        if "pods" in rule["resources"]:
            rule["verbs"] = [verb for verb in rule["verbs"] if verb != "patch"]
    site.api.patch(ROLE, {"rules": rules})
    _wait_for_rights(site, False)


def _with_pod_patch(site: Site) -> None:
    rules = _rules(site)
    for rule in rules:
        if "pods" in rule["resources"]:
            rule["verbs"] = sorted({*rule["verbs"], "patch"})
    site.api.patch(ROLE, {"rules": rules})
    _wait_for_rights(site, True)


def _wait_for_rights(site: Site, allowed: bool) -> None:
    _wait_for(site, allowed, f"system:serviceaccount:{world.NAMESPACE}:hyperscale", "patch", "", "pods", "")


def _wait_for(site: Site, allowed: bool, account: str, verb: str, group: str, resource: str, subresource: str) -> None:
    """The authorizer hears of changed roles through a watch."""
    wanted = {"verb": verb, "group": group, "resource": resource, "subresource": subresource}
    spec = {"user": account, "groups": ["system:serviceaccounts", "system:authenticated"], "resourceAttributes": wanted}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    wait_until(lambda: site.api.create(path, review)["status"]["allowed"] == allowed, 60.0, "the role's change is not in force")


def _nodes(site: Site, gpus: int = world.GPUS, drop: tuple[str, ...] = ()) -> None:
    for name in world.NODES:
        world.put_node(site.api, name, gpus, drop)


def _no_device_plugin(site: Site) -> None:
    _nodes(site, gpus=0)
    site.api.delete(world.PLUGIN)


def _device_plugin(site: Site) -> None:
    _nodes(site)
    world.put_daemon(site.api, world.PLUGIN, "nvcr.io/nvidia/k8s-device-plugin:v0.17.1", {})


def _policy(site: Site, **queries: str) -> None:
    _policy_spec(site, {"queries": queries})


def _policy_spec(site: Site, spec: dict[str, Any]) -> None:
    body = {"apiVersion": "hyperscale.dev/v1alpha1", "kind": "PlannerPolicy", "metadata": {"name": "default"}, "spec": spec}
    site.api.apply(world.POLICY, body)


def _resume_rule(site: Site, there: bool) -> None:
    """kubeflow/mpi-operator#830, and a job that a queue would resume."""
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/mpi-operator"
    rule = {"apiGroups": ["batch"], "resources": ["jobs/status"], "verbs": ["update"]}
    kept = [one for one in site.api.get(path)["rules"] if "jobs/status" not in one["resources"]]
    site.api.patch(path, {"rules": [*kept, rule] if there else kept})
    place = "/apis/hyperscale.dev/v1alpha1/namespaces/team-a/gnntrainingjobs/cora"
    if there:
        site.api.delete(place)
    else:
        _job(site, {}, {"runPolicy": {"suspend": True}})
    _wait_for(site, there, "system:serviceaccount:mpi-operator:mpi-operator", "update", "batch", "jobs", "status")


def _job(site: Site, labels: dict[str, str], more: dict[str, Any]) -> None:
    raw = yaml.safe_load((REPOSITORY / "examples" / "cora-gcn.yaml").read_text(encoding="utf-8").split("\n---")[0])
    raw["metadata"] = {"name": "cora", "namespace": "team-a", "labels": labels}
    raw["spec"] |= more
    site.api.apply("/apis/hyperscale.dev/v1alpha1/namespaces/team-a/gnntrainingjobs/cora", raw)


def _unmounted(site: Site) -> None:
    """As helm leaves it when it renders without a cluster: no Secret."""
    place = f"/api/v1/namespaces/{world.NAMESPACE}/pods/hyperscale-agent-abcde"
    world.put_pod(site.api, place, "hyperscale/agent:0.1.0", "agent", {"reason": "ContainerCreating"})
    message = 'MountVolume.SetUp failed for volume "token" : secret "hyperscale-agent-token" not found'
    about = {"kind": "Pod", "namespace": world.NAMESPACE, "name": "hyperscale-agent-abcde"}
    event = {"apiVersion": "v1", "kind": "Event", "metadata": {"generateName": "unmounted-"}, "involvedObject": about}
    site.api.create(
        f"/api/v1/namespaces/{world.NAMESPACE}/events", {**event, "reason": "FailedMount", "message": message, "type": "Warning"}
    )


def _kueue(site: Site) -> None:
    """Kueue's API, and its configuration without MPIJobs; a job that waits in a queue that is not there."""
    world.put_kueue(site.api, ("batch/job",))
    _job(site, {"kueue.x-k8s.io/queue-name": "team-a"}, {})


def _no_kueue(site: Site) -> None:
    site.api.delete("/apis/hyperscale.dev/v1alpha1/namespaces/team-a/gnntrainingjobs/cora")
    world.remove_kueue(site.api)


def _expose(site: Site, expression: str, count: int, dcgm: str | None = None, agent: str | None = None) -> None:
    """Change what is scraped and wait until Prometheus has it."""
    site.exporter.dcgm = site.exporter.dcgm if dcgm is None else dcgm
    site.exporter.agent = site.exporter.agent if agent is None else agent
    world.wait_scraped(site.url, expression, count)


def _old_hostname_query(site: Site) -> None:
    """The policy still selects by the label's old name after an upgrade of dcgm-exporter."""
    _expose(site, 'DCGM_FI_DEV_GPU_UTIL{hostname!=""}', 6, dcgm=world.dcgm(label="hostname"))
    world.wait_scraped(site.url, 'DCGM_FI_DEV_GPU_UTIL{Hostname!=""}', 0)
    _policy(site, gpuUtilization='DCGM_FI_DEV_GPU_UTIL{Hostname=~".+"}')


def _sound_metrics(site: Site) -> None:
    site.api.delete(world.POLICY)
    site.exporter.dcgm, site.exporter.agent = world.dcgm(), world.links()
    for expression in (
        'DCGM_FI_DEV_GPU_UTIL{Hostname=~"gpu-.*"}',
        'hyperscale_link_latency_seconds{source=~"gpu-.*"}',
        "DCGM_FI_DEV_FB_USED < 1e6",
    ):
        world.wait_scraped(site.url, expression, 6)
    for expression in ('DCGM_FI_DEV_GPU_UTIL{Hostname!~"gpu-.*"}', 'hyperscale_link_latency_seconds{source!~"gpu-.*"}'):
        world.wait_scraped(site.url, expression, 0)


def _pull_fails(site: Site) -> None:
    waiting = {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "registry.example/hyperscale/worker:9.9": not found'}
    world.put_pod(
        site.api, f"/api/v1/namespaces/{world.NAMESPACE}/pods/cora-worker-0", "registry.example/hyperscale/worker:9.9", "", waiting
    )


def _stale_lease(site: Site) -> None:
    site.fresh = False
    world.renew(site.api, seconds_ago=300)


def _fresh_lease(site: Site) -> None:
    site.fresh = True
    world.renew(site.api)


def _second_operator(site: Site) -> None:
    deployment = site.api.get(world.OPERATOR)
    metadata = {"name": "hyperscale", "namespace": "team-a", "labels": deployment["metadata"]["labels"]}
    metadata["labels"] = {**metadata["labels"], "app.kubernetes.io/version": "0.0.9", "app.kubernetes.io/instance": "second"}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": deployment["spec"]}
    site.api.apply("/apis/apps/v1/namespaces/team-a/deployments/hyperscale", body)


def _queued_job(site: Site) -> None:
    """A job with a queue's label where no Kueue is."""
    _job(site, {"kueue.x-k8s.io/queue-name": "team-a"}, {})


def _agent_on_two(site: Site) -> None:
    world.set_ready(site.api, world.AGENT, 2)
    _expose(site, "hyperscale_link_latency_seconds", 2, agent=world.links(pairs=2))


def _agent_on_all(site: Site) -> None:
    world.set_ready(site.api, world.AGENT)
    _sound_metrics(site)


SCENARIOS = (
    Broken(
        "a CRD is missing",
        lambda site: _delete_crd(site, "plannerpolicies"),
        lambda site: _restore_crd(site, "plannerpolicies"),
        "CrdMissing",
        ("helm upgrade hyperscale charts/hyperscale -n hyperscale-system", "crds.enabled=true"),
        runs=True,
    ),
    Broken(
        "a CRD is of an older release",
        _age_crd,
        lambda site: _restore_crd(site, "gnntrainingjobs"),
        "CrdOld",
        ("helm upgrade hyperscale", "crds.enabled=true"),
        runs=True,
    ),
    Broken("a right is missing", _without_pod_patch, _with_pod_patch, "RightMissing", ("rbac.create=true", "docs/rbac.md")),
    Broken(
        "mpi-operator is absent",
        lambda site: site.api.delete(world.MPI),
        lambda site: world.put_mpi_operator(site.api),
        "MpiOperatorMissing",
        ("kubectl apply", "mpi-operator.yaml"),
    ),
    Broken(
        "mpi-operator runs with its default limits",
        lambda site: world.put_mpi_operator(site.api, ()),
        lambda site: world.put_mpi_operator(site.api),
        "MpiOperatorSlow",
        ("kubectl -n mpi-operator patch deployment mpi-operator", "-kube-api-qps=100", "-kube-api-burst=200"),
        3,
        runs=True,
    ),
    Broken("the device plugin is absent", _no_device_plugin, _device_plugin, "DevicePluginMissing", ("nvidia-device-plugin",)),
    Broken(
        "GPU Feature Discovery is absent",
        lambda site: _nodes(site, drop=("nvidia.com/gpu.product", "nvidia.com/gpu.memory", "nvidia.com/gpu.count")),
        _nodes,
        "GpuLabelsMissing",
        ("gfd.enabled=true",),
        3,
    ),
    Broken(
        "Prometheus is down",
        lambda site: None,
        lambda site: None,
        "PrometheusUnreachable",
        ("prometheus.url=", "--prometheus URL"),
        4,
        ("--prometheus", f"http://127.0.0.1:{world.closed_port()}"),
    ),
    Broken(
        "one query is empty: the exporter leaves the metric out",
        lambda site: _expose(site, "DCGM_FI_DEV_GPU_UTIL", 0, dcgm=world.dcgm(leave_out=("DCGM_FI_DEV_GPU_UTIL",))),
        _sound_metrics,
        "QueryEmpty",
        ("CSV", "gpuUtilization"),
        3,
    ),
    Broken(
        "no exporter is scraped",
        lambda site: _expose(site, "DCGM_FI_DEV_GPU_UTIL", 0, dcgm=""),
        _sound_metrics,
        "ExporterMissing",
        ("the exporter's log", "CSV"),
        3,
    ),
    Broken(
        "a query selects by a label that was renamed",
        _old_hostname_query,
        _sound_metrics,
        "LabelRenamed",
        ("kubectl patch plannerpolicy default", "{hostname=~"),
        3,
        runs=True,
    ),
    Broken(
        "memory is in bytes",
        lambda site: _expose(site, "DCGM_FI_DEV_FB_USED > 1e9", 6, dcgm=world.dcgm(scale=2.0**20)),
        _sound_metrics,
        "WrongUnit",
        ("/ 1048576", "memoryUsed|memoryFree|memoryReserved"),
        runs=True,
    ),
    Broken(
        "series name pods that nobody knows",
        lambda site: _expose(
            site, 'DCGM_FI_DEV_GPU_UTIL{Hostname=~"dcgm-.*"}', 6, dcgm=world.dcgm(named=lambda node: f"dcgm-exporter-{node[-1]}xyz")
        ),
        _sound_metrics,
        "SeriesWithoutNode",
        ("__meta_kubernetes_pod_node_name",),
        3,
    ),
    Broken(
        "Prometheus renames the labels of links",
        lambda site: _expose(
            site, 'hyperscale_link_latency_seconds{exported_source!=""}', 6, agent=world.links("exported_source", "exported_destination")
        ),
        _sound_metrics,
        "SeriesWithoutPair",
        ("honorLabels: true",),
        3,
        also=frozenset({"LinksMissing"}),
    ),
    Broken(
        "no link is measured",
        lambda site: _expose(site, "hyperscale_link_latency_seconds", 0, agent=""),
        _sound_metrics,
        "LinksMissing",
        ("9465|9466",),
        3,
    ),
    Broken(
        "the agent does not run everywhere",
        _agent_on_two,
        _agent_on_all,
        "AgentPartial",
        ("kubectl", "describe daemonset hyperscale-agent"),
        3,
        also=frozenset({"LinksPartial"}),
    ),
    Broken(
        "nodes carry no topology labels",
        lambda site: _nodes(site, drop=("topology.kubernetes.io/zone", "cloud.provider.com/topology-rack")),
        _nodes,
        "TopologyLabelsMissing",
        ("kubectl label node gpu-1", "topologyLevels"),
        3,
    ),
    Broken(
        "an image cannot be pulled",
        _pull_fails,
        lambda site: site.api.delete(f"/api/v1/namespaces/{world.NAMESPACE}/pods/cora-worker-0", gracePeriodSeconds="0"),
        "ImagePullFailed",
        ("push the image", "workerImage.tag"),
    ),
    Broken("the operator hangs", _stale_lease, _fresh_lease, "LeaseStale", ("rollout restart deployment/hyperscale",)),
    Broken(
        "two operators serve the same namespaces",
        _second_operator,
        lambda site: site.api.delete("/apis/apps/v1/namespaces/team-a/deployments/hyperscale"),
        "OperatorsOverlap",
        ("helm uninstall second -n team-a", "watchNamespaces"),
        also=frozenset({"OperatorDown", "RightMissing"}),
    ),
    Broken(
        "a job waits for a queue and there is no Kueue",
        _queued_job,
        lambda site: site.api.delete("/apis/hyperscale.dev/v1alpha1/namespaces/team-a/gnntrainingjobs/cora"),
        "KueueMissing",
        ("kueue.x-k8s.io/queue-name-", "kubernetes-sigs/kueue"),
    ),
    Broken(
        "mpi-operator's role lacks what a resumed job needs",
        lambda site: _resume_rule(site, False),
        lambda site: _resume_rule(site, True),
        "MpiOperatorCannotResume",
        ("kubectl patch clusterrole mpi-operator", "jobs/status"),
        3,
        runs=True,
    ),
    Broken(
        "a level of the policy is on no node",
        lambda site: _policy_spec(site, {"topologyLevels": ["network.topology.nvidia.com/leaf"]}),
        _sound_metrics,
        "TopologyLevelUnknown",
        ("kubectl patch plannerpolicy default",),
        3,
    ),
    Broken(
        "utilisation is a ratio",
        lambda site: _policy(site, gpuUtilization="DCGM_FI_DEV_GPU_UTIL / 100"),
        _sound_metrics,
        "WrongUnit",
        ("(DCGM_FI_DEV_GPU_UTIL / 100) * 100",),
        runs=True,
    ),
    Broken(
        "a query is no PromQL",
        lambda site: _policy(site, power="sum by (gpu DCGM_FI_DEV_POWER_USAGE"),
        _sound_metrics,
        "QueryRefused",
        ("spec.queries.power",),
    ),
    Broken(
        "a query drops the labels of the node",
        lambda site: _policy(site, temperature="avg by (gpu) (DCGM_FI_DEV_GPU_TEMP)"),
        _sound_metrics,
        "SeriesWithoutNode",
        ("by (Hostname, gpu, UUID)", "temperature"),
        3,
    ),
    Broken(
        "an expression divides by zero",
        lambda site: _policy(site, power="DCGM_FI_DEV_POWER_USAGE / (DCGM_FI_DEV_XID_ERRORS * 0)"),
        _sound_metrics,
        "ValuesUnusable",
        ("test the expression",),
        3,
    ),
    Broken(
        "something else answers where Prometheus should",
        lambda site: None,
        lambda site: None,
        "PrometheusRefused",
        ("/api/v1", "prometheus.url="),
        arguments=("--prometheus", "EXPORTER"),
    ),
    Broken(
        "the agent's token is not there",
        lambda site: _unmounted(site),
        lambda site: site.api.delete(f"/api/v1/namespaces/{world.NAMESPACE}/pods/hyperscale-agent-abcde", gracePeriodSeconds="0"),
        "PodMisconfigured",
        ("kubectl -n hyperscale-system create secret generic hyperscale-agent-token --from-literal=token=",),
    ),
    Broken(
        "Kueue does not manage MPIJobs",
        lambda site: _kueue(site),
        lambda site: _no_kueue(site),
        "KueueWithoutMpiJobs",
        ("kubeflow.org/mpijob", "kueue-manager-config"),
        also=frozenset({"KueueQueueMissing"}),
    ),
)


def _settled(site: Site, broken: Broken) -> tuple[int, str]:
    """The doctor's answer after the fix; a CRD takes a moment to be served again, a role to be in force."""
    last: list[tuple[int, str]] = []

    def gone() -> bool:
        code, report, table = site.doctor(*broken.arguments)
        last.append((code, table))
        return broken.fault not in findings(report)

    wait_until(gone, 60.0, f"{broken.fault} is still found")
    return last[-1]


@pytest.mark.parametrize("broken", SCENARIOS, ids=lambda broken: broken.name)
def test_the_fault_is_found_and_the_right_fix_named(site: Site, broken: Broken) -> None:
    try:
        broken.break_it(site)
        code, report, table = site.doctor(*broken.arguments)
        if broken.runs:
            for command in all_fixes(report, broken.fault):
                run_as_printed(site, command)
            mended, after = _settled(site, broken)
            assert mended == 0, after
    finally:
        broken.mend(site)
    found = findings(report)
    assert broken.fault in found, table
    fix = found[broken.fault]["fix"]
    for text in broken.fix:
        assert any(part in fix for part in text.split("|")), fix
    assert code == broken.code, table
    assert set(found) <= {broken.fault} | broken.also, table
    assert f"fix:   {fix}" in table


def test_prometheus_that_only_the_cluster_can_reach_is_asked_through_the_api_server(site: Site) -> None:
    address = world.own_address()
    if address is None:
        pytest.skip("this machine has no address but loopback, which the API server's proxy refuses")
    with world.forwarded(address, site.url) as port:
        world.put_service(site.api, "monitoring", "prometheus", address, port)
        variable = {"name": "HYPERSCALE_PROMETHEUS_URL", "value": f"http://prometheus.monitoring:{port}"}
        world.set_variable(site.api, variable)
        world.wait_proxied(site.api, f"/api/v1/namespaces/monitoring/services/prometheus:{port}/proxy/api/v1/query?query=1")
        try:
            code, _, table = site.doctor(prometheus=False)
        finally:
            world.set_variable(site.api, {**variable, "value": ""})
            world.remove_service(site.api, "monitoring", "prometheus")
    assert code == 0, table
    assert "asked through the API server" in table


def test_without_a_prometheus_the_one_that_is_in_the_cluster_is_proposed(site: Site) -> None:
    world.put_service(site.api, "monitoring", "kube-prometheus", "192.0.2.1", 9090)
    try:
        code, report, table = site.doctor(prometheus=False)
    finally:
        world.remove_service(site.api, "monitoring", "kube-prometheus")
    found = findings(report)
    assert (code, set(found)) == (3, {"PrometheusNotSet"}), table
    assert "prometheus.url=http://kube-prometheus.monitoring:9090" in found["PrometheusNotSet"]["fix"]


def test_a_clock_that_is_off_is_told_with_what_sets_it_right(site: Site) -> None:
    with PrometheusStub() as stub:
        stub.answer(lambda query, now: [({}, str(now + 3600.0))] if query == "vector(time())" else [])
        _, report, table = site.doctor("--prometheus", stub.url)
    found = findings(report)
    assert found["PrometheusClockSkew"]["state"] == "error", table
    assert "timedatectl" in found["PrometheusClockSkew"]["fix"]


def test_a_user_who_may_read_little_is_told_what_could_not_be_checked(site: Site, plane: ControlPlane) -> None:
    kubeconfig = kubeconfig_path(plane.directory, "scheduler")
    _, report, table = site.doctor("--kubeconfig", str(kubeconfig))
    assert findings(report)["NotChecked"]["state"] == "warning", table
    for check in report["checks"]:
        for one in check["findings"]:
            assert one["fix"], one


def test_an_api_server_that_does_not_answer_is_the_one_finding(site: Site, tmp_path: Path) -> None:
    raw = yaml.safe_load(site.kubeconfig.read_text(encoding="utf-8"))
    raw["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{world.closed_port()}"
    broken = tmp_path / "kubeconfig"
    broken.write_text(yaml.safe_dump(raw), encoding="utf-8")
    code, report, table = site.doctor("--kubeconfig", str(broken))
    assert code == 4
    assert set(findings(report)) == {"ApiUnreachable"}, table


def test_nothing_is_written_by_a_run(site: Site, plane: ControlPlane) -> None:
    site.doctor()
    done = [json.loads(line) for line in plane.audit_log.read_text(encoding="utf-8").splitlines()[-2000:]]
    ours = [one for one in done if "OpenAPI-Generator" in str(one.get("userAgent"))]
    assert ours
    written = {(one["verb"], one["objectRef"]["resource"]) for one in ours if one["verb"] not in ("get", "list", "watch")}
    assert written <= {("create", "subjectaccessreviews"), ("create", "selfsubjectaccessreviews")}
