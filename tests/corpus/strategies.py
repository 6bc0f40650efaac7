"""Strategies for jobs and policies, derived from the types: everything that their bounds allow."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import inspect
from msgspec.structs import replace

from hyperscale.model.api.job import Direction, JobSpec, PartitioningMethod
from hyperscale.model.api.policy import PolicySpec
from hyperscale.spec.introspect import choices_of, shape_of, struct_of
from hyperscale.spec.parse import parse_job
from tests.corpus.jobs import GOOD_JOBS


def values(wrapped: inspect.Type) -> st.SearchStrategy[Any]:
    """JSON values that a type allows, absent optionals left out."""
    bare = shape_of(wrapped).bare
    if isinstance(bare, inspect.StructType):
        required = {field.encode_name: values(field.type) for field in bare.fields if field.required}
        optional = {field.encode_name: values(field.type) for field in bare.fields if not field.required}
        return st.fixed_dictionaries(required, optional=optional)
    if isinstance(bare, inspect.UnionType):
        return st.one_of([values(member) for member in bare.types])
    if isinstance(bare, (inspect.EnumType, inspect.LiteralType)):
        return st.sampled_from(choices_of(bare))
    if isinstance(bare, inspect.VarTupleType):
        return st.lists(values(bare.item_type), min_size=bare.min_length or 0, max_size=min(3, bare.max_length or 3))
    if isinstance(bare, inspect.DictType):
        anything = isinstance(bare.value_type, inspect.AnyType)
        entries = st.integers(-5, 5) | st.text(st.characters(codec="utf-8"), max_size=5) if anything else values(bare.value_type)
        return st.dictionaries(values(bare.key_type) if not anything else st.text("abc", min_size=1, max_size=3), entries, max_size=2)
    return scalars(bare)


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


def repaired(job: JobSpec) -> JobSpec:
    """The job with what its rules ask for."""
    source = job.dataset.source
    kept = source.pvc or source.s3 or source.config_map or source.builtin or source.generated
    if kept is None:
        source = GOOD_SOURCE
    only = {
        name: getattr(source, name) if getattr(source, name) is kept else None
        for name in ("pvc", "s3", "config_map", "builtin", "generated")
    }
    dataset = replace(job.dataset, source=replace(source, **only) if kept is not None else source)
    size = {name: getattr(dataset, name) or 7 for name in ("vertices", "edges", "feature_size", "classes")}
    low, high = sorted((job.workers.min, job.workers.max))
    count = job.partitioning.count
    method = job.partitioning.method
    stored = kept is not None and kept is not source.builtin and kept is not source.generated
    shrinks = job.checkpoint is not None and low < high
    gpus = job.workers.gpus_per_worker
    divides = count == "Auto" or any(int(count) % (workers * gpus) == 0 for workers in range(low, high + 1))
    return replace(
        job,
        model=replace(job.model, fanouts=(), parameters=job.model.parameters or 1),
        dataset=replace(dataset, **size, direction=dataset.direction if stored else Direction.AUTO),
        workers=replace(job.workers, min=low, max=high, gpu_memory="24Gi", cpu="8", memory="64Gi"),
        partitioning=replace(
            job.partitioning,
            count=count if divides else high * gpus,
            method=PartitioningMethod.AUTO if method is PartitioningMethod.PRECOMPUTED and not stored else method,
        ),
        recovery=job.recovery if shrinks else replace(job.recovery, shrink_after_seconds=None),
        placement=replace(job.placement, topology=type(job.placement.topology)()),
        approval=type(job.approval).AUTOMATIC,
        plan_only=False,
    )


GOOD_SOURCE = parse_job(GOOD_JOBS["the least"]).dataset.source

WIRES = values(struct_of(JobSpec))
"""JSON of job specs within the bounds of each field; rules between fields may be broken."""
JOBS = WIRES.map(lambda wire: repaired(msgspec.convert(wire, JobSpec)))
"""Jobs that every check must accept."""
POLICY_WIRES = values(struct_of(PolicySpec))
