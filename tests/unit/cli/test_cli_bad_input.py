"""Every bad input ends with exit code 2 and one line that names the place and says what to write instead.

Longer than other modules: one list, so that no input is tried twice in different words.
"""

from __future__ import annotations

import copy
import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml

from hyperscale.cli import main as cli_main
from hyperscale.model.api.datasets import dataset_key
from hyperscale.spec.parse import parse_job
from tests.unit.cli.cli_samples import Files, Ran, files_fixture, job, run

__all__ = ["files_fixture"]


def changed(path: str, value: Any) -> dict[str, Any]:
    """The sample job with one field set, or removed where `value` is Ellipsis."""
    resource = copy.deepcopy(job())
    *parents, last = path.split(".")
    place = resource
    for name in parents:
        place = place.setdefault(name, {})
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return resource


def only_line_of(ran: Ran) -> str:
    assert ran.code == 2, ran
    assert ran.out == ""
    assert ran.err.count("\n") == 1
    assert ran.err.endswith("\n")
    assert "Traceback" not in ran.err
    assert "internal error" not in ran.err
    return ran.err


BAD_FIELDS: dict[str, tuple[dict[str, Any], str]] = {
    "a kind of someone else": (changed("kind", "MPIJob"), "kind"),
    "a version that does not exist": (changed("apiVersion", "hyperscale.dev/v9"), "apiVersion"),
    "no metadata": (changed("metadata", ...), "metadata"),
    "no name": (changed("metadata.name", ...), "metadata.name"),
    "a field of the spec beside it": (changed("partitioning", {"method": "METIS"}), "partitioning"),
    "a namespace with capitals": (changed("metadata.namespace", "Team_A"), "metadata.namespace"),
    "a namespace that is too long": (changed("metadata.namespace", 64 * "a"), "metadata.namespace"),
    "a namespace that is a number": (changed("metadata.namespace", 7), "metadata.namespace"),
    "no spec": (changed("spec", ...), "spec"),
    "a spec that is a list": (changed("spec", []), "spec"),
    "no model": (changed("spec.model", ...), "spec.model"),
    "an unknown architecture": (changed("spec.model.architecture", "Transformer"), "spec.model.architecture"),
    "an unknown field": (changed("spec.workers.gpu", 2), "spec.workers"),
    "max below min": (changed("spec.workers.maxReplicas", 1), "spec.workers"),
    "workers as text": (changed("spec.workers.maxReplicas", "four"), "spec.workers.maxReplicas"),
    "workers as a fraction": (changed("spec.workers.maxReplicas", 2.5), "spec.workers.maxReplicas"),
    "no workers at all": (changed("spec.workers.maxReplicas", 0), "spec.workers.maxReplicas"),
    "NaN": (changed("spec.placement.communicationWeight", float("nan")), "spec.placement.communicationWeight"),
    "infinity": (changed("spec.placement.communicationWeight", float("inf")), "spec.placement.communicationWeight"),
    "memory that is no quantity": (changed("spec.workers.gpuMemory", "lots"), "spec.workers.gpuMemory"),
    "two dataset sources": (
        changed("spec.dataset.source", {"persistentVolumeClaim": {"claimName": "a"}, "builtin": {"name": "Cora"}}),
        "spec.dataset",
    ),
    "a path that climbs": (changed("spec.dataset.path", "../../etc"), "spec.dataset.path"),
    "no size of the graph": (changed("spec.dataset.vertices", ...), "vertices"),
    "no planner wanted": (changed("spec.planner", "None"), "spec.planner"),
}


@pytest.mark.parametrize("case", sorted(BAD_FIELDS))
def test_a_bad_field_is_named_with_its_path_in_one_line(case: str, files: Files) -> None:
    resource, path = BAD_FIELDS[case]
    line = only_line_of(files.plan(job=files.write("bad.yaml", resource)))
    assert "bad.yaml" in line
    assert path in line
    assert ";" in line or "give exactly one of" in line, "says what to write instead"


def billion_laughs() -> str:
    levels = ['a0: &a0 ["lol","lol","lol","lol","lol","lol","lol","lol","lol","lol"]']
    levels += [f"a{level}: &a{level} [{','.join([f'*a{level - 1}'] * 10)}]" for level in range(1, 12)]
    return "\n".join(levels)


def long_alias_chain() -> str:
    return "\n".join(["a0: &a0 [x]", *(f"a{level}: &a{level} [*a{level - 1}]" for level in range(1, 500))])


BAD_TEXTS: dict[str, tuple[str | bytes, str]] = {
    "nothing": ("", "empty"),
    "only comments": ("# nothing\n", "empty"),
    "null": ("null\n", "null"),
    "a list": ("- a\n- b\n", "list"),
    "plain text": ("hello\n", "text"),
    "a binary file": (bytes(range(256)) * 8, "UTF-8"),
    "text with a NUL": ("kind: GNN\0TrainingJob\n", "binary"),
    "a picture": (b"\x89PNG\r\n\x1a\n" + b"\0" * 64, "UTF-8"),
    "a control character": ("kind: \x07\n", "YAML"),
    "two documents": ("kind: GNNTrainingJob\n---\nkind: GNNTrainingJob\n", "document 1: metadata"),
    "a key twice": ("kind: GNNTrainingJob\nspec: {}\nspec: {}\n", "line 3: key 'spec' is given twice"),
    "a key that YAML reads as a truth value": ("on: 1\n", "key 'on'"),
    "a key that is a list": ("? [a]\n: 1\n", "no text"),
    "broken YAML": ("spec:\n  model: [1, 2\n", "line 3"),
    "broken JSON": ('{"kind": ', "not valid YAML"),
    "tabs as indent": ("spec:\n\tmodel: 1\n", "line 2"),
    "an unknown tag": ("spec: !!python/object/apply:os.system ['true']\n", "line 1"),
    "an unknown alias": ("spec: *nowhere\n", "line 1"),
    "the billion laughs": (billion_laughs(), "values once aliases are written out"),
    "a long chain of aliases": (long_alias_chain(), "deeper"),
    "an alias of itself": ("spec: &a [*a]\n", "refers to what contains it"),
    "deep nesting": ("[" * 5000 + "]" * 5000, "nested deeper"),
    "deep nesting of maps": ("{a: " * 3000, "nested deeper"),
    "half a million values": ("[" + "a," * 500_000 + "]", "more than 100,000 values"),
    "more than a mebibyte": ("# " + "x" * (1 << 20), "1 MiB"),
    "an integer of 6,000 digits": (f"spec: {'9' * 6000}\n", "cannot be read"),
    "not a number": ("spec: .nan\n", "spec: is nan"),
    "minus infinity in a list": ("spec: {model: [1, -.inf]}\n", "spec.model[1]: is -inf"),
}


@pytest.mark.parametrize("case", sorted(BAD_TEXTS))
def test_a_file_that_holds_no_usable_object_gives_one_clear_line(case: str, files: Files) -> None:
    content, told = BAD_TEXTS[case]
    line = only_line_of(files.plan(job=files.write("bad.yaml", content)))
    assert "bad.yaml" in line
    assert told in line


BAD_ARGUMENTS: dict[str, tuple[list[str], str]] = {
    "no command": ([], "no command"),
    "an unknown command": (["deploy"], "deploy"),
    "no job": (["plan"], "-f"),
    "a seed that is text": (["plan", "-f", "JOB", "--seed", "lucky"], "--seed"),
    "a negative seed": (["plan", "-f", "JOB", "--seed", "-1"], "--seed"),
    "a seed beyond 31 bits": (["plan", "-f", "JOB", "--seed", "2147483648"], "--seed"),
    "a seed with a fraction": (["plan", "-f", "JOB", "--seed", "1.5"], "--seed"),
    "an unknown planner": (["plan", "-f", "JOB", "--planner", "Oracle"], "--planner"),
    "an unknown form": (["plan", "-f", "JOB", "-o", "xml"], "-o"),
    "no workers": (["plan", "-f", "JOB", "--workers", "0"], "--workers"),
    "more workers than the job allows": (["plan", "-f", "JOB", "--snapshot", "SNAPSHOT", "--workers", "9"], "--workers"),
    "a deadline of zero": (["plan", "-f", "JOB", "--deadline", "0"], "--deadline"),
    "a deadline that is no number": (["plan", "-f", "JOB", "--deadline", "nan"], "--deadline"),
    "an argument too many": (["plan", "-f", "JOB", "surplus"], "surplus"),
    "an abbreviated option": (["plan", "-f", "JOB", "--snap", "SNAPSHOT"], "--snap"),
    "another namespace than the file's": (["plan", "-f", "JOB", "-n", "team-b"], "--namespace"),
    "a job that is not there": (["plan", "-f", "/nowhere/job.yaml"], "/nowhere/job.yaml"),
    "a folder as job": (["plan", "-f", "FOLDER"], "directory"),
    "an empty file name": (["plan", "-f", ""], "the file name is empty"),
    "a file name with a NUL": (["plan", "-f", "a\0b"], "cannot be read"),
    "a policy that is a job": (["plan", "-f", "JOB", "--snapshot", "SNAPSHOT", "--policy", "JOB"], "PlannerPolicy"),
    "a snapshot that is not there": (["plan", "-f", "JOB", "--snapshot", "/nowhere/cluster.json"], "/nowhere/cluster.json"),
    "a snapshot that is a job": (["plan", "-f", "JOB", "--snapshot", "JOB"], "JSON"),
    "a snapshot that is a folder of something else": (["plan", "-f", "JOB", "--snapshot", "FOLDER"], "Hulk"),
    "a kubeconfig that is not there": (["plan", "-f", "JOB", "--kubeconfig", "/nowhere/config"], "kubeconfig /nowhere/config"),
    "a kubeconfig that is a job": (["plan", "-f", "JOB", "--kubeconfig", "JOB"], "kubeconfig"),
    "a kubeconfig that is a snapshot": (["snapshot", "-o", "NEW", "--kubeconfig", "SNAPSHOT"], "kubeconfig"),
    "a kubeconfig that is a folder": (["topology", "--kubeconfig", "FOLDER"], "kubeconfig"),
    "nothing to explain": (["explain"], "JOB"),
    "a name that is a path": (["explain", "../../secrets"], "JOB"),
    "a file without a job": (["explain", "-f", "SNAPSHOT"], "GNNTrainingJob"),
    "a snapshot into a folder": (["snapshot", "-o", "FOLDER"], "-o"),
    "a snapshot into a folder that is not there": (["snapshot", "-o", "/nowhere/at/all.json"], "/nowhere/at"),
    "a picture on standard output": (["topology", "--snapshot", "SNAPSHOT", "--svg", "-"], "--svg"),
    "a live source beside a snapshot": (["topology", "--snapshot", "SNAPSHOT", "--prometheus", "http://p"], "--prometheus"),
    "an empty snapshot name": (["topology", "--snapshot", ""], "director"),
    "a picture into a folder that is not there": (["topology", "--snapshot", "SNAPSHOT", "--svg", "/nowhere/at/all.svg"], "--svg"),
}


@pytest.mark.parametrize("case", sorted(BAD_ARGUMENTS))
def test_a_bad_argument_is_named_in_one_line(case: str, files: Files) -> None:
    arguments, told = BAD_ARGUMENTS[case]
    places = {"JOB": files.job, "SNAPSHOT": files.snapshot, "FOLDER": str(files.folder), "NEW": str(files.folder / "new")}
    assert told in only_line_of(run(*(places.get(argument, argument) for argument in arguments)))


def nan_latency(content: str) -> str:
    return content.replace('"value":0.1', '"value":NaN', 1)


BAD_SNAPSHOTS: dict[str, Callable[[str], str | bytes]] = {
    "half a file": lambda content: content[: len(content) // 2],
    "a node without a name": lambda content: content.replace('"name":"gpu-node-00"', '"title":"gpu-node-00"'),
    "a figure that is not a number": nan_latency,
    "a figure that is text": lambda content: content.replace('"allocatableGpus":8', '"allocatableGpus":"many"', 1),
    "another version": lambda content: content.replace('"schemaVersion": 1', '"schemaVersion": 99'),
    "two nodes of one name": lambda content: content.replace('"name":"gpu-node-01"', '"name":"gpu-node-00"'),
    "no nodes": lambda _: '{"takenAt": 0, "nodes": []}',
    "a list": lambda _: "[]",
    "binary": lambda _: bytes(range(256)),
    "nothing": lambda _: "",
    "half an archive": lambda _: b"PK\x03\x04" + b"\0" * 50,
    "deep nesting": lambda _: '{"takenAt": 0, "nodes": ' + "[" * 100_000,
}


@pytest.mark.parametrize("case", sorted(BAD_SNAPSHOTS))
def test_an_unusable_snapshot_gives_one_line_with_its_name(case: str, files: Files) -> None:
    original = Path(files.snapshot).read_text()
    spoilt = BAD_SNAPSHOTS[case](original)
    assert spoilt != original
    path = files.write("spoilt.json", spoilt)
    assert "spoilt.json" in only_line_of(run("plan", "-f", files.job, "--snapshot", path))


def test_an_archive_with_pickled_objects_is_not_loaded(files: Files, tmp_path: Path) -> None:
    np.savez(tmp_path / "matrix.npz", latency_seconds=np.array([[object()]], dtype=object))
    assert "matrix.npz" in only_line_of(run("plan", "-f", files.job, "--snapshot", str(tmp_path / "matrix.npz")))


def test_a_planner_that_the_policy_forbids_is_refused_with_the_allowed_ones(files: Files) -> None:
    policy = {
        "apiVersion": "hyperscale.dev/v1alpha1",
        "kind": "PlannerPolicy",
        "metadata": {"name": "default"},
        "spec": {"planners": ["Heuristic"]},
    }
    line = only_line_of(files.plan("--policy", files.write("policy.yaml", policy), "--planner", "Learned"))
    assert "the policy allows Heuristic" in line


def test_a_field_beside_the_spec_of_a_policy_is_refused(files: Files) -> None:
    policy = {"apiVersion": "hyperscale.dev/v1alpha1", "kind": "PlannerPolicy", "metadata": {"name": "default"}, "spec": {}, "seed": 4}
    assert "policy.yaml: seed: unknown field beside spec; indent it" in only_line_of(
        files.plan("--policy", files.write("policy.yaml", policy))
    )


def test_a_bad_policy_is_named_with_its_path(files: Files) -> None:
    policy = {
        "apiVersion": "hyperscale.dev/v1alpha1",
        "kind": "PlannerPolicy",
        "metadata": {"name": "default"},
        "spec": {"planDeadlineSeconds": -1},
    }
    line = only_line_of(files.plan("--policy", files.write("policy.yaml", policy)))
    assert "policy.yaml: spec.planDeadlineSeconds" in line


def test_standard_input_is_named_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"kind: Pod\n")))
    assert "standard input: kind" in only_line_of(run("plan", "-f", "-"))


def test_control_characters_of_a_file_do_not_reach_the_terminal(files: Files) -> None:
    path = files.write("bad.yaml", yaml.safe_dump(changed("spec.model.architecture", "\x1b[31mred\nline")))
    line = only_line_of(files.plan(job=path))
    assert "\x1b" not in line


def test_a_long_message_is_cut(files: Files) -> None:
    line = only_line_of(files.plan(job=files.write("bad.yaml", changed("spec.model.architecture", "x" * 100_000))))
    assert len(line) < 1000


def test_a_bug_of_ours_is_one_line_too_and_no_bad_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HYPERSCALE_DEBUG", raising=False)
    monkeypatch.setitem(cli_main.COMMANDS, "version", "hyperscale.cli.nowhere")
    ran = run("version")
    assert ran.code == 70
    assert ran.err.count("\n") == 1
    assert "internal error" in ran.err


def test_the_installed_program_ends_as_quietly(files: Files) -> None:
    path = files.write("bad.yaml", b"\xff\xfe")
    ran = subprocess.run([sys.executable, "-m", "hyperscale.cli.main", "plan", "-f", path], capture_output=True, text=True, check=False)
    assert only_line_of(Ran(ran.returncode, ran.stdout, ran.stderr)).startswith("hyperscale: ")


def test_a_reader_that_leaves_early_is_no_error(files: Files) -> None:
    command = [sys.executable, "-m", "hyperscale.cli.main", "topology", "--snapshot", files.snapshot]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0


UNSIZED: dict[str, Any] = {"source": {"persistentVolumeClaim": {"claimName": "graphs"}}, "path": "own.npz", "format": "NPZ"}


def test_a_graph_of_unknown_size_is_refused_with_the_field_and_the_command_that_reads_it(files: Files) -> None:
    line = only_line_of(files.plan(job=files.write("unsized.yaml", changed("spec.dataset", UNSIZED))))
    assert "spec.dataset.vertices: not known before the graph is read" in line
    assert "hyperscale data inspect FILE" in line


def test_a_job_whose_graph_the_operator_has_read_is_planned_by_what_it_read(files: Files) -> None:
    resource = changed("spec.dataset", UNSIZED)
    read = {"vertices": 2708, "edges": 10556, "featureSize": 1433, "classes": 7, "source": "Read"}
    key = dataset_key(parse_job(resource).dataset)
    resource["status"] = {"dataset": {**read, "datasetKey": key}}
    assert files.plan(job=files.write("read.yaml", resource)).code == 0
    resource["status"] = {"dataset": {**read, "datasetKey": "of another"}}
    assert "spec.dataset.vertices" in only_line_of(files.plan(job=files.write("other.yaml", resource)))
