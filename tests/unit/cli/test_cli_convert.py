"""`hyperscale convert -f`: files of the former API in, files of this one out, or one line and nothing written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperscale.cli import exit_codes
from tests.unit.cli.cli_samples import run

JOB = """\
apiVersion: hyperscale.dev/v1alpha1
kind: GNNTrainingJob
metadata:
  name: cora
spec:
  planOnly: true
  model:
    architecture: GCN
    hyperparameters: {dropout: 0.5}
  dataset:
    source: {builtin: {name: Cora}}
  workers: {max: 4, cpu: 2}
"""
CLAIM = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: other\ndata:\n  text: |\n    two\n    lines\n"
POLICY = "apiVersion: hyperscale.dev/v1alpha1\nkind: PlannerPolicy\nmetadata:\n  name: default\nspec:\n  deadlines: {planSeconds: 2.5}\n"
TOPOLOGY = "apiVersion: hyperscale.dev/v1alpha1\nkind: ClusterTopology\nmetadata:\n  name: default\nstatus: {}\n"


def written(folder: Path, *documents: str) -> str:
    path = folder / "former.yaml"
    path.write_text("---\n".join(documents))
    return str(path)


def documents(text: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(text))


def test_all_documents_of_a_file_are_converted_and_other_kinds_stay_as_they_are(tmp_path: Path) -> None:
    ran = run("convert", "-f", written(tmp_path, JOB, CLAIM, POLICY, TOPOLOGY))
    assert ran.code == exit_codes.OK
    job, other, policy = documents(ran.out)
    assert job["spec"]["startPolicy"] == "Never"
    assert job["spec"]["model"]["hyperparameters"] == {"dropout": "0.5"}
    assert job["spec"]["workers"] == {"maxReplicas": 4, "resources": {"requests": {"cpu": 2}}}
    assert other["data"] == {"text": "two\nlines\n"}
    assert policy["spec"] == {"planDeadlineSeconds": 3}
    assert "spec.deadlines.planSeconds: 2.5 becomes 3" in ran.err
    assert "ClusterTopology" in ran.err


def test_a_converted_file_stays_the_same_when_converted_again(tmp_path: Path) -> None:
    once = run("convert", "-f", written(tmp_path, JOB, POLICY)).out
    assert run("convert", "-f", written(tmp_path, once)).out == once


def test_a_list_becomes_documents_in_the_file_that_is_named(tmp_path: Path) -> None:
    listed = yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": [yaml.safe_load(JOB), yaml.safe_load(POLICY)]})
    out = tmp_path / "converted.yaml"
    assert run("convert", "-f", written(tmp_path, listed), "--out", str(out)).code == exit_codes.OK
    assert [one["kind"] for one in documents(out.read_text())] == ["GNNTrainingJob", "PlannerPolicy"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--live",), "--live: needs --backup DIR"),
        (("--check", "--backup", "x"), "--backup: belongs to --live"),
        (("--check", "--out", "x"), "--out: belongs to -f"),
        ((), "one of the arguments"),
        (("-f", "nowhere.yaml"), "no such file"),
        (("-f", "a.yaml", "--check"), "not allowed with"),
    ],
    ids=str,
)
def test_what_cannot_be_asked_for_is_one_line(arguments: tuple[str, ...], words: str) -> None:
    ran = run("convert", *arguments)
    assert ran.code == exit_codes.BAD_INPUT
    assert words in ran.err
    assert ran.err.count("\n") == 1


def test_an_object_that_is_wrong_today_too_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    out = tmp_path / "converted.yaml"
    ran = run("convert", "-f", written(tmp_path, POLICY, JOB.replace("max: 4", "max: 4, min: 9")), "--out", str(out))
    assert ran.code == exit_codes.BAD_INPUT
    assert "document 2: spec.workers.maxReplicas: 4 is below spec.workers.minReplicas: 9" in ran.err
    assert not out.exists()


def test_json_is_one_list(tmp_path: Path) -> None:
    listed = json.loads(run("convert", "-f", written(tmp_path, JOB, POLICY), "-o", "json").out)
    assert [one["kind"] for one in listed["items"]] == ["GNNTrainingJob", "PlannerPolicy"]


def test_a_text_that_looks_like_a_number_stays_one_for_kubectl(tmp_path: Path) -> None:
    """go-yaml reads 1e-2 as a number, which the schema refuses."""
    ran = run("convert", "-f", written(tmp_path, JOB.replace("dropout: 0.5", 'learningRate: "1e-2"')))
    assert "learningRate: '1e-2'" in ran.out
