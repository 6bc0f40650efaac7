"""Installations that are broken in one way each, and the fix that the doctor must name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from e2e.cluster.ports import free_ports
from hyperscale.agent.state import DriverCondition
from tests.api import doctor_breaking as breaking
from tests.api import doctor_scraped as scraped
from tests.api import doctor_world as world
from tests.api.doctor_site import Site


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


SCENARIOS = (
    Broken(
        "a CRD is missing",
        lambda site: breaking.delete_crd(site, "plannerpolicies"),
        lambda site: breaking.restore_crd(site, "plannerpolicies"),
        "CrdMissing",
        ("helm upgrade hyperscale charts/hyperscale -n hyperscale-system", "crds.enabled=true"),
        runs=True,
    ),
    Broken(
        "a CRD is of an older release",
        breaking.age_crd,
        lambda site: breaking.restore_crd(site, "gnntrainingjobs"),
        "CrdOld",
        ("helm upgrade hyperscale", "crds.enabled=true"),
        runs=True,
    ),
    Broken("a right is missing", breaking.without_pod_patch, breaking.with_pod_patch, "RightMissing", ("rbac.create=true", "docs/rbac.md")),
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
    Broken(
        "the device plugin is absent", breaking.no_device_plugin, breaking.device_plugin, "DevicePluginMissing", ("nvidia-device-plugin",)
    ),
    Broken(
        "GPU Feature Discovery is absent",
        lambda site: breaking.nodes(site, drop=("nvidia.com/gpu.product", "nvidia.com/gpu.memory", "nvidia.com/gpu.count")),
        breaking.nodes,
        "GpuLabelsMissing",
        ("gfd.enabled=true",),
        3,
    ),
    Broken(
        "the device plugin shares every GPU by time slicing",
        breaking.time_slicing,
        breaking.nodes,
        "GpusShared",
        ("sharing.timeSlicing", "nvidia.com/device-plugin.config"),
    ),
    Broken(
        "Prometheus is down",
        lambda site: None,
        lambda site: None,
        "PrometheusUnreachable",
        ("prometheus.url=", "--prometheus URL"),
        4,
        ("--prometheus", f"http://127.0.0.1:{free_ports(1)[0]}"),
    ),
    Broken(
        "one query is empty: the exporter leaves the metric out",
        lambda site: breaking.expose(site, "DCGM_FI_DEV_GPU_UTIL", 0, dcgm=scraped.dcgm(leave_out=("DCGM_FI_DEV_GPU_UTIL",))),
        breaking.sound_metrics,
        "QueryEmpty",
        ("CSV", "gpuUtilization"),
        3,
    ),
    Broken(
        "no exporter is scraped",
        lambda site: breaking.expose(site, "DCGM_FI_DEV_GPU_UTIL", 0, dcgm=""),
        breaking.sound_metrics,
        "ExporterMissing",
        ("the exporter's log", "CSV"),
        3,
    ),
    Broken(
        "a query selects by a label that was renamed",
        breaking.old_hostname_query,
        breaking.sound_metrics,
        "LabelRenamed",
        ("kubectl patch plannerpolicy default", "{hostname=~"),
        3,
        runs=True,
    ),
    Broken(
        "memory is in bytes",
        lambda site: breaking.expose(site, "DCGM_FI_DEV_FB_USED > 1e9", 6, dcgm=scraped.dcgm(scale=2.0**20)),
        breaking.sound_metrics,
        "WrongUnit",
        ("/ 1048576", "memoryUsed|memoryFree|memoryReserved"),
        runs=True,
    ),
    Broken(
        "series name pods that nobody knows",
        lambda site: breaking.expose(
            site, 'DCGM_FI_DEV_GPU_UTIL{Hostname=~"dcgm-.*"}', 6, dcgm=scraped.dcgm(named=lambda node: f"dcgm-exporter-{node[-1]}xyz")
        ),
        breaking.sound_metrics,
        "SeriesWithoutNode",
        ("__meta_kubernetes_pod_node_name",),
        3,
    ),
    Broken(
        "a GPU fell off the bus",
        lambda site: breaking.expose(
            site,
            'hyperscale_agent_gpu_state{state="GpuLost"}',
            1,
            agent=scraped.gpu_states("gpu-2", DriverCondition.READY, DriverCondition.GPU_LOST),
        ),
        breaking.sound_metrics,
        "AgentReadsNoGpu",
        ("drain the node and reset or replace the GPU",),
        3,
    ),
    Broken(
        "a driver was exchanged under an agent",
        lambda site: breaking.expose(
            site,
            'hyperscale_agent_state{state="VersionMismatch"}',
            1,
            agent=scraped.driver_state("gpu-3", DriverCondition.VERSION_MISMATCH),
        ),
        breaking.sound_metrics,
        "AgentReadsNoGpu",
        ("restart the agent's pod",),
        3,
    ),
    Broken(
        "the NVLinks of one node are down",
        lambda site: breaking.expose(site, 'hyperscale_gpu_path{kind="System"}', 2, agent=scraped.ways("gpu-2", "System", 1)),
        breaking.sound_metrics,
        "GpuPathsWorse",
        ("nvidia-smi nvlink --status",),
        3,
    ),
    Broken(
        "Prometheus renames the labels of links",
        lambda site: breaking.expose(
            site, 'hyperscale_link_latency_seconds{exported_source!=""}', 6, agent=scraped.links("exported_source", "exported_destination")
        ),
        breaking.sound_metrics,
        "SeriesWithoutPair",
        ("honorLabels: true",),
        3,
        also=frozenset({"LinksMissing"}),
    ),
    Broken(
        "no link is measured",
        lambda site: breaking.expose(site, "hyperscale_link_latency_seconds", 0, agent=""),
        breaking.sound_metrics,
        "LinksMissing",
        ("9465|9466",),
        3,
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
        "MpiOperatorCannotResume",
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
        "utilisation is a ratio",
        lambda site: breaking.policy(site, gpuUtilization="DCGM_FI_DEV_GPU_UTIL / 100"),
        breaking.sound_metrics,
        "WrongUnit",
        ("(DCGM_FI_DEV_GPU_UTIL / 100) * 100",),
        runs=True,
    ),
    Broken(
        "a query is no PromQL",
        lambda site: breaking.policy(site, power="sum by (gpu DCGM_FI_DEV_POWER_USAGE"),
        breaking.sound_metrics,
        "QueryRefused",
        ("spec.queries.power",),
    ),
    Broken(
        "a query drops the labels of the node",
        lambda site: breaking.policy(site, temperature="avg by (gpu) (DCGM_FI_DEV_GPU_TEMP)"),
        breaking.sound_metrics,
        "SeriesWithoutNode",
        ("by (Hostname, gpu, UUID)", "temperature"),
        3,
    ),
    Broken(
        "an expression divides by zero",
        lambda site: breaking.policy(site, power="DCGM_FI_DEV_POWER_USAGE / (DCGM_FI_DEV_XID_ERRORS * 0)"),
        breaking.sound_metrics,
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
        lambda site: breaking.unmounted(site),
        lambda site: site.api.delete(f"/api/v1/namespaces/{world.NAMESPACE}/pods/hyperscale-agent-abcde", gracePeriodSeconds="0"),
        "PodMisconfigured",
        ("kubectl -n hyperscale-system create secret generic hyperscale-agent-token --from-literal=token=",),
    ),
    Broken(
        "Kueue does not manage MPIJobs",
        lambda site: breaking.kueue(site),
        lambda site: breaking.no_kueue(site),
        "KueueWithoutMpiJobs",
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
