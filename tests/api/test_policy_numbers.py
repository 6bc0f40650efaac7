"""Decimal strings, quantities, percents and old names of a PlannerPolicy on a real API server."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from e2e.cluster.api import Api, ApiError, Object
from hyperscale.model.api.policy import PolicySpec
from hyperscale.spec.parse import SpecError, parse_policy
from hyperscale.spec.written import write
from tests.corpus.strategies import POLICY_WIRES

POLICIES = "/apis/hyperscale.dev/v1alpha1/plannerpolicies"
STRICT = f"{POLICIES}?fieldValidation=Strict&dryRun=All"
"""What kubectl asks for: unknown fields are errors."""


def policy(spec: Object) -> Object:
    return {"apiVersion": "hyperscale.dev/v1alpha1", "kind": "PlannerPolicy", "metadata": {"name": "tried"}, "spec": spec}


def stored(api: Api, spec: Object) -> PolicySpec:
    """The type of what the server stores, defaults included."""
    return parse_policy(api.create(STRICT, policy(spec)))


def refusal(api: Api, spec: Object) -> str:
    with pytest.raises(ApiError) as refused:
        api.create(STRICT, policy(spec))
    assert refused.value.code in (400, 422), refused.value
    return str(refused.value)


def fault_path(spec: Object) -> str | None:
    """The field that the parser refuses: names given twice and products without a figure are within the bounds of each field."""
    try:
        parse_policy(policy(spec))
    except SpecError as error:
        return error.path
    return None


@settings(max_examples=50, deadline=None)
@given(POLICY_WIRES)
def test_every_valid_policy_survives_the_server_and_the_type(api: Api, wire: Object) -> None:
    fault = fault_path(wire)
    if fault is not None:
        assert fault in refusal(api, wire)
        return
    parsed = parse_policy(policy(wire))
    assert stored(api, wire) == parsed
    assert stored(api, write(parsed)) == parsed


def test_a_quantity_is_accepted_as_an_integer_and_as_a_string(api: Api) -> None:
    as_integer = {
        "limits": {"maxBandwidthBytesPerSecond": 10**10},
        "overrides": {"nodes": [{"name": "a", "gpuMemory": 24 * 2**30, "networkBytesPerSecond": 12_500_000_000}]},
        "gpus": [{"product": "T4", "intraNodeBytesPerSecond": 2 * 10**10}],
    }
    as_string = {
        "limits": {"maxBandwidthBytesPerSecond": "10G"},
        "overrides": {"nodes": [{"name": "a", "gpuMemory": "24Gi", "networkBytesPerSecond": "12.5G"}]},
        "gpus": [{"product": "T4", "intraNodeBytesPerSecond": "20e9"}],
    }
    assert stored(api, as_integer) == stored(api, as_string)
    assert stored(api, as_string).overrides.nodes[0].gpu_memory == 24 * 2**30


@pytest.mark.parametrize(
    ("field", "text", "words"),
    [
        ("communicationWeight", "1001", "write a decimal number in quotes from 0 to 1000"),
        ("limits.maxBandwidthBytesPerSecond", "2P", "write a quantity from 1 to 1P"),
    ],
)
def test_a_number_out_of_bounds_is_refused_in_the_same_words(api: Api, field: str, text: str, words: str) -> None:
    spec: Object = {}
    *holders, last = field.split(".")
    inner = spec
    for holder in holders:
        inner = inner.setdefault(holder, {})
    inner[last] = text
    with pytest.raises(SpecError, match=words):
        parse_policy(policy(spec))
    assert f"spec.{field}" in refusal(api, spec)
    assert words in refusal(api, spec)


@pytest.mark.parametrize("others", [("Twin", "Twin"), ("Twin", "Proof", "Proof", "Twin"), ("Twin", "Proof", "Twin", "Proof")])
def test_a_pair_of_stages_that_is_none_or_given_twice_is_refused_by_both(api: Api, others: tuple[str, ...]) -> None:
    pairs = zip(others[::2], others[1::2], strict=True)
    spec: Object = {"evaluation": {"comparisons": [{"stage": one, "comparedWith": other, "importance": "1"} for one, other in pairs]}}
    fault = fault_path(spec)
    assert fault is not None
    assert fault in refusal(api, spec)


def test_a_negative_gamma_is_stored_as_written(api: Api) -> None:
    assert stored(api, {"evaluation": {"hyperScore": {"gamma": "-0.25"}}}).evaluation.hyper_score.gamma == -0.25
    assert "evaluation.hyperScore.gamma" in refusal(api, {"evaluation": {"hyperScore": {"gamma": "-1001"}}})


@pytest.mark.parametrize(
    "old",
    [
        "deadlines",
        "queue.thrift",
        "queue.thriftAlone",
        "queue.patience",
        "queue.maxPriority",
        "queue.preemption.checkSeconds",
        "queue.preemption.minGainRatio",
        "replan",
        "limits.settleSeconds",
    ],
)
def test_an_old_name_is_an_unknown_field_to_both(api: Api, old: str) -> None:
    *holders, last = old.split(".")
    value: Object = {last: 1}
    for holder in reversed(holders):
        value = {holder: value}
    with pytest.raises(SpecError) as refused:
        parse_policy(policy(value))
    assert refused.value.path == f"spec.{old}"
    assert f'unknown field "spec.{old}"' in refusal(api, value)


def test_kubectl_shows_the_plan_deadline_under_its_unit(api: Api) -> None:
    crd = api.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/plannerpolicies.hyperscale.dev")
    columns = {column["name"]: column["jsonPath"] for column in crd["spec"]["versions"][0]["additionalPrinterColumns"]}
    assert columns["Deadline-Seconds"] == ".spec.planDeadlineSeconds"
