"""Ways to break an installation, and to fix it again."""

from __future__ import annotations

import contextlib
from typing import Any

import yaml

from e2e.cluster.components import wait_established
from e2e.cluster.control_plane import wait_until
from tests.api import doctor_scraped as scraped
from tests.api import doctor_world as world
from tests.api.doctor_site import REPOSITORY, Site

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
JOB_CRD = f"{CRDS}/gnntrainingjobs.hyperscale.dev"
ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/hyperscale"


def restore_crd(site: Site, name: str) -> None:
    path = f"{CRDS}/{name}.hyperscale.dev"
    raw = yaml.safe_load((REPOSITORY / "crds" / f"{name}.hyperscale.dev.yaml").read_text(encoding="utf-8"))
    site.api.apply(path, raw)
    wait_established(site.api, path)


def delete_crd(site: Site, name: str) -> None:
    path = f"{CRDS}/{name}.hyperscale.dev"
    site.api.delete(path)
    wait_until(lambda: site.api.find(path) is None, 60.0, "the CRD is still there")


def age_crd(site: Site) -> None:
    """The CRD of a release that did not know minibatches nor partitions in volumes."""
    path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/partitioning/properties"
    site.api.patch(JOB_CRD, [{"op": "remove", "path": f"{path}/claimName"}])


def rules_of(site: Site) -> list[dict[str, Any]]:
    return list(site.api.get(ROLE)["rules"])


def without_pod_patch(site: Site) -> None:
    rules = rules_of(site)
    for rule in rules:
        if "pods" in rule["resources"]:
            rule["verbs"] = [verb for verb in rule["verbs"] if verb != "patch"]
    site.api.patch(ROLE, {"rules": rules})
    wait_for_rights(site, False)


def with_pod_patch(site: Site) -> None:
    rules = rules_of(site)
    for rule in rules:
        if "pods" in rule["resources"]:
            rule["verbs"] = sorted({*rule["verbs"], "patch"})
    site.api.patch(ROLE, {"rules": rules})
    wait_for_rights(site, True)


def wait_for_rights(site: Site, allowed: bool) -> None:
    wait_for(site, allowed, f"system:serviceaccount:{world.NAMESPACE}:hyperscale", "patch", "", "pods", "")


def wait_for(site: Site, allowed: bool, account: str, verb: str, group: str, resource: str, subresource: str) -> None:
    """The authorizer hears of changed roles through a watch."""
    wanted = {"verb": verb, "group": group, "resource": resource, "subresource": subresource}
    spec = {"user": account, "groups": ["system:serviceaccounts", "system:authenticated"], "resourceAttributes": wanted}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    wait_until(lambda: site.api.create(path, review)["status"]["allowed"] == allowed, 60.0, "the role's change is not in force")


def nodes(site: Site, gpus: int = scraped.GPUS, drop: tuple[str, ...] = ()) -> None:
    for name in scraped.NODES:
        world.put_node(site.api, name, gpus, drop)


def time_slicing(site: Site) -> None:
    """Every GPU is offered four times, as GPU Feature Discovery reports it."""
    nodes(site, gpus=4 * scraped.GPUS)
    labels = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-SHARED", "nvidia.com/gpu.replicas": "4"}
    for name in scraped.NODES:
        site.api.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": labels}})


def no_device_plugin(site: Site) -> None:
    nodes(site, gpus=0)
    site.api.delete(world.PLUGIN)


def device_plugin(site: Site) -> None:
    nodes(site)
    world.put_daemon(site.api, world.PLUGIN, "nvcr.io/nvidia/k8s-device-plugin:v0.17.1", {})


def policy(site: Site, **queries: str) -> None:
    policy_spec(site, {"queries": queries})


def policy_spec(site: Site, spec: dict[str, Any]) -> None:
    body = {"apiVersion": "hyperscale.dev/v1alpha1", "kind": "PlannerPolicy", "metadata": {"name": "default"}, "spec": spec}
    site.api.apply(world.POLICY, body)


def resume_rule(site: Site, there: bool) -> None:
    """kubeflow/mpi-operator#830, and a job that a queue would resume."""
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/mpi-operator"
    rule = {"apiGroups": ["batch"], "resources": ["jobs/status"], "verbs": ["update"]}
    kept = [one for one in site.api.get(path)["rules"] if "jobs/status" not in one["resources"]]
    site.api.patch(path, {"rules": [*kept, rule] if there else kept})
    place = "/apis/hyperscale.dev/v1alpha1/namespaces/team-a/gnntrainingjobs/cora"
    if there:
        site.api.delete(place)
    else:
        job(site, {}, {"runPolicy": {"suspend": True}})
    wait_for(site, there, "system:serviceaccount:mpi-operator:mpi-operator", "update", "batch", "jobs", "status")


def job(site: Site, labels: dict[str, str], more: dict[str, Any]) -> None:
    raw = yaml.safe_load((REPOSITORY / "examples" / "cora-gcn.yaml").read_text(encoding="utf-8").split("\n---")[0])
    raw["metadata"] = {"name": "cora", "namespace": "team-a", "labels": labels}
    raw["spec"] |= more
    site.api.apply("/apis/hyperscale.dev/v1alpha1/namespaces/team-a/gnntrainingjobs/cora", raw)


def unmounted(site: Site) -> None:
    """As helm leaves it when it renders without a cluster: no Secret."""
    place = f"/api/v1/namespaces/{world.NAMESPACE}/pods/hyperscale-agent-abcde"
    world.put_pod(site.api, place, "hyperscale/agent:0.1.0", "agent", {"reason": "ContainerCreating"})
    message = 'MountVolume.SetUp failed for volume "token" : secret "hyperscale-agent-token" not found'
    about = {"kind": "Pod", "namespace": world.NAMESPACE, "name": "hyperscale-agent-abcde"}
    event = {"apiVersion": "v1", "kind": "Event", "metadata": {"generateName": "unmounted-"}, "involvedObject": about}
    site.api.create(
        f"/api/v1/namespaces/{world.NAMESPACE}/events", {**event, "reason": "FailedMount", "message": message, "type": "Warning"}
    )


def kueue(site: Site) -> None:
    """Kueue's API, and its configuration without MPIJobs; a job that waits in a queue that is not there."""
    world.put_kueue(site.api, ("batch/job",))
    job(site, {"kueue.x-k8s.io/queue-name": "team-a"}, {})


def no_kueue(site: Site) -> None:
    site.api.delete("/apis/hyperscale.dev/v1alpha1/namespaces/team-a/gnntrainingjobs/cora")
    world.remove_kueue(site.api)


def expose(site: Site, expression: str, count: int, dcgm: str | None = None, agent: str | None = None) -> None:
    """Change what is scraped and wait until Prometheus has it."""
    site.exporter.dcgm = site.exporter.dcgm if dcgm is None else dcgm
    site.exporter.agent = site.exporter.agent if agent is None else agent
    scraped.wait_scraped(site.url, expression, count)


def old_hostname_query(site: Site) -> None:
    """The policy still selects by the label's old name after an upgrade of dcgm-exporter."""
    expose(site, 'DCGM_FI_DEV_GPU_UTIL{hostname!=""}', 6, dcgm=scraped.dcgm(label="hostname"))
    scraped.wait_scraped(site.url, 'DCGM_FI_DEV_GPU_UTIL{Hostname!=""}', 0)
    policy(site, gpuUtilization='DCGM_FI_DEV_GPU_UTIL{Hostname=~".+"}')


def sound_metrics(site: Site) -> None:
    site.api.delete(world.POLICY)
    site.exporter.dcgm, site.exporter.agent = scraped.dcgm(), scraped.links()
    for expression in (
        'DCGM_FI_DEV_GPU_UTIL{Hostname=~"gpu-.*"}',
        'hyperscale_link_latency_seconds{source=~"gpu-.*"}',
        "DCGM_FI_DEV_FB_USED < 1e6",
    ):
        scraped.wait_scraped(site.url, expression, 6)
    for expression in ('DCGM_FI_DEV_GPU_UTIL{Hostname!~"gpu-.*"}', 'hyperscale_link_latency_seconds{source!~"gpu-.*"}'):
        scraped.wait_scraped(site.url, expression, 0)


def pull_fails(site: Site) -> None:
    waiting = {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "registry.example/hyperscale/worker:9.9": not found'}
    world.put_pod(
        site.api, f"/api/v1/namespaces/{world.NAMESPACE}/pods/cora-worker-0", "registry.example/hyperscale/worker:9.9", "", waiting
    )


def stale_lease(site: Site) -> None:
    site.fresh = False
    world.renew(site.api, seconds_ago=300)


def fresh_lease(site: Site) -> None:
    site.fresh = True
    world.renew(site.api)


def second_operator(site: Site) -> None:
    deployment = site.api.get(world.OPERATOR)
    metadata = {"name": "hyperscale", "namespace": "team-a", "labels": deployment["metadata"]["labels"]}
    metadata["labels"] = {**metadata["labels"], "app.kubernetes.io/version": "0.0.9", "app.kubernetes.io/instance": "second"}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": deployment["spec"]}
    site.api.apply("/apis/apps/v1/namespaces/team-a/deployments/hyperscale", body)


def queued_job(site: Site) -> None:
    """A job with a queue's label where no Kueue is."""
    job(site, {"kueue.x-k8s.io/queue-name": "team-a"}, {})


def agent_on_two(site: Site) -> None:
    world.set_ready(site.api, world.AGENT, 2)
    expose(site, "hyperscale_link_latency_seconds", 2, agent=scraped.links(pairs=2))


def agent_on_all(site: Site) -> None:
    world.set_ready(site.api, world.AGENT)
    sound_metrics(site)


NESTED = "/apis/hyperscale.dev/v1alpha1/namespaces/default/gnntrainingjobs"


def store_nested_job(site: Site) -> None:
    """A job that no decoder of nested values follows; nor does this test's own read the answer."""
    lists = b"[" * 5_000 + b"]" * 5_000
    spec = b'{"model":{"architecture":"GCN"},"dataset":{"source":{"builtin":{"name":"Cora"}}},"workers":'
    kind = b'"apiVersion":"hyperscale.dev/v1alpha1","kind":"GNNTrainingJob"'
    body = b'{%s,"metadata":{"name":"nested"},"spec":%s{"maxReplicas":1,"template":%s}}}'
    with contextlib.suppress(RecursionError):
        site.api.request("POST", NESTED, body % (kind, spec, b'{"spec":{"containers":[{"name":"w","args":%s}]}}' % lists))


def remove_nested_job(site: Site) -> None:
    with contextlib.suppress(RecursionError):
        site.api.delete(f"{NESTED}/nested")
