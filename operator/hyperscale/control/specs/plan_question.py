"""The question about a job, as the operator and the command line both put it to the planners. Pure.

One place for both: a preview differs from the plan wherever the question does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from hyperscale.control.render.pod import worker_template
from hyperscale.control.render.template import RESERVED_VOLUMES, RenderError, worker_node_labels, worker_tolerations
from hyperscale.model import constants
from hyperscale.model.api.job import OBJECT_NAME_HELP, JobSpec, is_object_name
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.history.corrections import Corrections
from hyperscale.model.meta import JobMetadata, RenderDefaults
from hyperscale.model.plan import VOLUME_MISSING, Calibration, Infeasible
from hyperscale.model.planning import NodeRule, PlanRequest, Toleration, node_rule
from hyperscale.model.pods import WORKER
from hyperscale.observe.kube.demand import pod_demand
from hyperscale.planner.problem.affinity import holds
from hyperscale.spec import errors

_ANY_JOB: Final = JobMetadata(namespace="any", name="any", uid="")
_ANY_IMAGE: Final = RenderDefaults(worker_image="any")
"""What a pod asks of its node depends on neither."""
SHOWN_CLAIMS: Final = 3
TEMPLATE: Final = "spec.workers.template.spec"


class WorkerAsks(NamedTuple):
    """What a worker pod asks of its node beside GPUs, as it is rendered."""

    labels: dict[str, str]
    tolerations: tuple[Toleration, ...]
    rules: tuple[NodeRule, ...]
    """Its required node affinity."""
    resources: dict[str, float]
    """Of the whole pod, by name; what is not asked for is left out."""
    claims: tuple[str, ...]
    """PersistentVolumeClaims that it mounts, sorted."""
    apart: bool
    """Its required pod anti-affinity keeps it from nodes with another worker of the job."""


def worker_asks(job: JobSpec, name: str = "any") -> WorkerAsks:
    """What the workers of the job of that name ask; raises render.template.RenderError where the worker template cannot be used."""
    pod = worker_template(replace(_ANY_JOB, name=name), job, None, _ANY_IMAGE)
    spec = pod["spec"]
    try:
        amounts = pod_demand(spec)
    except (ValueError, TypeError, AttributeError) as error:
        raise RenderError(f"{TEMPLATE}.containers", f"the resources cannot be read: {error}") from error
    resources = {name: amount for name, amount in sorted(amounts.items()) if amount > 0 and name != constants.GPU_RESOURCE}
    labels = {**pod["metadata"]["labels"], constants.MPI_JOB_NAME_LABEL: name, constants.MPI_JOB_ROLE_LABEL: WORKER}
    apart = any(_keeps_apart(term, labels) for term in _anti_affinity(spec))
    return WorkerAsks(worker_node_labels(job), worker_tolerations(job), _affinity(spec), resources, _claims(spec), apart)


def missing_volumes(namespace: str, missing: tuple[str, ...]) -> Infeasible:
    """The refusal of a job whose workers mount claims that do not exist: its pods would hold GPUs and never start."""
    listed = ", ".join(f'"{name}"' for name in missing[:SHOWN_CLAIMS])
    what = f"PersistentVolumeClaim {listed} does" if len(missing) == 1 else f"PersistentVolumeClaims {listed} do"
    return Infeasible(VOLUME_MISSING, f"{what} not exist in namespace {namespace}. Create what the job names; it is then planned.")


def question_about(
    key: str,
    job: JobSpec,
    policy: PolicySpec,
    calibration: tuple[Calibration, ...] = (),
    free_gpus: Mapping[str, int] | None = None,
    volumes: tuple[NodeRule, ...] = (),
    corrections: Corrections | None = None,
) -> PlanRequest:
    """The question about a job that has no pods yet.

    key:       namespace/name
    free_gpus: free GPUs by node where they differ from the snapshot
    volumes:   nodes from which the claims of the job can be reached
    corrections: what finished runs taught the cost model, where they choose placements; dropped where a figure is no number
    Raises render.template.RenderError where the job's worker template cannot be used.
    """
    asks = worker_asks(job, key.rpartition("/")[2])
    return PlanRequest(
        job_key=key,
        job=job,
        seed=policy.seed,
        deadline_seconds=policy.plan_deadline_seconds,
        free_gpus=dict(free_gpus or {}),
        required_labels=asks.labels,
        tolerations=asks.tolerations,
        node_rules=(*asks.rules, *volumes),
        apart=asks.apart,
        resources=asks.resources,
        calibration=calibration,
        corrections=corrections if corrections is not None and corrections.finite else None,
    )


def _claims(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the claims among a pod's volumes, sorted; raises RenderError for what is no name.

    The operator reads claims with its own rights, so a path in place of a name would reach what the user must not read.
    What the renderer mounts comes from typed fields of the job's spec, whose names are checked there.
    """
    names = set()
    for index, volume in enumerate(spec.get("volumes") or ()):
        claim = _mapping(_mapping(volume).get("persistentVolumeClaim"))
        name, own = claim.get("claimName"), _mapping(volume).get("name") in RESERVED_VOLUMES
        if "claimName" in claim and not own and not (isinstance(name, str) and is_object_name(name)):
            path = f"{TEMPLATE}.volumes[{index}].persistentVolumeClaim.claimName"
            raise RenderError(path, f"{errors.shown(name)} is no name of a PersistentVolumeClaim; {OBJECT_NAME_HELP}")
        if isinstance(name, str):
            names.add(name)
    return tuple(sorted(names))


def _affinity(spec: Mapping[str, Any]) -> tuple[NodeRule, ...]:
    """The required node affinity of a pod; what is no map is left to the API server, which refuses it."""
    node = _mapping(_mapping(spec.get("affinity")).get("nodeAffinity"))
    required = _mapping(node.get("requiredDuringSchedulingIgnoredDuringExecution"))
    return (node_rule(required),) if required else ()


def _anti_affinity(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Required terms of a pod's anti-affinity to other pods."""
    terms = _mapping(_mapping(spec.get("affinity")).get("podAntiAffinity")).get("requiredDuringSchedulingIgnoredDuringExecution")
    return [_mapping(term) for term in terms] if isinstance(terms, list) else []


def _keeps_apart(term: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a term is about single nodes and selects pods with these labels; one of other namespaces only is none of ours."""
    selector = _mapping(term.get("labelSelector"))
    if term.get("topologyKey") != constants.HOSTNAME_LABEL or "labelSelector" not in term or term.get("namespaces"):
        return False
    further = selector.get("matchExpressions")
    expressions = [*_in(_mapping(selector.get("matchLabels"))), *(further if isinstance(further, list) else ())]
    (wanted,) = node_rule({"nodeSelectorTerms": [{"matchExpressions": expressions}]}).terms
    return all(holds(labels, each) for each in wanted.labels)


def _in(labels: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "operator": "In", "values": [value]} for key, value in labels.items()]


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
