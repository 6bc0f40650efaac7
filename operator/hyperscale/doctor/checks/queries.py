"""One query's answer to what is wrong with it. Pure."""

from __future__ import annotations

from typing import Final

from hyperscale.doctor.checks.units import wrong_unit
from hyperscale.doctor.common import field_of, set_query
from hyperscale.doctor.facts import Facts
from hyperscale.doctor.faults import Fault, FindingState
from hyperscale.doctor.findings import Finding, finding
from hyperscale.doctor.series import LINK_FIGURES, SeriesFigure, metric_names, selector_labels
from hyperscale.model.metrics_reading import OPTIONAL
from hyperscale.observe.quality import STALE

ALIASES: Final = {
    "Hostname": ("hostname", "node", "instance"),
    "hostname": ("Hostname", "node", "instance"),
    "UUID": ("uuid", "gpu_uuid", "GPU_UUID"),
    "modelName": ("model_name",),
    "model_name": ("modelName",),
    "pod": ("exported_pod",),
    "namespace": ("exported_namespace",),
    "container": ("exported_container",),
    "node": ("exported_node", "kubernetes_node", "hostname", "Hostname"),
}
"""What a label is called elsewhere: dcgm-exporter#655 renamed Hostname, Prometheus prefixes what it will not overwrite."""
SUBSTITUTES: Final = {
    "gpu_utilization": ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "100 * DCGM_FI_PROF_GR_ENGINE_ACTIVE"),
}
NODE_RELABELLING: Final = (
    "give the scrape job relabel_configs: [{source_labels: [__meta_kubernetes_pod_node_name], target_label: node}]; "
    "with a ServiceMonitor: relabelings of the same content"
)
MANY_SHARE: Final = 0.05
"""A few strange series are a node that has just gone."""


def judge_figure(facts: Facts, figure: str, summary: SeriesFigure, main: bool) -> list[Finding | None]:
    """What is wrong with one figure; main: plans suffer without it."""
    if summary.failure is not None:
        return [_refused(figure, summary)]
    if figure in OPTIONAL:
        return []
    if not summary.count:
        return [_empty(facts, figure, summary, FindingState.WARNING if main else None)]
    return [_strangers(figure, summary), wrong_unit(facts, figure, summary) or _unusable(figure, summary), _stale(facts, figure, summary)]


def _refused(figure: str, summary: SeriesFigure) -> Finding:
    reason, message = summary.failure or ("", "")
    slow = reason in ("PrometheusTimeout", "PrometheusBodyTooLarge")
    fix = "write a cheaper expression, e.g. a recording rule, into" if slow else "correct the PromQL in"
    return finding(
        Fault.QUERY_REFUSED,
        f"{field_of(figure)}: `{summary.query}` fails: {message}",
        "it is too expensive" if slow else "Prometheus cannot evaluate it",
        f"{fix} spec.queries.{field_of(figure)} of the PlannerPolicy",
    )


def _empty(facts: Facts, figure: str, summary: SeriesFigure, state: FindingState | None) -> Finding:
    """Why a query has no series: another label, another metric, or nothing exports it."""
    present = [name for name, count in summary.alone.items() if count]
    field = field_of(figure)
    message = f"{field}: `{summary.query}` has no series"
    if present:
        return _renamed(facts, figure, summary, present[0], message)
    name, other = SUBSTITUTES.get(figure, ("", ""))
    if name and (facts.metrics.names or {}).get(name):
        cause = f"the exporter leaves {', '.join(metric_names(summary.query)) or 'it'} out, but has {name}"
        return finding(Fault.METRIC_ABSENT, message, cause, set_query(facts, figure, other))
    cause = "the exporter's list of fields (its CSV) leaves it out, or this GPU does not report it"
    fix = f"add it to the exporter's CSV; or switch the figure off: {set_query(facts, figure, '')}"
    return finding(Fault.QUERY_EMPTY, message, cause, fix, state=state)


def _renamed(facts: Facts, figure: str, summary: SeriesFigure, metric: str, message: str) -> Finding:
    """The metric is there; what the query selects by is not."""
    gone = [label for label in selector_labels(summary.query) if label not in summary.alone_labels]
    if not gone:
        cause = f"{metric} has {summary.alone[metric]:,} series, but none with the values that the query selects"
        fix = f"compare with `{metric}` in Prometheus; without selectors: {set_query(facts, figure, metric)}"
        return finding(Fault.LABEL_RENAMED, message, cause, fix)
    label = gone[0]
    other = next((name for name in ALIASES.get(label, (f"exported_{label}",)) if name in summary.alone_labels), "")
    cause = f"{metric} has series, but no label {label}"
    cause += f"; it has {other} (renamed by the exporter, or by Prometheus without honorLabels)" if other else ""
    query = summary.query.replace(label, other) if other else metric
    return finding(Fault.LABEL_RENAMED, message, cause, set_query(facts, figure, query), (label,))


def _strangers(figure: str, summary: SeriesFigure) -> Finding | None:
    lost = summary.count - summary.placed
    if lost <= MANY_SHARE * summary.count:
        return None
    if figure in LINK_FIGURES:
        return _without_pair(figure, summary, lost)
    shown = {label: value for label, value in summary.strangers[0].items() if label in ("node", "Hostname", "hostname", "instance", "pod")}
    cause = "its labels name no node of this cluster"
    if not any(label in summary.labels for label in ("node", "Hostname", "hostname", "instance")):
        cause = f"the query drops the labels that name the node; it keeps {', '.join(sorted(summary.labels)) or 'none'}"
        fix = f"keep one, e.g. `by (Hostname, gpu, UUID)`, in spec.queries.{field_of(figure)}"
    else:
        pairs = ", ".join(f"{label}={value}" for label, value in sorted(shown.items()))
        cause += f" ({pairs}): a pod's name or address that is gone, or another cluster's"
        fix = NODE_RELABELLING
    message = f"{field_of(figure)}: {lost} of {summary.count:,} series lead to no node"
    return finding(Fault.SERIES_WITHOUT_NODE, message, cause, fix)


def _without_pair(figure: str, summary: SeriesFigure, lost: int) -> Finding:
    message = f"{field_of(figure)}: {lost} of {summary.count:,} series lead to no pair of nodes"
    if {"source", "destination"} <= summary.labels:
        one = summary.strangers[0]
        cause = f"source={one.get('source', '')}, destination={one.get('destination', '')} are no nodes of this cluster"
        fix = "export node names in `source` and `destination`, as the node agent does"
    elif any(label.startswith("exported_") for label in summary.labels):
        cause = (
            "Prometheus renamed the labels to exported_source and exported_destination: honorLabels is off, and targets have such labels"
        )
        fix = "set honorLabels: true on the ServiceMonitor, or honor_labels: true in the scrape job"
    else:
        cause = f"the labels are {', '.join(sorted(summary.labels)) or 'none'}, not `source` and `destination`"
        rename = 'label_replace(…, "source", "$1", "OLD", "(.*)")'
        fix = f"wrap the query in {rename}, for `destination` likewise, in spec.queries.{field_of(figure)}"
    return finding(Fault.SERIES_WITHOUT_PAIR, message, cause, fix)


def _unusable(figure: str, summary: SeriesFigure) -> Finding | None:
    """Values that are no figures, ages aside."""
    bad = {fault: count for fault, count in summary.faults.items() if fault != STALE and "future" not in fault}
    lost = sum(bad.values())
    if lost <= MANY_SHARE * summary.count:
        return None
    shown = ", ".join(f"{count} {fault}" for fault, count in sorted(bad.items()))
    message = f"{field_of(figure)}: {lost} of {summary.count:,} series have no usable value: {shown}"
    cause = "an expression divides by zero, or the exporter writes blank values"
    fix = "see the exporter's /metrics; test the expression in Prometheus; spec.limits of the PlannerPolicy says what is plausible"
    return finding(Fault.VALUES_UNUSABLE, message, cause, fix)


def _stale(facts: Facts, figure: str, summary: SeriesFigure) -> Finding | None:
    limit = facts.policy.limits.max_age_seconds
    old = summary.faults.get(STALE, 0)
    if old <= MANY_SHARE * summary.count or summary.age_seconds is None:
        return None
    return finding(
        Fault.METRICS_STALE,
        f"{field_of(figure)}: {old} of {summary.count:,} samples are older than {limit:g} s (median {summary.age_seconds:.0f} s)",
        "the exporter is scraped too seldom or not any more, or a clock is wrong",
        f"scrape it every 15 s (scrape_interval), or raise spec.limits.maxAgeSeconds above {max(limit, 3 * summary.age_seconds):.0f}",
    )
