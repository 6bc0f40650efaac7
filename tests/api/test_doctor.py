"""`hyperscale doctor` on a real API server and a real Prometheus: a sound installation, and one broken in each of many ways."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster import prometheus
from e2e.cluster.api import Api
from e2e.cluster.components import wait_established
from e2e.cluster.control_plane import ControlPlane, wait_until
from hyperscale.cli.main import main
from tests.api import doctor_world as world

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

    def doctor(self, *arguments: str, prometheus: bool = True) -> tuple[int, dict[str, Any], str]:
        """Exit code, report, and the same report as the table that people see."""
        world.renew(self.api) if self.fresh else None
        asked = ["doctor", "--kubeconfig", str(self.kubeconfig), *(["--prometheus", self.url] if prometheus else []), *arguments]
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            main(asked)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            code = main([*asked, "-o", "json"])
        sys.stdout.write(shown.getvalue())
        return code, json.loads(out.getvalue()), shown.getvalue()

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
            yield Site(api, plane.kubeconfig, exporter, url)
    finally:
        world.remove(api)
        subprocess.run([*helm, "uninstall", "hyperscale", "--ignore-not-found"], capture_output=True, check=False)


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


def _restore_crd(site: Site, name: str) -> None:
    path = f"{CRDS}/{name}.hyperscale.dev"
    raw = yaml.safe_load((REPOSITORY / "crds" / f"{name}.hyperscale.dev.yaml").read_text(encoding="utf-8"))
    site.api.apply(path, raw)
    wait_established(site.api, path)


def _delete_crd(site: Site, name: str) -> None:
    path = f"{CRDS}/{name}.hyperscale.dev"
    site.api.delete(path)
    wait_until(lambda: site.api.find(path) is None, 20.0, "the CRD is still there")


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
    """The authorizer hears of changed roles through a watch."""
    account = f"system:serviceaccount:{world.NAMESPACE}:hyperscale"
    groups = ["system:serviceaccounts", "system:authenticated"]
    spec = {"user": account, "groups": groups, "resourceAttributes": {"verb": "patch", "resource": "pods"}}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    wait_until(lambda: site.api.create(path, review)["status"]["allowed"] == allowed, 15.0, "the role's change is not in force")


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
    body = {"apiVersion": "hyperscale.dev/v1alpha1", "kind": "PlannerPolicy", "metadata": {"name": "default"}, "spec": {"queries": queries}}
    site.api.apply(world.POLICY, body)


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
    raw = yaml.safe_load((REPOSITORY / "examples" / "cora-gcn.yaml").read_text(encoding="utf-8").split("\n---")[0])
    raw["metadata"] = {"name": "cora", "namespace": "team-a", "labels": {"kueue.x-k8s.io/queue-name": "team-a"}}
    site.api.apply("/apis/hyperscale.dev/v1alpha1/namespaces/team-a/gnntrainingjobs/cora", raw)


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
        ("crds.enabled=true", "kubectl apply --server-side"),
    ),
    Broken(
        "a CRD is of an older release",
        _age_crd,
        lambda site: _restore_crd(site, "gnntrainingjobs"),
        "CrdOld",
        ("crds/", "crds.enabled=true"),
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
    ),
    Broken(
        "memory is in bytes",
        lambda site: _expose(site, "DCGM_FI_DEV_FB_USED > 1e9", 6, dcgm=world.dcgm(scale=2.0**20)),
        _sound_metrics,
        "WrongUnit",
        ("/ 1048576", "memoryUsed|memoryFree|memoryReserved"),
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
)


@pytest.mark.parametrize("broken", SCENARIOS, ids=lambda broken: broken.name)
def test_the_fault_is_found_and_the_right_fix_named(site: Site, broken: Broken) -> None:
    try:
        broken.break_it(site)
        code, report, table = site.doctor(*broken.arguments)
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
