"""Resources that are no mistake but an attack, or that no YAML would give."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from hyperscale.model.api.datasets import dataset_size
from hyperscale.spec.parse import SpecError, parse_job, parse_policy
from tests.corpus.jobs import ABSENT, STORED, job


def refused(resource: Any) -> SpecError:
    with pytest.raises(SpecError) as caught:
        parse_job(resource)
    return caught.value


@pytest.mark.parametrize("resource", [None, [], "job", 3], ids=str)
def test_what_is_no_object_is_refused(resource: Any) -> None:
    assert "write an object with apiVersion" in refused(resource).message


def test_another_kind_or_version_is_refused() -> None:
    assert str(refused(job({"kind": "MPIJob"}))) == "kind: 'MPIJob' is not supported; write GNNTrainingJob"
    assert refused(job({"apiVersion": "hyperscale.dev/v1"})).path == "apiVersion"


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"kind": 10**5000}, "kind"),
        ({"metadata": ABSENT}, "metadata"),
        ({"metadata": {}}, "metadata.name"),
        ({"metadata.name": 5}, "metadata.name"),
        ({"metadata.name": "cora\n"}, "metadata.name"),
        ({"metadata.name": "größe"}, "metadata.name"),
        ({"spec": []}, "spec"),
        ({"spec.placement.communicationWeight": float("nan")}, "spec.placement.communicationWeight"),
        ({"spec.placement.communicationWeight": float("inf")}, "spec.placement.communicationWeight"),
        ({"spec.workers.template": {"spec": {"when": datetime.date(2026, 1, 1)}}}, "spec.workers.template.spec.when"),
        ({"spec.workers.template": {"spec": b"\x00"}}, "spec.workers.template.spec"),
        ({"spec.workers.template": {3: "x"}}, "spec.workers.template"),
        ({"spec.workers.template": {"x": "\ud800"}}, "spec.workers.template.x"),
        ({"spec.workers.template": {"x": 10**5000}}, "spec.workers.template.x"),
        ({"spec.workers": {"maxReplicas": 10**5000}}, "spec.workers.maxReplicas"),
        ({"spec.model.architecture": "GCN\x1b[2J"}, "spec.model.architecture"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_path_of_an_odd_value_is_named(changes: dict[str, object], path: str) -> None:
    error = refused(job(changes))
    assert error.path == path
    assert str(error).isprintable()


def test_a_field_name_cannot_forge_the_message() -> None:
    error = refused(job({"spec.workers": {"maxReplicas": 4, "x` - at `$.model": 1}}))
    assert error.path.startswith("spec.workers.x")
    assert refused(job({"spec.workers": {"maxReplicas": 4, "x\ny": 1}})).path == "spec.workers"


def test_an_alias_bomb_is_refused_without_a_walk_through_it() -> None:
    bomb: list[Any] = ["lol"]  # 9^12 leaves: a walk would not end
    for _ in range(12):
        bomb = [bomb] * 9
    assert "more than" in refused(job({"spec.workers.template": {"spec": bomb}})).message


def test_a_loop_is_refused() -> None:
    loop: dict[str, Any] = {}
    loop["again"] = loop
    resource = job()
    resource["spec"]["workers"]["template"] = loop
    assert "more than 64 levels" in refused(resource).message


def test_null_is_an_absent_field_as_for_the_api_server() -> None:
    assert parse_job(job({"spec.workers": {"minReplicas": None, "maxReplicas": 4}, "spec.partitioning": None})).workers.min_replicas == 1
    assert refused(job({"spec.model": None})).path == "spec.model"


def test_a_null_inside_a_template_stays() -> None:
    assert parse_job(job({"spec.workers.template": {"spec": {"x": None}}})).workers.template == {"spec": {"x": None}}


def test_a_policy_names_what_it_repeats() -> None:
    with pytest.raises(SpecError, match=r"spec.planners: Auto is given twice"):
        parse_policy({"metadata": {"name": "default"}, "spec": {"planners": ["Auto", "Auto"]}})


def test_a_policy_without_fields_has_the_built_in_figures() -> None:
    assert parse_policy({"metadata": {"name": "default"}, "spec": {}}).communication_weight == 0.1


def test_sizes_of_builtin_graphs_are_known_and_others_are_as_stated() -> None:
    assert dataset_size(parse_job(job())) == (2708, 10556, 1433, 7)
    assert dataset_size(parse_job(job({"spec.dataset": STORED}))) == (169343, 2332486, 128, 40)
