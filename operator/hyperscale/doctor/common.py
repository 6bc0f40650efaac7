"""What several checks need: the operator among the workloads, the words of a fix, facts that could not be read. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hyperscale.doctor.facts import Facts, Unread, Workload, known
from hyperscale.doctor.faults import Fault
from hyperscale.doctor.findings import Finding, State
from hyperscale.model.policy import PolicySpec
from hyperscale.observe.kube import is_gpu_node

PART_OF: Final = "app.kubernetes.io/part-of"
COMPONENT: Final = "app.kubernetes.io/component"
INSTANCE: Final = "app.kubernetes.io/instance"
APP_VERSION: Final = "app.kubernetes.io/version"
DEFAULT_NAMESPACE: Final = "hyperscale-system"
CHART: Final = "charts/hyperscale"


def unread(check: str, fact: object) -> Finding | None:
    """A finding where a fact could not be read, None where it was."""
    if not isinstance(fact, Unread):
        return None
    refused = fact.status in (401, 403)
    verb, _, rest = fact.what.partition(" ")
    fix = (
        f"ask an administrator for the right to {fact.what} (kubectl auth can-i {verb} {rest.partition(' ')[0]}), "
        "or let one run this command"
        if refused
        else "try again; where it stays, see the API server's log"
    )
    cause = "your account may not do that" if refused else "the API server did not answer that request"
    return Finding(check, Fault.NOT_CHECKED, State.WARNING, f"could not {fact.what}: {fact.message}", cause, fix)


def operators(facts: Facts) -> tuple[Workload, ...]:
    """Deployments of the operator."""
    return tuple(one for one in known(facts.workloads) if one.kind == "Deployment" and _is_ours(one, "operator"))


def agents(facts: Facts) -> tuple[Workload, ...]:
    """DaemonSets of the node agent."""
    return tuple(one for one in known(facts.workloads) if one.kind == "DaemonSet" and _is_ours(one, "agent"))


def named(facts: Facts, *parts: str) -> tuple[Workload, ...]:
    """Workloads of others whose name or one of whose images contains one of `parts`."""
    return tuple(
        one
        for one in known(facts.workloads)
        if any(part in text for part in parts for text in (one.name, *(image.rpartition("/")[2] for image in one.images)))
    )


def watched(operator: Workload) -> tuple[str, ...]:
    """Namespaces that an operator serves; empty for all."""
    return tuple(part.strip() for part in operator.environment.get("HYPERSCALE_WATCH_NAMESPACES", "").split(",") if part.strip())


def helm(facts: Facts, *settings: str) -> str:
    """The command that gives the release other values."""
    operator = next(iter(operators(facts)), None)
    release = operator.labels.get(INSTANCE, "hyperscale") if operator else "hyperscale"
    namespace = operator.namespace if operator else DEFAULT_NAMESPACE
    action = "upgrade" if operator else "install"
    reuse = " --reuse-values" if operator else ""
    return f"helm {action} {release} {CHART} -n {namespace}{reuse}" + "".join(f" --set {setting}" for setting in settings)


def version_of(workload: Workload) -> str:
    """Its app.kubernetes.io/version, else the tag of its first image; "" where neither tells."""
    return workload.labels.get(APP_VERSION, "") or next((tag_of(image) for image in workload.images), "")


def tag_of(image: str) -> str:
    """Tag of an image reference; "" without one."""
    name = image.partition("@")[0].rpartition("/")[2]
    return name.partition(":")[2]


def gpu_nodes(facts: Facts) -> tuple[dict[str, Any], ...]:
    """Nodes with GPUs, by name."""
    return tuple(sorted((node for node in known(facts.nodes) if is_gpu_node(node)), key=name_of))


def name_of(node: Mapping[str, Any]) -> str:
    """Name of a raw object."""
    return str(node["metadata"]["name"])


def labels_of(node: Mapping[str, Any]) -> dict[str, str]:
    """Labels of a raw object."""
    return {str(key): str(value) for key, value in (node["metadata"].get("labels") or {}).items()}


def policy_set(field: str, value: str) -> str:
    """The command that sets one field of the default PlannerPolicy's queries."""
    quoted = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'kubectl patch plannerpolicy default --type=merge -p \'{{"spec":{{"queries":{{"{field}":"{quoted}"}}}}}}\''


def query_of(policy: PolicySpec, figure: str) -> str:
    """The PromQL of a figure; "" where it is off."""
    return str(getattr(policy.queries, figure)).strip()


def _is_ours(workload: Workload, component: str) -> bool:
    labels = workload.labels
    if labels.get(PART_OF) == "hyperscale" or labels.get("app.kubernetes.io/name") == "hyperscale":
        return labels.get(COMPONENT, "") == component
    return any(image.partition("@")[0].rpartition(":")[0].endswith(f"hyperscale/{component}") for image in workload.images)
