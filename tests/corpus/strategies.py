"""Strategies for jobs and policies, derived from the types: everything that their bounds allow."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import inspect
from msgspec.structs import replace

from hyperscale.model.api.container_resources import ResourceRequirements
from hyperscale.model.api.datasets import BUILTIN_SIZES, DatasetSize
from hyperscale.model.api.evaluation_policy import EvaluationPolicy
from hyperscale.model.api.job import DatasetSpec, Direction, JobSpec, PartitioningMethod, PartitioningSpec, WorkersSpec
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.api.written_numbers import DECIMAL_PATTERNS, SIGNED_DECIMAL, WRITTEN
from hyperscale.spec.introspect import choices_of, shape_of, struct_of
from hyperscale.spec.parse import SpecError, check_comparisons, parse_job
from hyperscale.spec.written import read
from hyperscale.util.quantity import parse_exact, shortest
from tests.builders.wire import spec_of
from tests.corpus.jobs import GOOD_JOBS

_QUANTITIES = ("1", "1.5k", "2e3", "20Gi", "+3M", "1500m")


def values(wrapped: inspect.Type) -> st.SearchStrategy[Any]:
    """JSON values that a type allows, absent optionals left out."""
    shape = shape_of(wrapped)
    bare = shape.bare
    if shape.written:
        return written(shape.written, bare)
    if isinstance(bare, inspect.StructType):
        return structs(bare)
    if isinstance(bare, inspect.UnionType):
        return st.one_of([values(member) for member in bare.types])
    if isinstance(bare, (inspect.EnumType, inspect.LiteralType)):
        return st.sampled_from(choices_of(bare))
    if isinstance(bare, inspect.VarTupleType):
        return st.lists(values(bare.item_type), min_size=bare.min_length or 0, max_size=min(3, bare.max_length or 3))
    if isinstance(bare, inspect.DictType):
        return maps(bare)
    return scalars(bare)


def structs(bare: inspect.StructType) -> st.SearchStrategy[dict[str, Any]]:
    required = {field.encode_name: values(field.type) for field in bare.fields if field.required}
    optional = {field.encode_name: values(field.type) for field in bare.fields if not field.required}
    return st.fixed_dictionaries(required, optional=optional)


def maps(bare: inspect.DictType) -> st.SearchStrategy[dict[Any, Any]]:
    """A map of at most two entries; integers and short texts where the type allows any value."""
    if isinstance(bare.value_type, inspect.AnyType):
        anything = st.integers(-5, 5) | st.text(st.characters(codec="utf-8"), max_size=5)
        return st.dictionaries(st.text("abc", min_size=1, max_size=3), anything, max_size=2)
    return st.dictionaries(values(bare.key_type), values(bare.value_type), max_size=2)


def written(form: str, bare: inspect.Type) -> st.SearchStrategy[Any]:
    """Decimal strings, and quantities as integers and in their shortest form."""
    if isinstance(bare, inspect.StrType):
        return st.integers(1, 2**40) | st.sampled_from(_QUANTITIES)
    assert isinstance(bare, inspect.IntType | inspect.FloatType)
    if form in DECIMAL_PATTERNS:
        low, high = bare.ge if bare.ge is not None else bare.gt, bare.le if bare.le is not None else bare.lt
        within = st.floats(low, high, exclude_min=bare.gt is not None, exclude_max=bare.lt is not None)
        signed = form == SIGNED_DECIMAL[WRITTEN]
        return within.filter(lambda number: number == 0 or abs(number) > 1e-90).map(lambda number: str(number if signed else abs(number)))
    assert bare.ge is not None
    assert bare.le is not None
    whole = st.integers(int(bare.ge), int(bare.le))
    within_bounds = [one for one in _QUANTITIES if bare.ge <= parse_exact(one) <= bare.le]
    return whole | whole.map(str) | whole.map(shortest) | st.sampled_from(within_bounds)


def scalars(bare: inspect.Type) -> st.SearchStrategy[Any]:
    if isinstance(bare, inspect.BoolType):
        return st.booleans()
    if isinstance(bare, inspect.IntType):
        return st.integers(bare.ge, bare.le)
    if isinstance(bare, inspect.FloatType):
        low, high = bare.ge if bare.ge is not None else bare.gt, bare.le if bare.le is not None else bare.lt
        return st.floats(low, high, exclude_min=bare.gt is not None, exclude_max=bare.lt is not None, allow_subnormal=False)
    assert isinstance(bare, inspect.StrType)
    if bare.pattern is None:
        return st.text("ab c", min_size=bare.min_length or 0, max_size=8)
    return st.from_regex(bare.pattern.replace("$", r"\Z")).filter(
        lambda text: (bare.min_length or 0) <= len(text) <= (bare.max_length or 999)
    )


SOURCES = ("persistent_volume_claim", "s3", "config_map", "builtin", "generated")
"""Fields of a dataset's source; one of them must be given."""


def repaired(job: JobSpec) -> JobSpec:
    """The job with what its rules ask for."""
    low, high = sorted((job.workers.min_replicas, job.workers.max_replicas))
    workers = replace(
        job.workers,
        min_replicas=low,
        max_replicas=high,
        gpu_memory=24 * 2**30,
        resources=ResourceRequirements({"nvidia.com/gpu": "2", "memory": "64Gi"}, {"cpu": "8"}),
    )
    dataset = repaired_dataset(job.dataset)
    shrinks = job.checkpoint is not None and low < high
    return replace(
        job,
        model=replace(job.model, fanouts=(), parameters=job.model.parameters or 1),
        dataset=dataset,
        workers=workers,
        partitioning=repaired_partitioning(job.partitioning, workers, stored=is_stored(dataset)),
        recovery=job.recovery if shrinks else replace(job.recovery, shrink_after_seconds=None),
        placement=replace(job.placement, topology=type(job.placement.topology)()),
        start_policy=type(job.start_policy).AUTOMATIC,
    )


def is_stored(dataset: DatasetSpec) -> bool:
    """Whether the graph is in the user's storage, where it may have a direction and parts of its own."""
    source = dataset.source
    return any((source.persistent_volume_claim, source.s3, source.config_map))


def repaired_dataset(dataset: DatasetSpec) -> DatasetSpec:
    """One source, all sizes, and a direction only where the graph is stored."""
    given = [name for name in SOURCES if getattr(dataset.source, name)]
    source = replace(dataset.source, **dict.fromkeys(SOURCES) | {given[0]: getattr(dataset.source, given[0])}) if given else GOOD_SOURCE
    known = BUILTIN_SIZES[source.builtin.name] if source.builtin else None
    sizes = {name: getattr(known, name) if known else getattr(dataset, name) or 7 for name in DatasetSize._fields}
    trained = dataset.train_vertices and min(dataset.train_vertices, sizes["vertices"])
    one = replace(dataset, source=source, train_vertices=trained, **sizes)
    return one if is_stored(one) else replace(one, direction=Direction.AUTO)


def repaired_partitioning(partitioning: PartitioningSpec, workers: WorkersSpec, *, stored: bool) -> PartitioningSpec:
    """A count that divides by the GPUs of some allowed count of workers, and precomputed parts only where the graph is stored."""
    gpus = workers.gpus_per_worker
    count, method = partitioning.count, partitioning.method
    if count is not None and all(count % (number * gpus) for number in range(workers.min_replicas, workers.max_replicas + 1)):
        count = workers.max_replicas * gpus
    if method is PartitioningMethod.PRECOMPUTED and not stored:
        method = PartitioningMethod.AUTO
    return replace(partitioning, count=count, method=method)


GOOD_SOURCE = parse_job(GOOD_JOBS["the least"]).dataset.source

WIRES = values(struct_of(JobSpec))
"""JSON of job specs within the bounds of each field; rules between fields may be broken."""
JOBS = WIRES.map(lambda wire: repaired(spec_of(wire)))
"""Jobs that every check must accept."""


def weighed(wire: dict[str, Any]) -> dict[str, Any]:
    """The policy without comparisons that contradict each other: no rule of a CRD can tell."""
    evaluation = wire.get("evaluation", {})
    try:
        given = read({"comparisons": evaluation.get("comparisons", [])}, struct_of(EvaluationPolicy))
        check_comparisons(msgspec.convert(given, EvaluationPolicy).comparisons)
    except SpecError as error:
        if "consistency ratio" in str(error):
            return wire | {"evaluation": {name: value for name, value in evaluation.items() if name != "comparisons"}}
    return wire


POLICY_WIRES = values(struct_of(PolicySpec)).map(weighed)
