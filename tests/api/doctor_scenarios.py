"""Installations that are broken in one way each, and the fix that the doctor must name."""

from __future__ import annotations

from tests.api import doctor_breaking as breaking
from tests.api import doctor_world as world
from tests.api.doctor_broken import Broken
from tests.api.doctor_metric_scenarios import METRIC_SCENARIOS

INSTALLATION_SCENARIOS = (
    Broken(
        "a CRD is missing",
        lambda site: breaking.delete_crd(site, "plannerpolicies"),
        lambda site: breaking.restore_crd(site, "plannerpolicies"),
        "CRDMissing",
        ("helm upgrade hyperscale charts/hyperscale -n hyperscale-system", "crds.enabled=true"),
        runs=True,
    ),
    Broken(
        "a CRD is of an older release",
        breaking.age_crd,
        lambda site: breaking.restore_crd(site, "gnntrainingjobs"),
        "CRDOld",
        ("helm upgrade hyperscale", "crds.enabled=true"),
        runs=True,
    ),
    Broken("a right is missing", breaking.without_pod_patch, breaking.with_pod_patch, "RightMissing", ("rbac.create=true", "docs/rbac.md")),
    Broken(
        "mpi-operator is absent",
        lambda site: site.api.delete(world.MPI),
        lambda site: world.put_mpi_operator(site.api),
        "MPIOperatorMissing",
        ("kubectl apply", "mpi-operator.yaml"),
    ),
    Broken(
        "mpi-operator runs with its default limits",
        lambda site: world.put_mpi_operator(site.api, ()),
        lambda site: world.put_mpi_operator(site.api),
        "MPIOperatorSlow",
        ("kubectl -n mpi-operator patch deployment mpi-operator", "-kube-api-qps=100", "-kube-api-burst=200"),
        3,
        runs=True,
    ),
    Broken(
        "the device plugin is absent", breaking.no_device_plugin, breaking.device_plugin, "DevicePluginMissing", ("nvidia-device-plugin",)
    ),
    Broken(
        "GPU Feature Discovery is absent",
        lambda site: breaking.nodes(site, drop=("nvidia.com/gpu.product", "nvidia.com/gpu.memory", "nvidia.com/gpu.count")),
        breaking.nodes,
        "GPULabelsMissing",
        ("gfd.enabled=true",),
        3,
    ),
    Broken(
        "the device plugin shares every GPU by time slicing",
        breaking.time_slicing,
        breaking.nodes,
        "GPUsShared",
        ("sharing.timeSlicing", "nvidia.com/device-plugin.config"),
    ),
    Broken(
        "the agent does not run everywhere",
        breaking.agent_on_two,
        breaking.agent_on_all,
        "AgentPartial",
        ("kubectl", "describe daemonset hyperscale-agent"),
        3,
        also=frozenset({"LinksPartial"}),
    ),
    Broken(
        "nodes carry no topology labels",
        lambda site: breaking.nodes(site, drop=("topology.kubernetes.io/zone", "cloud.provider.com/topology-rack")),
        breaking.nodes,
        "TopologyLabelsMissing",
        ("kubectl label node gpu-1", "topologyLevels"),
        3,
    ),
    Broken(
        "an image cannot be pulled",
        breaking.pull_fails,
        lambda site: site.api.delete(f"/api/v1/namespaces/{world.NAMESPACE}/pods/cora-worker-0", gracePeriodSeconds="0"),
        "ImagePullFailed",
        ("push the image", "workerImage.tag"),
    ),
    Broken("the operator hangs", breaking.stale_lease, breaking.fresh_lease, "LeaseStale", ("rollout restart deployment/hyperscale",)),
    Broken(
        "two operators serve the same namespaces",
        breaking.second_operator,
        lambda site: site.api.delete("/apis/apps/v1/namespaces/team-a/deployments/hyperscale"),
        "OperatorsOverlap",
        ("helm uninstall second -n team-a", "watchNamespaces"),
        also=frozenset({"OperatorDown", "RightMissing"}),
    ),
    Broken(
        "a job waits for a queue and there is no Kueue",
        breaking.queued_job,
        lambda site: site.api.delete("/apis/hyperscale.dev/v1alpha1/namespaces/team-a/gnntrainingjobs/cora"),
        "KueueMissing",
        ("kueue.x-k8s.io/queue-name-", "kubernetes-sigs/kueue"),
    ),
    Broken(
        "mpi-operator's role lacks what a resumed job needs",
        lambda site: breaking.resume_rule(site, False),
        lambda site: breaking.resume_rule(site, True),
        "MPIOperatorCannotResume",
        ("kubectl patch clusterrole mpi-operator", "jobs/status"),
        3,
        runs=True,
    ),
    Broken(
        "a level of the policy is on no node",
        lambda site: breaking.policy_spec(site, {"topologyLevels": ["network.topology.nvidia.com/leaf"]}),
        breaking.sound_metrics,
        "TopologyLevelUnknown",
        ("kubectl patch plannerpolicy default",),
        3,
    ),
    Broken(
        "the agent's token is not there",
        lambda site: breaking.unmounted(site),
        lambda site: site.api.delete(f"/api/v1/namespaces/{world.NAMESPACE}/pods/hyperscale-agent-abcde", gracePeriodSeconds="0"),
        "PodMisconfigured",
        ("kubectl -n hyperscale-system create secret generic hyperscale-agent-token --from-literal=token=",),
    ),
    Broken(
        "Kueue does not manage MPIJobs",
        lambda site: breaking.kueue(site),
        lambda site: breaking.no_kueue(site),
        "KueueWithoutMPIJobs",
        ("kubeflow.org/mpijob", "kueue-manager-config"),
        also=frozenset({"KueueQueueMissing"}),
    ),
    Broken(
        "a job that cannot be decoded",
        breaking.store_nested_job,
        breaking.remove_nested_job,
        "ObjectsUnusable",
        ("kubectl delete gnntrainingjob nested -n default",),
        3,
    ),
)

SCENARIOS = INSTALLATION_SCENARIOS + METRIC_SCENARIOS
