"""crds/ is what the types say, and every part of these files is bounded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from msgspec import inspect

from hyperscale.spec.crd import FOLDERS, REPOSITORY, main, manifests, text_of
from hyperscale.spec.crd_schema import schema_of

CRDS = manifests()


def parts(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema below `schema`, itself included, with its path."""
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from parts(inner, f"{path}.{name}")
    for name in ("items", "additionalProperties"):
        if name in schema:
            yield from parts(schema[name], f"{path}[]")


def user_parts() -> Iterator[tuple[str, dict[str, Any]]]:
    for crd in CRDS.values():
        root = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        for name in ("spec", "status"):
            if name in root["properties"]:
                yield from parts(root["properties"][name], f"{crd['spec']['names']['kind']}.{name}")


@pytest.mark.parametrize("folder", FOLDERS)
def test_committed_files_equal_the_types(folder: str) -> None:
    assert {path.name: path.read_text(encoding="utf-8") for path in (REPOSITORY / folder).glob("*.yaml")} == {
        name: text_of(crd) for name, crd in CRDS.items()
    }


def test_check_says_that_nothing_differs() -> None:
    assert main(["--check"]) == 0


def test_check_names_the_file_that_differs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("hyperscale.spec.crd.HEADER", "# other\n")
    assert main(["--check"]) == 1
    assert "crds/gnntrainingjobs.hyperscale.dev.yaml: differs" in capsys.readouterr().err


def test_every_text_list_and_map_is_bounded() -> None:
    bounds = {"string": "maxLength", "array": "maxItems"}
    for path, schema in user_parts():
        if (bound := bounds.get(schema.get("type", ""))) is not None:
            assert bound in schema, path
        if "additionalProperties" in schema or "x-kubernetes-preserve-unknown-fields" in schema:
            assert "maxProperties" in schema, path
        if schema.get("type") == "integer":
            assert schema["format"] == "int64", path


def test_only_pod_templates_are_free_form() -> None:
    free = {path for path, schema in user_parts() if "x-kubernetes-preserve-unknown-fields" in schema}
    assert free == {"GNNTrainingJob.spec.launcher.template", "GNNTrainingJob.spec.workers.template"}


def test_every_field_is_described() -> None:
    undescribed = {
        path for path, schema in user_parts() if "description" not in schema and not path.endswith("[]") and ".status" not in path
    }
    assert undescribed == set()


def test_status_has_no_defaults_that_would_look_like_observations() -> None:
    assert [path for path, schema in user_parts() if ".status" in path and "default" in schema] == []


def test_what_is_named_a_time_is_an_rfc3339_time_and_nothing_else() -> None:
    times = {path for path, schema in user_parts() if schema.get("format") == "date-time"}
    assert times == {path for path, _ in user_parts() if path.endswith("Time")}
    assert "GNNTrainingJob.status.conditions[].lastTransitionTime" in times


def test_an_unbounded_type_is_an_error() -> None:
    for unbounded in (inspect.StrType(), inspect.VarTupleType(inspect.IntType()), inspect.DictType(inspect.StrType(), inspect.AnyType())):
        with pytest.raises(TypeError, match=r"Some\.field"):
            schema_of(unbounded, "Some.field", defaults=True)


def test_files_have_no_anchors() -> None:
    for crd in CRDS.values():
        assert "&id" not in text_of(crd)
        assert yaml.safe_load(text_of(crd)) == crd
