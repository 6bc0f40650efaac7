"""spec/parse.py for every job there can be, and for everything that is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperscale.model.api.job import JobSpec
from hyperscale.spec.parse import SpecError, parse_job, parse_policy
from hyperscale.spec.rules import JOB_RULES, ONE_UPLINK_FIGURE
from hyperscale.spec.written import write
from tests.builders.wire import spec_of
from tests.corpus.jobs import GOOD_JOBS
from tests.corpus.strategies import JOBS, POLICY_WIRES, WIRES

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
ODD = JSON | st.binary(max_size=4) | st.dates() | st.sets(st.integers(), max_size=2) | st.dictionaries(st.integers(), st.none(), max_size=2)


def error_of(parse: Callable[[Any], object], resource: Any) -> SpecError | None:
    """What a parser refuses with; every other exception passes."""
    try:
        parse(resource)
    except SpecError as error:
        return error
    return None


@settings(max_examples=50, deadline=None)
@given(JOBS)
def test_every_job_within_bounds_is_parsed_to_itself(job: JobSpec) -> None:
    wire = {"metadata": {"name": "any"}, "spec": write(job)}
    assert parse_job(wire) == job
    assert parse_job({**wire, "spec": {**wire["spec"], "checkpoint": wire["spec"].get("checkpoint")}}) == job


@settings(max_examples=50, deadline=None)
@given(WIRES)
def test_a_job_within_bounds_is_parsed_exactly_when_every_rule_holds(wire: dict[str, Any]) -> None:
    rules_hold = all(rule.holds(spec_of(wire)) for rule in JOB_RULES)
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
@given(POLICY_WIRES)
def test_every_policy_within_bounds_is_parsed_or_repeats_itself_or_says_nothing_of_a_thing(wire: dict[str, Any]) -> None:
    error = error_of(parse_policy, {"metadata": {"name": "default"}, "spec": wire})
    accepted = ("given twice", "has no figure", "compared with itself", ONE_UPLINK_FIGURE)
    assert error is None or any(words in error.message for words in accepted)


@settings(max_examples=50, deadline=None)
@given(POLICY_WIRES)
def test_every_policy_is_written_as_it_is_read(wire: dict[str, Any]) -> None:
    resource = {"metadata": {"name": "default"}, "spec": wire}
    if error_of(parse_policy, resource) is None:
        policy = parse_policy(resource)
        assert parse_policy({**resource, "spec": write(policy)}) == policy
        assert write(policy) == write(parse_policy({**resource, "spec": write(policy)}))
