"""The Job (batch/v1) that tries a job's code in one limited pod, and the NetworkPolicy around it. Pure.

The pod is the author's: their account, image, nodes and data as their workers have them. It gets less than a worker: no GPU, no Secret but
the data's own, no token of the API server, no checkpoint volume, claims and the root file system read-only, one scratch folder, an end.
"""

from __future__ import annotations

import ipaddress
from typing import Final
from urllib.parse import urlsplit

import msgspec

from hyperscale.control.render import commands, environment
from hyperscale.control.render.batch_jobs import batch_job
from hyperscale.control.render.pod import common_labels, data_template
from hyperscale.control.render.template import Json, all_containers, mapping_at, mappings_at, owner_references, refuse_gpus
from hyperscale.model import constants
from hyperscale.model.api.datasets import graph_bytes, is_sized
from hyperscale.model.api.job import JobSpec, LauncherSpec
from hyperscale.model.api.preflight import preflight_key
from hyperscale.model.api.preflight_report import PREFLIGHT_SECONDS, PREFLIGHT_START_SECONDS
from hyperscale.model.meta import JobMetadata, RenderDefaults
from hyperscale.model.pods import PREFLIGHT
from hyperscale.spec import written
from hyperscale.util.quantity import parse_exact

DEADLINE_SECONDS: Final = PREFLIGHT_SECONDS + PREFLIGHT_START_SECONDS
KEPT_SECONDS: Final = 3600
"""From its end until the Job is deleted; its outcome is in the status by then."""
GRACE_SECONDS: Final = 5
SPEC_FOLDER: Final = "/preflight"
SPEC_FILE: Final = "job.json"
SCRATCH_PATH: Final = "/tmp"  # noqa: S108 - a mount point, not a file
SCRATCH_LIMIT: Final = "4Gi"
DEFAULT_CPU: Final = "4"
DEFAULT_CPU_REQUEST: Final = "500m"
PROGRAM_BYTES: Final = 4 * 2**30
"""Memory of a program without its graph, where the job states no limit."""
COPIES: Final = 4
"""Times that the graph may be in memory, where the job states no limit: as read, as tensors, and as partitioned."""
MEBIBYTE: Final = 2**20
LIMITED: Final[tuple[str, ...]] = ("cpu", "memory", "ephemeral-storage")
"""Resources of a worker that its preflight gets too."""
DNS_PORTS: Final = (53, 5353)
"""CoreDNS, and OpenShift's DNS pods."""
NODE_LOCAL_DNS: Final = "169.254.20.10/32"
SECRETS_DRIVER: Final = "secrets-store.csi.k8s.io"
_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


def object_name(job: str) -> str:
    """Name of Job and NetworkPolicy of a job."""
    return f"{job}-preflight"


def preflight_job(metadata: JobMetadata, job: JobSpec, defaults: RenderDefaults) -> Json:
    """The whole Job; the same arguments give the same object.

    Raises RenderError, with the field's path, where the user's worker template cannot be merged.
    """
    path = "spec.workers.template.spec"
    pod = data_template(metadata, job, None, defaults, PREFLIGHT, _command(job))
    spec = pod["spec"]
    refuse_gpus(all_containers(spec, path))
    _drop_secrets(spec, job, path)
    _mount_scratch(spec, job, path)
    for _, container in all_containers(spec, path):
        mapping_at(container, "securityContext", path)["readOnlyRootFilesystem"] = True
        container["resources"] = _resources(job)
    for volume in mappings_at(spec, "volumes", path):
        for kind in ("persistentVolumeClaim", "csi"):
            if volume.get(kind) is not None:
                volume[kind] = {**volume[kind], "readOnly": True}
    spec["automountServiceAccountToken"] = False
    spec["terminationGracePeriodSeconds"] = GRACE_SECONDS
    mapping_at(pod["metadata"], "annotations", path)[constants.PREFLIGHT_SPEC_ANNOTATION] = _document(metadata, job)
    labels = {**common_labels(metadata, None, PREFLIGHT), constants.PREFLIGHT_KEY_LABEL: preflight_key(job, metadata)}
    rendered = batch_job(metadata, object_name(metadata.name), labels, pod)
    ignored = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    limits = {"backoffLimit": 0, "activeDeadlineSeconds": DEADLINE_SECONDS, "ttlSecondsAfterFinished": KEPT_SECONDS}
    rendered["spec"] |= {**limits, "podFailurePolicy": {"rules": [ignored]}}
    return rendered


def trial_pod(rendered: Json) -> Json:
    """The pod that the Job would make, for a server-side dry run: a quota or an admission policy that refuses it is named at once."""
    metadata, template = rendered["metadata"], rendered["spec"]["template"]
    identity = {"namespace": metadata["namespace"], "name": f"{metadata['name']}-dry-run"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**template["metadata"], **identity}, "spec": template["spec"]}


def network_policy(metadata: JobMetadata, job: JobSpec) -> Json:
    """No connection to the pod, and from it none but to the address of data in a bucket. Volumes are mounted by the node."""
    labels = common_labels(metadata, None, PREFLIGHT)
    selected = {key: labels[key] for key in ("app.kubernetes.io/component", constants.JOB_NAME_LABEL, constants.JOB_UID_LABEL)}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {
            "namespace": metadata.namespace,
            "name": object_name(metadata.name),
            "labels": labels,
            "ownerReferences": owner_references(metadata),
        },
        "spec": {"podSelector": {"matchLabels": selected}, "policyTypes": ["Ingress", "Egress"], "egress": _egress(job)},
    }


def _egress(job: JobSpec) -> list[Json]:
    """Of a bucket's endpoint. A NetworkPolicy knows no names: a named endpoint opens its port, and DNS inside the cluster."""
    s3 = job.dataset.source.s3
    if s3 is None:
        return []
    host, port = _address(s3.endpoint)
    ports = [{"protocol": "TCP", "port": port}]
    try:
        address = ipaddress.ip_network(host)
    except ValueError:
        resolvers = [{"namespaceSelector": {}}, {"ipBlock": {"cidr": NODE_LOCAL_DNS}}]
        asked = [{"protocol": protocol, "port": number} for protocol in ("UDP", "TCP") for number in DNS_PORTS]
        return [{"to": resolvers, "ports": asked}, {"ports": ports}]
    return [{"to": [{"ipBlock": {"cidr": str(address)}}], "ports": ports}]


def _address(endpoint: str | None) -> tuple[str, int]:
    """Host and port of an endpoint; AWS where there is none."""
    parts = urlsplit(endpoint or "https://s3.amazonaws.com")
    default = 80 if parts.scheme == "http" else 443
    try:
        return parts.hostname or "", parts.port or default
    except ValueError:  # no port that there is
        return parts.hostname or "", default


def _command(job: JobSpec) -> tuple[str, ...]:
    source = job.dataset.source
    mounted = source.persistent_volume_claim is not None or source.config_map is not None
    data = ("--data", environment.DATA_PATH) if mounted else ()
    return (*commands.PREFLIGHT_COMMAND, "--spec", f"{SPEC_FOLDER}/{SPEC_FILE}", "--seconds", str(PREFLIGHT_SECONDS), *data)


def _document(metadata: JobMetadata, job: JobSpec) -> str:
    """The GNNTrainingJob as the pod reads it: without templates, of which the pod itself is made."""
    bare = msgspec.structs.replace(job, workers=job.workers.demand(), launcher=LauncherSpec())
    names = {"namespace": metadata.namespace, "name": metadata.name}
    document = {
        "apiVersion": constants.API_VERSION,
        "kind": constants.JOB_KIND,
        "metadata": names,
        "spec": written.write(bare),
    }
    return _ENCODER.encode(document).decode()


def _resources(job: JobSpec) -> Json:
    """A worker's limits without its devices; where it states none, so much that its graph can be trained on."""
    stated = job.workers.resources
    limits: dict[str, str] = {name: stated.limits[name] for name in LIMITED if name in stated.limits}
    requests: dict[str, str] = {name: stated.requests[name] for name in LIMITED if name in stated.requests}
    graph = graph_bytes(job) if is_sized(job) else 0
    memory = f"{-(-(PROGRAM_BYTES + COPIES * graph) // MEBIBYTE)}Mi"
    for name, least in (("cpu", DEFAULT_CPU), ("memory", memory)):
        if name not in limits:  # no limit may be below what is requested
            limits[name] = max(least, requests.get(name, least), key=parse_exact)
    if "cpu" not in {**stated.limits, **stated.requests}:
        requests["cpu"] = DEFAULT_CPU_REQUEST
    return {"limits": limits, **({"requests": requests} if requests else {})}


def _mount_scratch(spec: Json, job: JobSpec, path: str) -> None:
    """The job as a file, and folders to write to: for temporary files, and where checkpoints would be written."""
    container = spec["containers"][0]
    field = {"path": SPEC_FILE, "fieldRef": {"fieldPath": f"metadata.annotations['{constants.PREFLIGHT_SPEC_ANNOTATION}']"}}
    added: list[tuple[str, Json, str]] = [
        ("hyperscale-preflight", {"downwardAPI": {"items": [field]}}, SPEC_FOLDER),
        ("hyperscale-scratch", {"emptyDir": {"sizeLimit": SCRATCH_LIMIT}}, SCRATCH_PATH),
    ]
    if job.checkpoint is not None:
        added.append(("hyperscale-checkpoints", {"emptyDir": {"sizeLimit": SCRATCH_LIMIT}}, environment.CHECKPOINT_PATH))
    mounts, volumes = mappings_at(container, "volumeMounts", path), mappings_at(spec, "volumes", path)
    for name, source, at in added:
        mounts[:] = [mount for mount in mounts if str(mount.get("mountPath")).rstrip("/") != at]
        volumes.append({"name": name, **source})
        mounts.append({"name": name, "mountPath": at})
    if not any(entry.get("name") == "HOME" for entry in mappings_at(container, "env", path)):
        container["env"].append({"name": "HOME", "value": SCRATCH_PATH})


def _drop_secrets(spec: Json, job: JobSpec, path: str) -> None:
    """Leave out every Secret that the user's template brings; the bucket's own stays."""
    s3 = job.dataset.source.s3
    kept = s3.secret_ref.name if s3 is not None and s3.secret_ref is not None else None
    volumes = mappings_at(spec, "volumes", path)
    secret = {str(volume.get("name")) for volume in volumes if _is_secret(volume)}
    volumes[:] = [volume for volume in volumes if str(volume.get("name")) not in secret]
    for at, container in all_containers(spec, path):
        for key, reference in (("volumeMounts", None), ("env", "secretKeyRef"), ("envFrom", "secretRef")):
            entries = mappings_at(container, key, at)
            entries[:] = [entry for entry in entries if not _refers(entry, reference, secret, kept)]


def _refers(entry: Json, reference: str | None, secret: set[str], kept: str | None) -> bool:
    """Whether a mount, a variable or a source of variables takes something from a Secret that the data does not need."""
    if reference is None:
        return str(entry.get("name")) in secret
    named = (entry.get("valueFrom") or {}).get(reference) if reference == "secretKeyRef" else entry.get(reference)
    return bool(named) and (not isinstance(named, dict) or kept is None or named.get("name") != kept)


def _is_secret(volume: Json) -> bool:
    projected = volume.get("projected")
    sources = projected.get("sources") or [] if isinstance(projected, dict) else []
    csi = volume.get("csi")
    return (
        bool(volume.get("secret"))
        or any(source.get("secret") or source.get("serviceAccountToken") for source in sources if isinstance(source, dict))
        or (isinstance(csi, dict) and csi.get("driver") == SECRETS_DRIVER)
    )
