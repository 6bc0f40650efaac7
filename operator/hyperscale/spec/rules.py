"""Rules between the fields of a job, once for both places that check them: Python here and in parse.py, CEL in the CRD.

A rule holds the same words on both sides, so that a user reads the same sentence from `kubectl apply` and from `hyperscale plan`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from hyperscale.model.api.datasets import BUILTIN_SIZES
from hyperscale.model.api.job import MAX_GPUS_PER_WORKER, Architecture, Direction, JobSpec, PartitioningMethod, PlannerChoice, StartPolicy
from hyperscale.model.constants import GPU_RESOURCE
from hyperscale.util.quantity import parse_exact

MAX_NAME_LENGTH: Final = 50
"""mpi-operator needs <name>-worker-<rank> to be a DNS label: 63 - len("-worker-999") leaves 52; two are kept for names to come."""

NAME_PATTERN: Final = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"
"""RFC 1035 label: a Service of the same name must be possible."""

DOMAIN: Final = "/"
"""In the name of an extended resource, such as nvidia.com/gpu or rdma/hca."""

NAME_HELP: Final = f"write at most {MAX_NAME_LENGTH} characters of a-z, 0-9 and -, first a letter, last no -"

SAME_STAGE: Final = "a stage is not compared with itself; write another stage"
ONE_UPLINK_FIGURE: Final = "write either bytesPerSecond or oversubscription"
"""Of an uplink of a policy; `crd.py` has it in CEL."""
PAIRS_ONCE: Final = "write each pair of stages once, in either order"
"""Of a policy's comparisons; `crd.py` has both in CEL."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One statement about a `spec` that its schema alone cannot make."""

    path: str
    """Field to name in the error, below `spec`."""
    message: str
    """What is wrong and what to write instead."""
    cel: str
    """True when the rule holds; `self` is the spec."""
    holds: Callable[[JobSpec], bool]
    """The same in Python."""
    detail_cel: tuple[str, str] | None = None
    """Format and arguments of a text with the values at hand, put before `message`; `string(x) + ...` would be over CEL's cost budget."""
    detail: Callable[[JobSpec], str] | None = None
    """The same in Python; given exactly when `detail_cel` is."""
    required: bool = False
    """The error is a missing field, not a wrong one."""


def _some_count_divides(job: JobSpec) -> bool:
    """The ranks of some worker count between min and max divide the partition count, so that every rank gets equally many parts."""
    count, workers = job.partitioning.count, job.workers
    return count is None or any(
        count % (number * workers.gpus_per_worker) == 0 for number in range(workers.min_replicas, workers.max_replicas + 1)
    )


def _has_one_source(job: JobSpec) -> bool:
    source = job.dataset.source
    return (
        sum(given is not None for given in (source.persistent_volume_claim, source.s3, source.config_map, source.builtin, source.generated))
        == 1
    )


def _is_stored(job: JobSpec) -> bool:
    return job.dataset.source.builtin is None and job.dataset.source.generated is None


def _states_its_graph(job: JobSpec) -> bool:
    """Whether only the job can know its graph: it asks for one, or its own script reads what no reader of ours may know."""
    own_script = job.model.architecture is Architecture.CUSTOM and job.model.script is not None
    return job.dataset.source.generated is not None or own_script


def _dataset_rule(name: str, holds: Callable[[JobSpec], bool]) -> Rule:
    return Rule(
        path=f"dataset.{name}",
        message=f"required with dataset.source.generated, and for a stored graph with architecture Custom and model.script; write {name}",
        cel=f"has(self.dataset.{name}) || has(self.dataset.source.builtin) || !(has(self.dataset.source.generated) "
        "|| (self.model.architecture == 'Custom' && has(self.model.script)))",
        holds=lambda job: holds(job) or job.dataset.source.builtin is not None or not _states_its_graph(job),
        required=True,
    )


def _has_builtin_sizes(job: JobSpec) -> bool:
    """Whether every size that a job on a builtin graph states is the graph's own."""
    if job.dataset.source.builtin is None:
        return True
    graph_size = BUILTIN_SIZES[job.dataset.source.builtin.name]
    stated = {name: getattr(job.dataset, name) for name in graph_size._fields}
    return all(size is None or size == getattr(graph_size, name) for name, size in stated.items())


def _builtin_sizes_cel() -> str:
    """The same in CEL."""
    fields = {"vertices": "vertices", "edges": "edges", "featureSize": "feature_size", "classes": "classes"}
    stated = " && ".join(
        f"(!has(self.dataset.{field}) || self.dataset.{field} == {{"
        + ", ".join(f"'{graph}': {getattr(size, name)}" for graph, size in BUILTIN_SIZES.items())
        + "}[self.dataset.source.builtin.name])"
        for field, name in fields.items()
    )
    return f"!has(self.dataset.source.builtin) || {stated}"


def _gpus_are_whole(job: JobSpec) -> bool:
    """The limit of GPUs, where there is one, is a whole number that a worker can have."""
    number = parse_exact(job.workers.resources.limits.get(GPU_RESOURCE, "1"))
    return number == int(number) and 1 <= number <= MAX_GPUS_PER_WORKER


def _devices_are_whole(job: JobSpec) -> bool:
    """Extended resources are integers (API validation, ValidateResourceQuantityValue)."""
    amounts = job.workers.resources.limits.items()
    return all(parse_exact(amount) == int(parse_exact(amount)) for name, amount in amounts if DOMAIN in name)


def _device_requests_equal_limits(job: JobSpec) -> bool:
    """Extended resources cannot be overcommitted."""
    limits, requests = job.workers.resources.limits, job.workers.resources.requests
    return all(parse_exact(amount) == parse_exact(limits.get(name, "0")) for name, amount in requests.items() if DOMAIN in name)


def _requests_are_within_limits(job: JobSpec) -> bool:
    limits, requests = job.workers.resources.limits, job.workers.resources.requests
    return all(parse_exact(requests[name]) <= parse_exact(limits[name]) for name in requests.keys() & limits.keys())


_DIGITS: Final = "[" + ",".join(str(digit) for digit in range(32)) + "]"
"""CEL has no range(): 32 x 32 pairs of these count to 1023, past MAX_WORKERS."""

_LIMITS: Final = "self.workers.resources.limits"
_REQUESTS: Final = "self.workers.resources.requests"
_GPU: Final = f"'{GPU_RESOURCE}'"
_GPU_LIMIT: Final = f"quantity(string({_LIMITS}[{_GPU}]))"
_HAS_GPU_LIMIT: Final = f"({_GPU} in {_LIMITS} && isQuantity(string({_LIMITS}[{_GPU}])))"
_GPUS: Final = f"({_HAS_GPU_LIMIT} && {_GPU_LIMIT}.isInteger() ? {_GPU_LIMIT}.asInteger() : 1)"
"""Of a worker; 1 too where another rule refuses the limit."""
JOB_RULES: Final[tuple[Rule, ...]] = (
    Rule(
        path="workers.maxReplicas",
        message="raise maxReplicas or lower minReplicas",
        cel="self.workers.minReplicas <= self.workers.maxReplicas",
        holds=lambda job: job.workers.min_replicas <= job.workers.max_replicas,
        detail_cel=("%d is below spec.workers.minReplicas: %d", "self.workers.maxReplicas, self.workers.minReplicas"),
        detail=lambda job: f"{job.workers.max_replicas} is below spec.workers.minReplicas: {job.workers.min_replicas}",
    ),
    Rule(
        path="dataset.source",
        message="give exactly one of persistentVolumeClaim, s3, configMap, builtin, generated",
        cel="[has(self.dataset.source.persistentVolumeClaim), has(self.dataset.source.s3), has(self.dataset.source.configMap), "
        "has(self.dataset.source.builtin), has(self.dataset.source.generated)].exists_one(given, given)",
        holds=_has_one_source,
    ),
    _dataset_rule("vertices", lambda job: job.dataset.vertices is not None),
    _dataset_rule("edges", lambda job: job.dataset.edges is not None),
    _dataset_rule("featureSize", lambda job: job.dataset.feature_size is not None),
    _dataset_rule("classes", lambda job: job.dataset.classes is not None),
    Rule(
        path="model.parameters",
        message="required for architecture Custom; write the number of trainable parameters",
        cel="self.model.architecture != 'Custom' || has(self.model.parameters)",
        holds=lambda job: job.model.architecture is not Architecture.CUSTOM or job.model.parameters is not None,
        required=True,
    ),
    Rule(
        path="model.fanouts",
        message="write one fanout for each layer, or none to train on whole neighbourhoods",
        cel="self.model.fanouts.size() == 0 || self.model.fanouts.size() == self.model.layers",
        holds=lambda job: len(job.model.fanouts) in (0, job.model.layers),
        detail_cel=("%d fanouts for spec.model.layers: %d", "self.model.fanouts.size(), self.model.layers"),
        detail=lambda job: f"{len(job.model.fanouts)} fanouts for spec.model.layers: {job.model.layers}",
    ),
    Rule(
        path="model.batchSize",
        message="required with fanouts; write the seed vertices per step and GPU, or drop fanouts to train full graph",
        cel="self.model.fanouts.size() == 0 || has(self.model.batchSize)",
        holds=lambda job: not job.model.fanouts or job.model.batch_size is not None,
        required=True,
    ),
    Rule(
        path="workers.resources.limits",
        message=f"{GPU_RESOURCE} is the number of GPUs of a worker; write a whole number from 1 to {MAX_GPUS_PER_WORKER}",
        cel=f"!{_HAS_GPU_LIMIT} || {_GPU_LIMIT}.isInteger() && {_GPU_LIMIT}.asInteger() >= 1 "
        f"&& {_GPU_LIMIT}.asInteger() <= {MAX_GPUS_PER_WORKER}",
        holds=_gpus_are_whole,
    ),
    Rule(
        path="workers.resources.limits",
        message=f"there are no parts of a device; write a whole number of each resource with a domain, such as {GPU_RESOURCE}",
        cel=f"{_LIMITS}.all(name, !name.contains('{DOMAIN}') || !isQuantity(string({_LIMITS}[name])) "
        f"|| quantity(string({_LIMITS}[name])).isInteger())",
        holds=_devices_are_whole,
    ),
    Rule(
        path="workers.resources.requests",
        message=f"the request of a resource with a domain, such as {GPU_RESOURCE}, is not its limit; write the same number under limits, "
        "or leave the request out",
        cel=f"{_REQUESTS}.all(name, !name.contains('{DOMAIN}') || !isQuantity(string({_REQUESTS}[name])) "
        f"|| (name in {_LIMITS} && isQuantity(string({_LIMITS}[name])) "
        f"&& quantity(string({_REQUESTS}[name])).compareTo(quantity(string({_LIMITS}[name]))) == 0))",
        holds=_device_requests_equal_limits,
    ),
    Rule(
        path="workers.resources.requests",
        message="more of a resource is requested than its limit allows; lower the request or raise the limit",
        # It names no resource: a messageExpression that looks for it is over CEL's cost budget.
        cel=f"{_REQUESTS}.all(name, !(name in {_LIMITS}) || !isQuantity(string({_REQUESTS}[name])) || !isQuantity(string({_LIMITS}[name])) "
        f"|| !quantity(string({_REQUESTS}[name])).isGreaterThan(quantity(string({_LIMITS}[name]))))",
        holds=_requests_are_within_limits,
    ),
    Rule(
        path="partitioning.count",
        message="leave it out, or write a multiple of the ranks: a worker count from workers.minReplicas to workers.maxReplicas, times "
        f"{GPU_RESOURCE} of workers.resources.limits",
        # One entry, so that the loops below do not read the quantity again for every pair.
        cel=f"!has(self.partitioning.count) || [{_GPUS}].exists(gpus, gpus < 1 || "
        f"{_DIGITS}.exists(high, {_DIGITS}.exists(low, 32 * high + low >= self.workers.minReplicas "
        "&& 32 * high + low <= self.workers.maxReplicas && self.partitioning.count % ((32 * high + low) * gpus) == 0)))",
        holds=_some_count_divides,
        detail_cel=(
            "%d parts cannot be dealt out evenly to the ranks of %d to %d workers of %d GPUs",
            f"self.partitioning.count, self.workers.minReplicas, self.workers.maxReplicas, {_GPUS}",
        ),
        detail=lambda job: (
            f"{job.partitioning.count} parts cannot be dealt out evenly to the ranks of {job.workers.min_replicas} to "
            f"{job.workers.max_replicas} workers of {job.workers.gpus_per_worker} GPUs"
        ),
    ),
    Rule(
        path="dataset",
        message="these are not the sizes of that builtin graph, which are known; leave vertices, edges, featureSize and classes out",
        cel=_builtin_sizes_cel(),
        holds=_has_builtin_sizes,
    ),
    Rule(
        path="dataset.trainVertices",
        message="these are among the vertices of the graph; write at most spec.dataset.vertices",
        cel="!has(self.dataset.trainVertices) || !has(self.dataset.vertices) || self.dataset.trainVertices <= self.dataset.vertices",
        holds=lambda job: (
            job.dataset.train_vertices is None or job.dataset.vertices is None or job.dataset.train_vertices <= job.dataset.vertices
        ),
    ),
    Rule(
        path="dataset.direction",
        message="builtin and generated graphs have both directions of every edge; leave it out",
        cel="self.dataset.direction == 'Auto' || !(has(self.dataset.source.builtin) || has(self.dataset.source.generated))",
        holds=lambda job: job.dataset.direction is Direction.AUTO or _is_stored(job),
    ),
    Rule(
        path="partitioning.method",
        message="Precomputed takes the parts that lie beside a stored data set, builtin and generated ones have none; write Auto or METIS",
        cel="self.partitioning.method != 'Precomputed' || !(has(self.dataset.source.builtin) || has(self.dataset.source.generated))",
        holds=lambda job: job.partitioning.method is not PartitioningMethod.PRECOMPUTED or _is_stored(job),
    ),
    Rule(
        path="planner",
        message="planner None makes no plan to approve or report; write Auto, or startPolicy: Automatic",
        cel="self.planner != 'None' || self.startPolicy == 'Automatic'",
        holds=lambda job: job.planner is not PlannerChoice.NONE or (job.start_policy is StartPolicy.AUTOMATIC),
    ),
    Rule(
        path="placement.topology.preferred",
        message="the same label as required says nothing more; write a narrower label or leave preferred out",
        cel="!has(self.placement.topology.required) || !has(self.placement.topology.preferred) "
        "|| self.placement.topology.required != self.placement.topology.preferred",
        holds=lambda job: job.placement.topology.required is None or job.placement.topology.required != job.placement.topology.preferred,
    ),
    Rule(
        path="recovery.shrinkAfterSeconds",
        message="fewer workers resume from a checkpoint; write checkpoint and workers.minReplicas < workers.maxReplicas, or leave it out",
        cel="!has(self.recovery.shrinkAfterSeconds) || (has(self.checkpoint) && self.workers.minReplicas < self.workers.maxReplicas)",
        holds=lambda job: (
            job.recovery.shrink_after_seconds is None
            or (job.checkpoint is not None and job.workers.min_replicas < job.workers.max_replicas)
        ),
    ),
)
"""In the order in which they are reported."""
