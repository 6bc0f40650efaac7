"""What several checks need: the operator among the workloads, the words of a fix, facts that could not be read. Pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any, Final

from hyperscale.doctor.facts import Facts, Unread, WorkloadFacts, or_empty
from hyperscale.doctor.faults import Fault
from hyperscale.doctor.findings import Finding, finding
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.constants import API_VERSION, POLICY_KIND
from hyperscale.observe.kube.fields import is_gpu_node

PART_OF: Final = "app.kubernetes.io/part-of"
COMPONENT: Final = "app.kubernetes.io/component"
INSTANCE: Final = "app.kubernetes.io/instance"
APP_VERSION: Final = "app.kubernetes.io/version"
DEFAULT_NAMESPACE: Final = "hyperscale-system"
DEFAULT_POLICY: Final = "default"
CHART: Final = "charts/hyperscale"


def unread(fact: object) -> Finding | None:
    """A finding where a fact could not be read, None where it was."""
    if not isinstance(fact, Unread):
        return None
    verb, _, rest = fact.what.partition(" ")
    cause, fix = "the API server did not answer that request", "try again; where it stays, see the API server's log"
    if fact.status in (401, 403):
        right = f"the right to {fact.what} (kubectl auth can-i {verb} {rest.partition(' ')[0]})"
        cause, fix = "your account may not do that", f"ask an administrator for {right}, or let one run this command"
    return finding(Fault.NOT_CHECKED, f"could not {fact.what}: {fact.message}", cause, fix)


def not_available(fault: Fault, one: WorkloadFacts, who: str, selector: str = "") -> Finding | None:
    """A finding where no pod of a Deployment is ready; selector: ends the command that lists its pods."""
    if one.ready:
        return None
    here = f"kubectl -n {one.namespace}"
    cause, fix = "its pod is not ready", f"{here} describe pods{selector}; {here} logs deployment/{one.name}"
    if not one.wanted:
        cause, fix = "it is scaled to 0", f"{here} scale deployment/{one.name} --replicas=1"
    return finding(fault, f"{who} is not available: {one.ready} of {one.wanted} pods ready", one.message or cause, fix, (one.place,))


def operators(facts: Facts) -> tuple[WorkloadFacts, ...]:
    """Deployments of the operator."""
    return tuple(one for one in or_empty(facts.workloads) if one.kind == "Deployment" and _is_ours(one, "operator"))


def agents(facts: Facts) -> tuple[WorkloadFacts, ...]:
    """DaemonSets of the node agent."""
    return tuple(one for one in or_empty(facts.workloads) if one.kind == "DaemonSet" and _is_ours(one, "agent"))


def named(facts: Facts, *parts: str) -> tuple[WorkloadFacts, ...]:
    """Workloads of others whose name or one of whose images contains one of `parts`."""
    return tuple(
        one
        for one in or_empty(facts.workloads)
        if any(part in text for part in parts for text in (one.name, *(image.rpartition("/")[2] for image in one.images)))
    )


def watched(operator: WorkloadFacts) -> tuple[str, ...]:
    """Namespaces that an operator serves; empty for all."""
    return tuple(part.strip() for part in operator.environment.get("HYPERSCALE_WATCH_NAMESPACES", "").split(",") if part.strip())


def helm(facts: Facts, *settings: str, of: WorkloadFacts | None = None) -> str:
    """The command that gives the release other values; of: which release's operator, else the first."""
    operator = of or next(iter(operators(facts)), None)
    release = operator.labels.get(INSTANCE, "hyperscale") if operator else "hyperscale"
    namespace = operator.namespace if operator else DEFAULT_NAMESPACE
    action = "upgrade" if operator else "install"
    reuse = " --reuse-values" if operator else ""
    return f"helm {action} {release} {CHART} -n {namespace}{reuse}" + "".join(f" --set {setting}" for setting in settings)


def version_of(workload: WorkloadFacts) -> str:
    """Its app.kubernetes.io/version, else the tag of its first image; "" where neither tells."""
    return workload.labels.get(APP_VERSION, "") or next((tag_of(image) for image in workload.images), "")


def tag_of(image: str) -> str:
    """Tag of an image reference; "" without one."""
    name = image.partition("@")[0].rpartition("/")[2]
    return name.partition(":")[2]


def gpu_nodes(facts: Facts) -> tuple[dict[str, Any], ...]:
    """Nodes with GPUs, by name."""
    return tuple(sorted((node for node in or_empty(facts.nodes) if is_gpu_node(node)), key=name_of))


def name_of(node: Mapping[str, Any]) -> str:
    """Name of a raw object."""
    return str(node["metadata"]["name"])


def labels_of(node: Mapping[str, Any]) -> dict[str, str]:
    """Labels of a raw object."""
    return {str(key): str(value) for key, value in (node["metadata"].get("labels") or {}).items()}


def policy_set(facts: Facts, spec: Mapping[str, Any]) -> str:
    """The command that sets fields of the default PlannerPolicy, whether it exists or not; safe to paste."""
    if any(name_of(one) == DEFAULT_POLICY for one in or_empty(facts.policies)):
        return f"kubectl patch plannerpolicy {DEFAULT_POLICY} --type=merge -p {_shell({'spec': spec})}"
    whole = {"apiVersion": API_VERSION, "kind": POLICY_KIND, "metadata": {"name": DEFAULT_POLICY}, "spec": spec}
    # A manager for each set of fields: what one manager leaves out of its next apply is taken back.
    parts = sorted(key for value in spec.values() if isinstance(value, Mapping) for key in value) or sorted(spec)
    return f"echo {_shell(whole)} | kubectl apply --server-side --field-manager=doctor-{'-'.join(parts)[:100]} -f -"


def set_query(facts: Facts, figure: str, query: str) -> str:
    """The command that gives a figure another query."""
    return policy_set(facts, {"queries": {field_of(figure): query}})


def field_of(figure: str) -> str:
    """Name of a figure in PlannerPolicy.spec.queries."""
    first, *others = figure.split("_")
    return first + "".join(part.capitalize() for part in others)


def query_of(policy: PolicySpec, figure: str) -> str:
    """The PromQL of a figure; "" where it is off."""
    return str(getattr(policy.queries, figure)).strip()


def _shell(value: object) -> str:
    """JSON as one word of a shell."""
    return shlex.quote(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _is_ours(workload: WorkloadFacts, component: str) -> bool:
    labels = workload.labels
    if labels.get(PART_OF) == "hyperscale" or labels.get("app.kubernetes.io/name") == "hyperscale":
        return labels.get(COMPONENT, "") == component
    return any(image.partition("@")[0].rpartition(":")[0].endswith(f"hyperscale/{component}") for image in workload.images)
