"""spec.py for every job there can be, and for everything that is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import inspect
from msgspec.structs import replace

from hyperscale.model.job import JobSpec
from hyperscale.model.policy import PolicySpec
from hyperscale.rules import JOB_RULES
from hyperscale.spec import SpecError, parse_job, parse_policy
from hyperscale.typeinfo import choices_of, shape_of, struct_of
from tests.corpus.jobs import GOOD_JOBS

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
ODD = JSON | st.binary(max_size=4) | st.dates() | st.sets(st.integers(), max_size=2) | st.dictionaries(st.integers(), st.none(), max_size=2)


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
        return st.floats(bare.ge if bare.ge is not None else bare.gt, bare.le, exclude_min=bare.gt is not None, allow_subnormal=False)
    assert isinstance(bare, inspect.StrType)
    if bare.pattern is None:
        return st.text("ab c", min_size=bare.min_length or 0, max_size=8)
    return st.from_regex(bare.pattern.replace("$", r"\Z")).filter(
        lambda text: (bare.min_length or 0) <= len(text) <= (bare.max_length or 999)
    )


def repaired(job: JobSpec) -> JobSpec:
    """The job with what its rules ask for."""
    source = job.dataset.source
    kept = source.pvc or source.s3 or source.config_map or source.builtin
    if kept is None:
        source = GOOD_SOURCE
    only = {name: getattr(source, name) if getattr(source, name) is kept else None for name in ("pvc", "s3", "config_map", "builtin")}
    dataset = replace(job.dataset, source=replace(source, **only) if kept is not None else source)
    size = {name: getattr(dataset, name) or 7 for name in ("vertices", "edges", "feature_size", "classes")}
    low, high = sorted((job.workers.min, job.workers.max))
    count = job.partitioning.count
    divides = count == "Auto" or any(int(count) % workers == 0 for workers in range(low, high + 1))
    return replace(
        job,
        model=replace(job.model, fanouts=(), parameters=job.model.parameters or 1),
        dataset=replace(dataset, **size),
        workers=replace(job.workers, min=low, max=high, gpu_memory="24Gi", cpu="8", memory="64Gi"),
        partitioning=replace(job.partitioning, count=count if divides else high),
        placement=replace(job.placement, topology=type(job.placement.topology)()),
        approval=type(job.approval).AUTOMATIC,
        plan_only=False,
    )


GOOD_SOURCE = parse_job(GOOD_JOBS["the least"]).dataset.source
JOBS = values(struct_of(JobSpec)).map(lambda wire: repaired(msgspec.convert(wire, JobSpec)))


def error_of(parse: Callable[[Any], object], resource: Any) -> SpecError | None:
    """What a parser refuses with; every other exception passes."""
    try:
        parse(resource)
    except SpecError as error:
        return error
    return None


def without_nulls(value: object) -> object:
    """Absent optionals as absent fields, as the API server stores them."""
    if isinstance(value, dict):
        return {key: without_nulls(entry) for key, entry in value.items() if entry is not None}
    return value


@settings(max_examples=50, deadline=None)
@given(JOBS)
def test_every_job_within_bounds_is_parsed_to_itself(job: JobSpec) -> None:
    wire = {"metadata": {"name": "any"}, "spec": without_nulls(msgspec.to_builtins(job))}
    assert parse_job(wire) == job
    assert parse_job({**wire, "spec": msgspec.to_builtins(job)}) == job


@settings(max_examples=50, deadline=None)
@given(values(struct_of(JobSpec)))
def test_a_job_within_bounds_is_parsed_exactly_when_every_rule_holds(wire: dict[str, Any]) -> None:
    rules_hold = all(rule.holds(msgspec.convert(wire, JobSpec)) for rule in JOB_RULES)
    assert (error_of(parse_job, {"metadata": {"name": "any"}, "spec": wire}) is None) == rules_hold


@settings(max_examples=50, deadline=None)
@given(ODD)
def test_anything_at_all_gives_a_spec_error_and_nothing_else(resource: Any) -> None:
    for parse in (parse_job, parse_policy):
        with pytest.raises(SpecError) as refused:
            parse(resource)
        assert "\n" not in str(refused.value)


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_one_odd_value_in_a_good_job_gives_a_job_or_a_spec_error(data: st.DataObject) -> None:
    wire = msgspec.json.decode(msgspec.json.encode(GOOD_JOBS[data.draw(st.sampled_from(sorted(GOOD_JOBS)))]))
    holder: Any = wire
    while True:
        key = data.draw(st.sampled_from(sorted(holder))) if isinstance(holder, dict) else data.draw(st.integers(0, len(holder) - 1))
        if isinstance(holder[key], (dict, list)) and holder[key] and data.draw(st.booleans()):
            holder = holder[key]
            continue
        holder[key] = data.draw(ODD)
        break
    error = error_of(parse_job, wire)
    assert error is None or (error.message != "" and str(error).isprintable() and len(str(error)) < 600)


@settings(max_examples=50, deadline=None)
@given(values(struct_of(PolicySpec)))
def test_every_policy_within_bounds_is_parsed_or_repeats_itself(wire: dict[str, Any]) -> None:
    error = error_of(parse_policy, {"metadata": {"name": "default"}, "spec": wire})
    assert error is None or "given twice" in error.message
