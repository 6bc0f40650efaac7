"""Raw objects to the narrow facts that the doctor's checks judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    versions, conditions = raw["spec"]["versions"], _conditions(raw)
    by_type = {one["type"]: one for one in conditions}
    bad = [str(one.get("message", "")) for one in conditions if one["type"] in ("NamesAccepted", "Established") and one["status"] != "True"]
    name = str(raw["metadata"]["name"])
    return Crd(
        name=name,
        served=tuple(sorted(str(one["name"]) for one in versions if one.get("served"))),
        established=by_type.get("Established", {}).get("status") == "True",
        complaint="; ".join(text for text in bad if text)[:MAX_TEXT],
        fields=_fields(versions) if name in OUR_CRDS else frozenset(),
    )


def _fields(versions: Sequence[Json]) -> frozenset[str]:
    """Fields of the version that this release uses; none where the CRD lacks it."""
    ours: Json = next((one for one in versions if one["name"] == constants.VERSION), {})
    return schema_fields((ours.get("schema") or {}).get("openAPIV3Schema") or {})


def workload(kind: str, raw: Json) -> WorkloadFacts:
    """A Deployment or DaemonSet."""
    metadata, pod = raw["metadata"], raw["spec"]["template"]["spec"]
    first: Json = next(iter(pod.get("containers") or ()), {})
    bad = [one for one in _conditions(raw) if one.get("type") in ("Available", "Progressing") and one.get("status") != "True"]
    wanted, ready = _replicas(kind, raw)
    return WorkloadFacts(
        kind=kind,
        namespace=str(metadata["namespace"]),
        name=str(metadata["name"]),
        labels=_labels(metadata),
        wanted=wanted,
        ready=ready,
        images=_images(pod),
        arguments=tuple(map(str, first.get("args") or ())),
        environment=_plain_variables(first),
        referenced=_referenced_variables(first),
        account=str(pod.get("serviceAccountName") or "default"),
        message="; ".join(str(one.get("message", "")) for one in bad)[:MAX_TEXT],
    )


def _replicas(kind: str, raw: Json) -> tuple[int, int]:
    """Pods wanted and pods ready of a Deployment or DaemonSet."""
    status = raw.get("status") or {}
    if kind == "DaemonSet":
        return int(status.get("desiredNumberScheduled") or 0), int(status.get("numberReady") or 0)
    return int(raw["spec"].get("replicas", 1)), int(status.get("availableReplicas") or 0)


def matters(raw: Json) -> bool:
    """Whether a workload is one that some check looks at: the rest of a cluster is not kept."""
    labels = raw["metadata"].get("labels") or {}
    images = (str(one.get("image", "")).rpartition("/")[2] for one in raw["spec"]["template"]["spec"].get("containers") or ())
    texts = (str(raw["metadata"]["name"]), *images)
    return labels.get("app.kubernetes.io/part-of") == "hyperscale" or any(part in text for part in _PARTS for text in texts)


_PARTS: Final = (
    *("hyperscale", "operator:", "agent:", "mpi-operator", "kueue"),
    *("device-plugin", "dra-driver", "dra-kubelet-plugin", "gpu-feature-discovery", "gfd", "dcgm"),
)


def pod(raw: Json) -> Pod:
    """A pod of ours, with the containers that do not get to run."""
    metadata, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    containers = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    return Pod(
        namespace=str(metadata["namespace"]),
        name=str(metadata["name"]),
        node=str(spec.get("nodeName") or ""),
        phase=str(status.get("phase") or "Pending"),
        component=_labels(metadata).get(COMPONENT, ""),
        images=_images(spec),
        troubles=tuple(trouble for one in containers if (trouble := _trouble(one)) is not None),
        restarts=max((int(one.get("restartCount") or 0) for one in containers), default=0),
        ended=next(filter(None, map(_last_end, containers)), ""),
    )


def _trouble(container: Json) -> PodTrouble | None:
    """Why a container is kept from running; None where it runs, has ended or is being created."""
    waiting = (container.get("state") or {}).get("waiting") or {}
    if waiting.get("reason", "") in _WAITING_IS_FINE:
        return None
    return PodTrouble(str(container.get("image", "")), str(waiting["reason"]), str(waiting.get("message", ""))[:MAX_TEXT])


def _last_end(container: Json) -> str:
    """Reason of a container's last end; "" where there was none."""
    return str(((container.get("lastState") or {}).get("terminated") or {}).get("reason") or "")


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
            "labels": _labels(metadata),
        },
        "spec": {"unschedulable": bool((raw.get("spec") or {}).get("unschedulable"))},
        "status": {
            "addresses": [{"address": str(one.get("address", ""))} for one in status.get("addresses") or ()],
            "conditions": [{"type": "Ready", "status": one.get("status")} for one in _conditions(raw) if one["type"] == "Ready"],
            **{kind: _nvidia(status.get(kind) or {}) for kind in ("allocatable", "capacity")},
        },
    }


def policy(raw: Json) -> dict[str, Any]:
    """A PlannerPolicy as it is; raises where it has no name."""
    return {**raw, "metadata": {**raw["metadata"], "name": str(raw["metadata"]["name"])}}


def job(raw: Json) -> JobFacts | None:
    """A GNNTrainingJob; None where it has ended."""
    metadata, spec = raw["metadata"], raw.get("spec") or {}
    if any(one["type"] in ("Succeeded", "Failed") and one.get("status") == "True" for one in _conditions(raw)):
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
        integrations = read.get("integrations") if isinstance(read, dict) else None
        if isinstance(integrations, dict):
            listed = integrations.get("frameworks")
            own = tuple(map(str, listed)) if isinstance(listed, list) else None
            return own, tuple(map(str, integrations.get("externalFrameworks") or ()))
    return None, ()


def seconds_of(text: object) -> float | None:
    """Unix seconds of an RFC 3339 time."""
    try:
        return datetime.fromisoformat(str(text).replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None


def _conditions(raw: Json) -> Sequence[Json]:
    conditions: Sequence[Json] = (raw.get("status") or {}).get("conditions") or ()
    return conditions


def _labels(metadata: Json) -> dict[str, str]:
    return {str(key): str(value) for key, value in (metadata.get("labels") or {}).items()}


def _images(pod_spec: Json) -> tuple[str, ...]:
    return tuple(str(one.get("image", "")) for one in pod_spec.get("containers") or ())


def _plain_variables(container: Json) -> dict[str, str]:
    return {str(one["name"]): str(one["value"]) for one in container.get("env") or () if "value" in one}


def _referenced_variables(container: Json) -> dict[str, str]:
    return {str(one["name"]): _reference(one["valueFrom"]) for one in container.get("env") or () if one.get("valueFrom")}


def _nvidia(amounts: Json) -> dict[str, str]:
    return {str(key): str(value) for key, value in amounts.items() if str(key).startswith("nvidia.com/")}


def _reference(source: Json) -> str:
    """`Secret db, key url`."""
    for kind, shown in (("secretKeyRef", "Secret"), ("configMapKeyRef", "ConfigMap")):
        if kind in source:
            return f"{shown} {source[kind].get('name', '')}, key {source[kind].get('key', '')}"
    return "the pod itself"
