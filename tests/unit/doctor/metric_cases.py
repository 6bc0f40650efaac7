"""Every fault of Prometheus, its series, the exporters and the agents, with facts that show it."""

from __future__ import annotations

from hyperscale.doctor.facts import (
    Metrics,
    Ways,
)
from hyperscale.doctor.faults import Fault
from tests.unit.doctor.doctor_facts import (
    NODES,
    agent,
    changed,
    facts,
    figure,
    metrics,
    mpi_operator,
    operator,
    plugin,
    with_figure,
)
from tests.unit.doctor.fault_case import ERROR, INFO, Case

STRANGER = {"Hostname": "dcgm-exporter-abc", "instance": "10.0.0.9:9400"}
LINKED = {"NVLink": Ways(2, 8)}
BRIDGED = {"NVLink": Ways(4, 16), "System": Ways(8, 8)}


def empty(alone: dict[str, int], labels: set[str] | None = None) -> dict[str, object]:
    return {"count": 0, "placed": 0, "finite": 0, "age_seconds": None, "alone": alone, "alone_labels": frozenset(labels or ())}


def without_gpu_series(**changes: object) -> Metrics:
    figures = {name: figure(name, **empty({})) if not name.startswith("link") else one for name, one in metrics().figures.items()}
    return metrics(**{"figures": figures, "with_series": frozenset(), "frozen": None, **changes})


METRIC_CASES = (
    Case(Fault.NOT_CHECKED, facts(metrics=Metrics("http://p", "through", ("NotPermitted", "services/proxy"))), "port-forward"),
    Case(Fault.PROMETHEUS_CLOCK_SKEW, facts(metrics=metrics(ahead_seconds=-300.0)), "timedatectl", ERROR),
    Case(Fault.PROMETHEUS_NOT_SET, facts(metrics=Metrics(), suggested_prometheus="http://p.m:9090"), "prometheus.url=http://p.m:9090"),
    Case(Fault.PROMETHEUS_UNREACHABLE, facts(metrics=Metrics("http://p", "", ("PrometheusUnreachable", "no"))), "prometheus.url=", ERROR),
    Case(Fault.PROMETHEUS_TIMEOUT, facts(metrics=Metrics("http://p", "", ("PrometheusTimeout", "slow"))), "metricsTimeoutSeconds", ERROR),
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
    Case(Fault.NODES_UNSEEN, facts(metrics=metrics(with_series=frozenset(NODES[:2]))), "spec.nodeName=gpu-3"),
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
        facts(metrics=metrics(agent_states={"GPULost": ("gpu-1",)}, gpu_states={"GPULost": (("gpu-1", "2"),)})),
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
        "spec.workers.resources",
        INFO,
    ),
)
