"""Installations whose metrics are broken in one way each: Prometheus, exporters, queries, the agents' series."""

from __future__ import annotations

from e2e.cluster.ports import free_ports
from hyperscale.agent.state import DriverCondition
from tests.api import doctor_breaking as breaking
from tests.api import doctor_scraped as scraped
from tests.api.doctor_broken import Broken

METRIC_SCENARIOS = (
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
        "series name unknown pods",
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
            'hyperscale_agent_gpu_state{state="GPULost"}',
            1,
            agent=scraped.gpu_states("gpu-2", DriverCondition.READY, DriverCondition.GPU_LOST),
        ),
        breaking.sound_metrics,
        "AgentReadsNoGPU",
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
        "AgentReadsNoGPU",
        ("restart the agent's pod",),
        3,
    ),
    Broken(
        "the NVLinks of one node are down",
        lambda site: breaking.expose(site, 'hyperscale_gpu_path{kind="System"}', 2, agent=scraped.ways("gpu-2", "System", 1)),
        breaking.sound_metrics,
        "GPUPathsWorse",
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
)
