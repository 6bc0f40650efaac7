"""Pod templates of launcher and workers: the user's own, under what the operator must decide."""

from __future__ import annotations

from typing import Final

from hyperscale.control.render import commands, environment, pod_volumes, template
from hyperscale.control.render.security import harden
from hyperscale.control.render.template import Json, RenderError, mapping_at, mappings_at, text_map_at
from hyperscale.model import constants
from hyperscale.model.api.job import JobSpec, PlacementMode, PlannerChoice
from hyperscale.model.meta import JobMetadata, RenderDefaults
from hyperscale.model.plan import Plan
from hyperscale.model.pods import LAUNCHER, PARTITION, WORKER

PODSET_REQUIRED_TOPOLOGY: Final = "kueue.x-k8s.io/podset-required-topology"
PODSET_PREFERRED_TOPOLOGY: Final = "kueue.x-k8s.io/podset-preferred-topology"
KAI_QUEUE_LABEL: Final = "kai.scheduler/queue"
METRICS_PORT_NAME: Final = "metrics"
ANY_HOST: Final[Json] = {"weight": 1, "preference": {"matchExpressions": [{"key": constants.HOSTNAME_LABEL, "operator": "Exists"}]}}
"""Prefers every node alike. It is there so that the release patch can put the planned node before it without reading the pod's affinity."""


def gated(job: JobSpec, plan: Plan | None) -> bool:
    """Pods wait for the operator: there is a plan and it is to be carried out."""
    return plan is not None and job.planner is not PlannerChoice.NONE and job.placement.mode is not PlacementMode.ADVISORY


def follows_plan(job: JobSpec) -> bool:
    """The launcher starts as many ranks as the plan in force has: image, command and program are ours, its variables alone do not decide.

    Raises RenderError where the user's template cannot be read.
    """
    container = _own_container(job.launcher.template, LAUNCHER)
    return job.model.script is None and not container.get("image") and _lacks_command(container)


def common_labels(metadata: JobMetadata, plan: Plan | None, component: str) -> dict[str, str]:
    """Labels of everything that belongs to the job."""
    labels = {
        "app.kubernetes.io/name": "gnn-training-job",
        "app.kubernetes.io/instance": metadata.name,
        "app.kubernetes.io/component": component,
        "app.kubernetes.io/part-of": "hyperscale",
        constants.MANAGED_BY_LABEL: constants.FIELD_MANAGER,
        constants.JOB_NAME_LABEL: metadata.name,
        constants.JOB_UID_LABEL: metadata.uid,
    }
    if plan is not None:
        labels[constants.PLAN_ID_LABEL] = plan.plan_id
    if KAI_QUEUE_LABEL in metadata.labels:
        labels[KAI_QUEUE_LABEL] = metadata.labels[KAI_QUEUE_LABEL]
    return labels


def runs_own_program(job: JobSpec) -> bool:
    """Whether ranks run what the user wrote instead of the worker's training; raises RenderError where a template cannot be merged."""
    return job.model.script is not None or not _lacks_command(_own_container(job.launcher.template, LAUNCHER))


def _own_container(own: Json, role: str) -> Json:
    """The main container as the user's template of this role has it."""
    path = f"spec.{'workers' if role == WORKER else role}.template"
    return template.main_container(mapping_at(template.own_copy(own, path), "spec", path), role, f"{path}.spec")


def data_template(
    metadata: JobMetadata, job: JobSpec, plan: Plan | None, defaults: RenderDefaults, role: str, command: tuple[str, ...]
) -> Json:
    """Pod template of a Job that reads the graph: the worker's image, account and nodes, without its GPUs, side containers and sshd.

    role: of its pods and its one container; the one that writes partitions mounts their volume

    Raises RenderError where the user's own template cannot be merged.
    """
    path = "spec.workers.template"
    pod, spec = _start(job.workers.template, metadata, plan, role, path)
    container = template.main_container(spec, WORKER, f"{path}.spec")
    container_path = f"{path}.spec.containers[0]"
    for key in ("args", "ports", "readinessProbe", "livenessProbe", "startupProbe", "lifecycle", "resources"):
        container.pop(key, None)
    # A side container that never ends would keep the Job from ending.
    container["name"], spec["containers"] = role, [container]
    container["command"] = list(command)
    container["terminationMessagePolicy"] = "FallbackToLogsOnError"
    _give_image(container, defaults)
    environment.put(container, environment.contract(metadata, job, plan), container_path)
    _give_credentials(container, job, container_path)
    pod_volumes.mount_data(spec, container, job, f"{path}.spec")
    if role == PARTITION:
        pod_volumes.mount_partitions(spec, container, job, f"{path}.spec", read_only=False)
    _constrain_nodes(spec, job, f"{path}.spec")
    spec["restartPolicy"] = "Never"
    return _finish(pod, path)


def worker_template(metadata: JobMetadata, job: JobSpec, plan: Plan | None, defaults: RenderDefaults) -> Json:
    """Pod template of all workers; raises RenderError where the user's own cannot be merged."""
    path = "spec.workers.template"
    pod, spec = _start(job.workers.template, metadata, plan, WORKER, path)
    container = template.main_container(spec, WORKER, f"{path}.spec")
    container_path = f"{path}.spec.containers[0]"
    template.refuse_gpus([entry for entry in template.all_containers(spec, f"{path}.spec") if entry[1] is not container])
    if _lacks_command(container):
        container["command"] = commands.worker_command()
        container.setdefault("ports", [{"name": "ssh", "containerPort": commands.SSH_PORT}])
        container.setdefault("readinessProbe", {"tcpSocket": {"port": commands.SSH_PORT}, "periodSeconds": 1, "failureThreshold": 3})
    _expose_metrics(pod["metadata"], container, container_path)
    _give_resources(container, job, container_path)
    _give_image(container, defaults)
    environment.put(container, environment.contract(metadata, job, plan), container_path)
    environment.put_defaults(container, _device_order(job), container_path)
    _give_credentials(container, job, container_path)
    pod_volumes.mount_data(spec, container, job, f"{path}.spec")
    pod_volumes.mount_run(spec, container, job, f"{path}.spec")
    pod_volumes.mount_plan(spec, container, metadata, plan, f"{path}.spec")
    template.add_toleration(spec, f"{path}.spec")
    _constrain_nodes(spec, job, f"{path}.spec")
    if _queued(metadata) and job.placement.mode is PlacementMode.ADVISORY:
        pod["metadata"]["annotations"].update(_topology_annotations(job))
    if gated(job, plan):
        _gate(spec, constants.PLACEMENT_GATE, f"{path}.spec")
        if job.placement.mode is PlacementMode.PREFERRED:
            _anchor_preference(spec, f"{path}.spec")
    return _finish(pod, path)


def launcher_template(metadata: JobMetadata, job: JobSpec, plan: Plan | None, defaults: RenderDefaults) -> Json:
    """Pod template of the launcher; raises RenderError where the user's own cannot be merged."""
    path = "spec.launcher.template"
    pod, spec = _start(job.launcher.template, metadata, plan, LAUNCHER, path)
    container = template.main_container(spec, LAUNCHER, f"{path}.spec")
    container_path = f"{path}.spec.containers[0]"
    template.refuse_gpus(template.all_containers(spec, f"{path}.spec"))
    variables = environment.contract(metadata, job, plan)
    environment.put(container, variables, container_path)
    environment.put_defaults(container, _device_order(job), container_path)
    own_image = bool(container.get("image"))
    _give_image(container, defaults)
    _give_credentials(container, job, container_path)
    if _lacks_command(container):
        workers = len(plan.workers) if plan is not None else job.workers.max_replicas
        forwarded = environment.forwarded(container, container_path, _secret_name(job) is not None)
        processes = workers * job.workers.gpus_per_worker
        wrapped = job.model.script is None or not own_image
        packaged = not _own_container(job.workers.template, WORKER).get("image")  # another image may be without the worker package
        container["command"] = commands.launcher_command(processes, forwarded, job.model.script, wrapped, packaged)
    pod_volumes.mount_plan(spec, container, metadata, plan, f"{path}.spec")
    if gated(job, plan):
        _gate(spec, constants.LAUNCHER_GATE, f"{path}.spec")
    return _finish(pod, path)


def _start(own: Json, metadata: JobMetadata, plan: Plan | None, component: str, path: str) -> tuple[Json, Json]:
    """The user's template with the operator's labels, and its pod spec."""
    pod = template.own_copy(own, path)
    pod_metadata = mapping_at(pod, "metadata", path)
    for key in sorted(pod_metadata):
        if key not in {"labels", "annotations"}:
            raise RenderError(f"{path}.metadata.{key}", "is set by mpi-operator; a template may have labels and annotations")
    text_map_at(pod_metadata, "labels", f"{path}.metadata").update(common_labels(metadata, plan, component))
    text_map_at(pod_metadata, "annotations", f"{path}.metadata")
    spec = mapping_at(pod, "spec", path)
    mappings_at(spec, "volumes", f"{path}.spec")
    template.refuse_reserved(spec, f"{path}.spec")
    return pod, spec


def _finish(pod: Json, path: str) -> Json:
    """The hardened template, without the empty maps and lists that were needed on the way."""
    harden(pod["metadata"], pod["spec"], path)
    for part, key in ((pod["metadata"], "annotations"), (pod["spec"], "volumes")):
        if not part[key]:
            del part[key]
    return pod


def _device_order(job: JobSpec) -> dict[str, str]:
    """The order of a worker's GPUs; nothing with one GPU, or where the user's worker template has an order: mpirun would hand ours down."""
    own = mappings_at(_own_container(job.workers.template, WORKER), "env", "spec.workers.template.spec.containers[0]")
    stated = {entry.get("name") for entry in own}
    return {} if job.workers.gpus_per_worker == 1 or stated & environment.DEVICE_ORDER.keys() else environment.DEVICE_ORDER


def _lacks_command(container: Json) -> bool:
    return not container.get("command") and not container.get("args")


def _expose_metrics(metadata: Json, container: Json, path: str) -> None:
    """A named port, and the annotations by which Prometheus finds it unless the user says otherwise."""
    ports = mappings_at(container, "ports", path)
    if not any(port.get("name") == METRICS_PORT_NAME or port.get("containerPort") == environment.METRICS_PORT for port in ports):
        ports.append({"name": METRICS_PORT_NAME, "containerPort": environment.METRICS_PORT})
    annotations = metadata["annotations"]
    for key, value in (("scrape", "true"), ("port", str(environment.METRICS_PORT)), ("path", "/metrics")):
        annotations.setdefault(f"prometheus.io/{key}", value)


def _give_image(container: Json, defaults: RenderDefaults) -> None:
    if not container.get("image"):
        container["image"] = defaults.worker_image


def _give_resources(container: Json, job: JobSpec, path: str) -> None:
    """Those of `workers.resources`, GPUs as a limit only since their request follows. Raises RenderError where the template has others."""
    asked = job.workers.resources
    limits: Json = {**asked.limits, constants.GPU_RESOURCE: job.workers.gpus_per_worker}
    template.refuse_other_resources(container, {"limits": limits, "requests": {**limits, **asked.requests}}, path)
    requests = {name: amount for name, amount in asked.requests.items() if name != constants.GPU_RESOURCE}
    container["resources"] = {"limits": limits, **({"requests": requests} if requests else {})}


def _secret_name(job: JobSpec) -> str | None:
    s3 = job.dataset.source.s3
    return s3.secret_ref.name if s3 is not None and s3.secret_ref is not None else None


def _give_credentials(container: Json, job: JobSpec, path: str) -> None:
    """Keys of the bucket by reference: the operator never reads a Secret."""
    if (name := _secret_name(job)) is not None:
        mappings_at(container, "envFrom", path).append({"secretRef": {"name": name}})


def _constrain_nodes(spec: Json, job: JobSpec, path: str) -> None:
    selector = text_map_at(spec, "nodeSelector", path)
    selector.update(job.placement.node_selector)
    if not selector:
        del spec["nodeSelector"]


def _queued(metadata: JobMetadata) -> bool:
    return bool(metadata.labels.get(constants.KUEUE_QUEUE_LABEL))


def _topology_annotations(job: JobSpec) -> dict[str, str]:
    """Kueue takes one of the two; the stronger wins."""
    topology = job.placement.topology
    if topology.required is not None:
        return {PODSET_REQUIRED_TOPOLOGY: topology.required}
    return {PODSET_PREFERRED_TOPOLOGY: topology.preferred} if topology.preferred is not None else {}


def _gate(spec: Json, gate: str, path: str) -> None:
    """Put our gate first; gates of others stay behind it."""
    others = [entry for entry in mappings_at(spec, "schedulingGates", path) if entry.get("name") != gate]
    spec["schedulingGates"] = [{"name": gate}, *others]


def _anchor_preference(spec: Json, path: str) -> None:
    affinity = mapping_at(spec, "affinity", path)
    node = mapping_at(affinity, "nodeAffinity", f"{path}.affinity")
    preferred = mappings_at(node, "preferredDuringSchedulingIgnoredDuringExecution", f"{path}.affinity.nodeAffinity")
    if ANY_HOST not in preferred:
        preferred.append(ANY_HOST)
