"""Prometheus and every query of the policy: which one is empty, wrong or old, and the likely cause. Pure."""

from __future__ import annotations

from typing import Final

from hyperscale.doctor.checks.queries import judge_figure
from hyperscale.doctor.common import gpu_nodes, helm, name_of, query_of
from hyperscale.doctor.facts import Facts, Metrics
from hyperscale.doctor.faults import Fault
from hyperscale.doctor.findings import CheckResult, Finding, alike, finding, plural, some
from hyperscale.doctor.series import LINK_FIGURES, SeriesFigure
from hyperscale.model.metrics_reading import FIGURES, OPTIONAL

MAIN: Final = ("gpu_utilization", "memory_used", "memory_free")
"""Without these a plan knows neither load nor memory; the others refine it."""
EXPORTERS: Final = ("dcgm", "gpu", "hyperscale")
"""Parts of scrape jobs' names that concern us."""
DCGM: Final = (
    "helm repo add gpu-helm-charts https://nvidia.github.io/dcgm-exporter/helm-charts && "
    "helm upgrade -i dcgm-exporter gpu-helm-charts/dcgm-exporter -n monitoring --set serviceMonitor.enabled=true"
)
NOT_PERMITTED: Final = "NotPermitted"
"""Reason of a failure that says nothing of Prometheus: the caller may not use the API server's proxy."""
LOGIN_NEEDED: Final = "LoginNeeded"
"""Prometheus denies access through the API server's proxy, which passes no credentials on; the operator has some."""
_REASONS: Final = {
    "": (
        Fault.PROMETHEUS_REFUSED,
        "what answers there is no Prometheus, or it wants a login, or another path",
        "write the URL up to, not including, /api/v1: {helm}",
    ),
    LOGIN_NEEDED: (
        Fault.NOT_CHECKED,
        "the operator has credentials for it, which the API server's proxy does not pass on; doctor does not read Secrets",
        "kubectl -n NAMESPACE port-forward service/prometheus 9090, then: hyperscale doctor --prometheus https://localhost:9090 "
        "--prometheus-ca-file FILE --prometheus-token-file FILE (or --prometheus-username-file and --prometheus-password-file)",
    ),
    "PrometheusDenied": (
        Fault.PROMETHEUS_DENIED,
        "it wants a login or a tenant that it was not given",
        "set prometheus.auth or prometheus.tenant: helm upgrade ... --set prometheus.auth.bearerSecret=NAME; see docs/install.md",
    ),
    "PrometheusCredentials": (
        Fault.PROMETHEUS_CREDENTIALS,
        "the file is missing, empty or of another form",
        "name a readable file with --prometheus-ca-file, --prometheus-token-file or its like",
    ),
    NOT_PERMITTED: (
        Fault.NOT_CHECKED,
        "from outside the cluster it is asked through the API server, which takes the right to get services/proxy",
        "kubectl -n NAMESPACE port-forward service/prometheus 9090, then: hyperscale doctor --prometheus http://localhost:9090",
    ),
    "PrometheusUnreachable": (
        Fault.PROMETHEUS_UNREACHABLE,
        "it is down, the URL is wrong, or a NetworkPolicy is in the way",
        "check that Prometheus runs and that the URL names its Service: {helm}; "
        "from outside the cluster use --prometheus URL with a port-forward",
    ),
    "PrometheusTimeout": (
        Fault.PROMETHEUS_TIMEOUT,
        "it is overloaded, or packets to it are dropped",
        "look at Prometheus' own load; raise spec.metricsTimeoutSeconds of the PlannerPolicy if it is only slow",
    ),
    "PrometheusBodyTooLarge": (
        Fault.PROMETHEUS_BODY_TOO_LARGE,
        "a query matches far more series than this cluster has GPUs",
        "narrow spec.queries of the PlannerPolicy, e.g. by a cluster label",
    ),
}


def prometheus(facts: Facts) -> CheckResult:
    """Set, reachable, and its targets up."""
    metrics = facts.metrics
    if not metrics.url:
        return "not set", [_not_set(facts)]
    if metrics.failure is not None:
        return f"{metrics.url} asked {metrics.way}", [_failure(facts, metrics, *metrics.failure)]
    targets = sum(up + down for _, up, down in metrics.targets)
    summary = f"{metrics.url} asked {metrics.way}, {plural(targets, 'target')}"
    return summary, [_targets(metrics)]


def queries(facts: Facts) -> CheckResult:
    """Every query of the default policy."""
    metrics = facts.metrics
    if not metrics.url or metrics.failure is not None:
        return "not asked: no Prometheus answers", []
    wanted = [figure for figure in FIGURES if query_of(facts.policy, figure)]
    missing = _all_missing(facts, wanted)
    findings = [missing]
    for figure in _judged(facts, wanted, missing):
        findings += judge_figure(facts, figure, metrics.figures[figure], figure in MAIN)
    findings += [_frozen(metrics), _unseen(metrics, [name_of(node) for node in gpu_nodes(facts)])]
    return _answered(metrics, wanted), alike(one for one in findings if one is not None)


def _judged(facts: Facts, wanted: list[str], missing: Finding | None) -> list[str]:
    """Figures that get findings of their own; missing: the finding that stands for all GPU figures."""
    judged = [figure for figure in wanted if figure in facts.metrics.figures and not _is_links_affair(facts, figure)]
    return judged if missing is None else [figure for figure in judged if figure in LINK_FIGURES]


def _answered(metrics: Metrics, wanted: list[str]) -> str:
    """How many of the figures that plans need have series."""
    needed = [figure for figure in wanted if figure not in OPTIONAL]
    full = sum(metrics.figures[figure].count > 0 for figure in needed if figure in metrics.figures)
    series = sum(one.count for one in metrics.figures.values())
    return f"{full} of {plural(len(needed), 'figure')} with series, {series:,} series in all"


def _not_set(facts: Facts) -> Finding:
    guess = facts.suggested_prometheus
    fix = helm(facts, f"prometheus.url={guess or 'http://prometheus.monitoring:9090'}")
    cause = f"prometheus.url is empty; {guess} looks like one" if guess else "prometheus.url is empty"
    message = "no Prometheus is set: plans are made from labels only, and jobs show Degraded"
    return finding(Fault.PROMETHEUS_NOT_SET, message, cause, fix)


def _failure(facts: Facts, metrics: Metrics, reason: str, message: str) -> Finding:
    url = helm(facts, f"prometheus.url={facts.suggested_prometheus or 'http://prometheus.monitoring:9090'}")
    fault, cause, fix = _REASONS.get(reason, _REASONS[""])
    return finding(fault, f"{metrics.url}: {message}", cause, fix.format(helm=url))


def _targets(metrics: Metrics) -> Finding | None:
    """Scrape jobs of exporters that matter with targets down."""
    down = {job: (up, gone) for job, up, gone in metrics.targets if gone and any(part in job.lower() for part in EXPORTERS)}
    if not down:
        return None
    lost = sum(gone for _, gone in down.values())
    return finding(
        Fault.TARGETS_DOWN,
        f"{plural(lost, 'target')} down in {some(f'{job} ({gone} of {up + gone})' for job, (up, gone) in down.items())}",
        "the exporter's pod is down or its port is closed to Prometheus (NetworkPolicy)",
        f"see the error on {metrics.url}/targets; kubectl get pods -A -o wide | grep -e {min(down)}",
        down,
    )


def _is_links_affair(facts: Facts, figure: str) -> bool:
    """The check of links reports an empty link query, with the agent's state."""
    summary = facts.metrics.figures.get(figure)
    return figure in LINK_FIGURES and summary is not None and _has_nothing(summary)


def _all_missing(facts: Facts, wanted: list[str]) -> Finding | None:
    """One finding where no GPU query has anything, in place of seven."""
    metrics = facts.metrics
    asked = [metrics.figures[figure] for figure in wanted if figure not in (*LINK_FIGURES, *OPTIONAL) and figure in metrics.figures]
    if not asked or not all(map(_has_nothing, asked)):
        return None
    cause, fix = _why_all_missing(facts)
    message = f"none of {plural(len(asked), 'GPU query').replace('querys', 'queries')} has a series"
    return finding(Fault.EXPORTER_MISSING, message, cause, fix)


def _has_nothing(summary: SeriesFigure) -> bool:
    """Whether a query was answered without series, and so were its metrics alone."""
    return summary.failure is None and not summary.count and not any(summary.alone.values())


def _why_all_missing(facts: Facts) -> tuple[str, str]:
    """Cause and fix: metrics of other names, an exporter without DCGM's fields, or no exporter."""
    metrics = facts.metrics
    others = [name for name, count in sorted((metrics.names or {}).items()) if count and not name.startswith("hyperscale_")]
    jobs = [job for job, _, _ in metrics.targets if "dcgm" in job.lower() or "gpu" in job.lower()]
    if others:
        cause = f"Prometheus has GPU metrics of other names: {some(others)}"
        return cause, "write them into spec.queries of the PlannerPolicy; docs/explanation/observe.md lists the units"
    if jobs:
        cause = f"scrape job {some(jobs)} has targets, but no DCGM series"
        return cause, "see the exporter's log; DCGM fields that its CSV leaves out are not exported"
    cause = "no dcgm-exporter is scraped: it is not installed, or no ServiceMonitor or scrape job selects it"
    return cause, f"{DCGM}; or the node agent: {helm(facts, 'agent.enabled=true')}"


def _frozen(metrics: Metrics) -> Finding | None:
    if metrics.frozen is None or not metrics.frozen[0]:
        return None
    still, asked = metrics.frozen
    return finding(
        Fault.METRICS_FROZEN,
        f"the power of {still} of {plural(asked, 'GPU')} has not moved at all for 15 minutes",
        "the exporter serves old values, as after a restart of the host engine, while its health check is fine",
        "restart it: kubectl -n NAMESPACE rollout restart daemonset dcgm-exporter",
    )


def _unseen(metrics: Metrics, nodes: list[str]) -> Finding | None:
    """GPU nodes without series where others have some."""
    unseen = [name for name in nodes if name not in metrics.with_series]
    if not metrics.with_series or not unseen:
        return None
    return finding(
        Fault.NODES_UNSEEN,
        f"{len(unseen)} of {plural(len(nodes), 'GPU node')} have no GPU series: {some(unseen)}",
        "no exporter runs there (its DaemonSet does not tolerate a taint or does not select the node), or it is not scraped",
        f"kubectl get pods -A -o wide --field-selector spec.nodeName={min(unseen)} | grep -e dcgm -e agent",
        unseen,
    )
