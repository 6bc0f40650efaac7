"""Raw objects to the narrow facts that the doctor's checks judge."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import yaml

from hyperscale.doctor.checks.schema import OUR_CRDS, schema_fields
from hyperscale.doctor.common import COMPONENT
from hyperscale.doctor.facts import Crd, JobFacts, LeaseFacts, Pod, PodTrouble, WorkloadFacts
from hyperscale.model import constants

Json = Mapping[str, Any]
MAX_TEXT: Final = 500
_WAITING_IS_FINE: Final = ("ContainerCreating", "PodInitializing", "")


def crd(raw: Json) -> Crd:
    """A CustomResourceDefinition; of other groups without fields."""
    spec, conditions = raw["spec"], (raw.get("status") or {}).get("conditions") or ()
    name = str(raw["metadata"]["name"])
    by_type = {one["type"]: one for one in conditions}
    bad = [str(one.get("message", "")) for one in conditions if one["type"] in ("NamesAccepted", "Established") and one["status"] != "True"]
    fields: frozenset[str] = frozenset()
    if name in OUR_CRDS:
        ours: Json = next((one for one in spec["versions"] if one["name"] == constants.VERSION), {})
        fields = schema_fields((ours.get("schema") or {}).get("openAPIV3Schema") or {})
    return Crd(
        name=name,
        served=tuple(sorted(str(one["name"]) for one in spec["versions"] if one.get("served"))),
        established=by_type.get("Established", {}).get("status") == "True",
        complaint="; ".join(text for text in bad if text)[:MAX_TEXT],
        fields=fields,
    )


def workload(kind: str, raw: Json) -> WorkloadFacts:
    """A Deployment or DaemonSet."""
    metadata, spec, status = raw["metadata"], raw["spec"], raw.get("status") or {}
    pod = spec["template"]["spec"]
    first: Json = next(iter(pod.get("containers") or ()), {})
    daemon = kind == "DaemonSet"
    variables = first.get("env") or ()
    bad = [one for one in status.get("conditions") or () if one.get("type") in ("Available", "Progressing") and one.get("status") != "True"]
    return WorkloadFacts(
        kind=kind,
        namespace=str(metadata["namespace"]),
        name=str(metadata["name"]),
        labels={str(key): str(value) for key, value in (metadata.get("labels") or {}).items()},
        wanted=int(status.get("desiredNumberScheduled") or 0) if daemon else int(spec.get("replicas", 1)),
        ready=int(status.get("numberReady") or 0) if daemon else int(status.get("availableReplicas") or 0),
        images=tuple(str(one.get("image", "")) for one in pod.get("containers") or ()),
        arguments=tuple(map(str, first.get("args") or ())),
        environment={str(one["name"]): str(one["value"]) for one in variables if "value" in one},
        referenced={str(one["name"]): _reference(one["valueFrom"]) for one in variables if one.get("valueFrom")},
        account=str(pod.get("serviceAccountName") or "default"),
        message="; ".join(str(one.get("message", "")) for one in bad)[:MAX_TEXT],
    )


def matters(raw: Json) -> bool:
    """Whether a workload is one that some check looks at: the rest of a cluster is not kept."""
    labels = raw["metadata"].get("labels") or {}
    images = (str(one.get("image", "")).rpartition("/")[2] for one in raw["spec"]["template"]["spec"].get("containers") or ())
    texts = (str(raw["metadata"]["name"]), *images)
    return labels.get("app.kubernetes.io/part-of") == "hyperscale" or any(part in text for part in _PARTS for text in texts)


_PARTS: Final = ("hyperscale", "operator:", "agent:", "mpi-operator", "device-plugin", "gpu-feature-discovery", "gfd", "kueue", "dcgm")


def pod(raw: Json) -> Pod:
    """A pod of ours, with the containers that do not get to run."""
    metadata, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    containers = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    troubles = []
    for one in containers:
        waiting = (one.get("state") or {}).get("waiting") or {}
        if waiting.get("reason", "") not in _WAITING_IS_FINE:
            troubles.append(PodTrouble(str(one.get("image", "")), str(waiting["reason"]), str(waiting.get("message", ""))[:MAX_TEXT]))
    ended = [(one.get("lastState") or {}).get("terminated") or {} for one in containers]
    return Pod(
        namespace=str(metadata["namespace"]),
        name=str(metadata["name"]),
        node=str(spec.get("nodeName") or ""),
        phase=str(status.get("phase") or "Pending"),
        component=str((metadata.get("labels") or {}).get(COMPONENT, "")),
        images=tuple(str(one.get("image", "")) for one in spec.get("containers") or ()),
        troubles=tuple(troubles),
        restarts=max((int(one.get("restartCount") or 0) for one in containers), default=0),
        ended=next((str(one["reason"]) for one in ended if one.get("reason")), ""),
    )


def lease(raw: Json, server_now: float) -> LeaseFacts:
    """A Lease; its silence by the API server's clock."""
    spec = raw.get("spec") or {}
    renewed = seconds_of(spec.get("renewTime"))
    return LeaseFacts(
        namespace=str(raw["metadata"]["namespace"]),
        name=str(raw["metadata"]["name"]),
        holder=str(spec.get("holderIdentity") or ""),
        silent_seconds=1e9 if renewed is None else max(0.0, server_now - renewed),
        duration_seconds=float(spec.get("leaseDurationSeconds") or 15),
    )


def node(raw: Json) -> dict[str, Any]:
    """A v1 Node without images, annotations and managed fields."""
    metadata, status = raw["metadata"], raw.get("status") or {}
    return {
        "metadata": {
            "name": str(metadata["name"]),
            "labels": {str(key): str(value) for key, value in (metadata.get("labels") or {}).items()},
        },
        "spec": {"unschedulable": bool((raw.get("spec") or {}).get("unschedulable"))},
        "status": {
            "addresses": [{"address": str(one.get("address", ""))} for one in status.get("addresses") or ()],
            "conditions": [
                {"type": "Ready", "status": one.get("status")} for one in status.get("conditions") or () if one["type"] == "Ready"
            ],
            **{kind: _nvidia(status.get(kind) or {}) for kind in ("allocatable", "capacity")},
        },
    }


def policy(raw: Json) -> dict[str, Any]:
    """A PlannerPolicy as it is; raises where it has no name."""
    return {**raw, "metadata": {**raw["metadata"], "name": str(raw["metadata"]["name"])}}


def job(raw: Json) -> JobFacts | None:
    """A GNNTrainingJob; None where it has ended."""
    metadata, spec = raw["metadata"], raw.get("spec") or {}
    if (raw.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return None
    return JobFacts(
        namespace=str(metadata["namespace"]),
        name=str(metadata["name"]),
        queue=str((metadata.get("labels") or {}).get(constants.KUEUE_QUEUE_LABEL, "")),
        policy=str((spec.get("policyRef") or {}).get("name") or ""),
        suspended=bool((spec.get("runPolicy") or {}).get("suspend")),
    )


def frameworks(config_map: Json) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """integrations.frameworks and externalFrameworks of Kueue's configuration; None where it names none or cannot be read."""
    for text in (config_map.get("data") or {}).values():
        try:
            read = yaml.safe_load(str(text))
        except (yaml.YAMLError, RecursionError):
            continue
        found = read.get("integrations") if isinstance(read, dict) else None
        if isinstance(found, dict):
            listed = found.get("frameworks")
            own = tuple(map(str, listed)) if isinstance(listed, list) else None
            return own, tuple(map(str, found.get("externalFrameworks") or ()))
    return None, ()


def seconds_of(text: object) -> float | None:
    """Unix seconds of an RFC 3339 time."""
    try:
        return datetime.fromisoformat(str(text).replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None


def _nvidia(amounts: Json) -> dict[str, str]:
    return {str(key): str(value) for key, value in amounts.items() if str(key).startswith("nvidia.com/")}


def _reference(source: Json) -> str:
    """`Secret db, key url`."""
    for kind, shown in (("secretKeyRef", "Secret"), ("configMapKeyRef", "ConfigMap")):
        if kind in source:
            return f"{shown} {source[kind].get('name', '')}, key {source[kind].get('key', '')}"
    return "the pod itself"
