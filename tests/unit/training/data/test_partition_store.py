"""The store of partitions, the program that fills it, and object stores."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from hyperscale.model.adjacency import LocalPart, TrainingGraph
from hyperscale.training import partition
from hyperscale.training.data import DataError, generate, graph_digest, part_store, symmetric
from hyperscale.training.data.formats import archive
from hyperscale.training.data.graphs import deal
from hyperscale.training.worker import automatic, given, prepare

SHARES = (0.5, 0.25, 0.25)


@pytest.fixture(scope="module")
def graph() -> TrainingGraph:
    return generate.generate(generate.Recipe(generate.Kind.SBM, 300, 2400, 16, 4), 1)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {
        "HYPERSCALE_JOB": "team/trial",
        "HYPERSCALE_MODEL": '{"architecture": "GCN"}',
        "HYPERSCALE_DATASET_SOURCE": "generated",
        "HYPERSCALE_DATASET_PATH": "SBM",
        "HYPERSCALE_DATASET_FORMAT": "DGL",
        "HYPERSCALE_DATASET_VERTICES": "300",
        "HYPERSCALE_DATASET_EDGES": "2400",
        "HYPERSCALE_DATASET_FEATURE_SIZE": "16",
        "HYPERSCALE_DATASET_CLASSES": "4",
        "HYPERSCALE_SEED": "1",
        "HYPERSCALE_WORKERS": "3",
        "HYPERSCALE_PARTITIONS": "3",
        "HYPERSCALE_SHARES": "0.5,0.25,0.25",
        "HYPERSCALE_PARTITIONING_METHOD": "METIS",
        "HYPERSCALE_PARTITION_DIR": str(tmp_path / "store"),
    }


def about(graph: TrainingGraph, key: str) -> part_store.PartManifest:
    return part_store.PartManifest(part_store.VERSION, key, graph_digest(graph), graph.name, 300, len(graph.indices), "METIS", SHARES, 1)


def written(root: Path, graph: TrainingGraph) -> tuple[str, list[LocalPart]]:
    parts = partition.split(symmetric(graph), SHARES, "METIS", seed=1)
    key = part_store.key(graph_digest(graph), "METIS", SHARES, 1)
    local = [partition.local_part(graph, parts.assignment, part) for part in range(3)]
    part_store.write(root, key, local, about(graph, key))
    return key, local


def test_parts_come_back_as_they_were_written(tmp_path: Path, graph: TrainingGraph) -> None:
    key, local = written(tmp_path, graph)
    assert part_store.has(tmp_path, key)
    for part in local:
        found = part_store.load(tmp_path, key, part.part)
        for entry in fields(part):
            if entry.name != "extra":
                assert np.array_equal(getattr(found, entry.name), getattr(part, entry.name)), entry.name
    assert sum(part.vertices for part in part_store.manifest(tmp_path, key).parts) == 300
    assert not list(tmp_path.rglob(".part-*")), "nothing half written stays"


def test_a_store_without_manifest_is_not_there(tmp_path: Path, graph: TrainingGraph) -> None:
    key, _ = written(tmp_path, graph)
    (tmp_path / key / part_store.MANIFEST).unlink()
    assert not part_store.has(tmp_path, key)
    with pytest.raises(DataError, match="cannot be read"):
        part_store.load(tmp_path, key, 0)


@pytest.mark.parametrize("note", [b"", b"\xff", b"[]", b'{"key": 5}', b'{"key": "../../etc"}'])
def test_a_torn_note_leads_nowhere_and_is_written_anew(note: bytes, tmp_path: Path, graph: TrainingGraph) -> None:
    key, _ = written(tmp_path, graph)
    part_store.note(tmp_path, "1" * 32, key)
    (tmp_path / part_store.REQUESTS / f"{'1' * 32}.json").write_bytes(note)
    assert part_store.find(tmp_path, "1" * 32) is None
    part_store.note(tmp_path, "1" * 32, key)
    assert part_store.find(tmp_path, "1" * 32) == key


def test_a_changed_or_cut_part_is_refused(tmp_path: Path, graph: TrainingGraph) -> None:
    key, _ = written(tmp_path, graph)
    file = part_store.part_file(tmp_path, key, 1)
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(DataError, match="damaged"):
        part_store.load(tmp_path, key, 1)
    file.write_bytes(content[:-8])
    assert not part_store.has(tmp_path, key)


@pytest.mark.parametrize("key", ["", "../../etc", "A" * 32, "0" * 31])
def test_keys_are_hex_digits_and_nothing_else(key: str, tmp_path: Path) -> None:
    assert not part_store.has(tmp_path, key)
    with pytest.raises(DataError, match="no key of the store"):
        part_store.part_file(tmp_path, key, 0)


def test_what_decides_partitions_decides_the_key() -> None:
    keys = {
        part_store.key("d" * 64, "METIS", (0.5, 0.5), 1),
        part_store.key("e" * 64, "METIS", (0.5, 0.5), 1),
        part_store.key("d" * 64, "Random", (0.5, 0.5), 1),
        part_store.key("d" * 64, "METIS", (0.4, 0.6), 1),
        part_store.key("d" * 64, "METIS", (0.5, 0.5), 2),
    }
    assert len(keys) == 5


def test_the_program_writes_once_and_workers_find_it(environment: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert prepare.main(environment) == 0
    first = json.loads(capsys.readouterr().out)
    assert (first["reused"], first["parts"], first["method"], first["vertices"]) == (False, 3, "METIS", 300)
    root = Path(environment["HYPERSCALE_PARTITION_DIR"])
    key = part_store.find(root, part_store.request(environment))
    assert key is not None
    assert key == first["key"]
    loaded = [part_store.load(root, key, part) for part in range(3)]
    assert np.array_equal(np.sort(np.concatenate([part.owned for part in loaded])), np.arange(300))
    assert {part.train_total for part in loaded} == {sum(int(part.train.sum()) for part in loaded)}
    assert prepare.main(environment) == 0
    assert json.loads(capsys.readouterr().out)["reused"]
    other = {**environment, "HYPERSCALE_SHARES": "0.25,0.5,0.25"}
    assert part_store.find(root, part_store.request(other)) is None, "another plan has other parts"


def test_auto_takes_the_shortest_predicted_epoch_and_keeps_to_it(
    environment: dict[str, str], tmp_path: Path, graph: TrainingGraph, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = {"version": 1, "job": "team/trial", "planId": "p", "seed": 1, "partitions": 3, "workers": []}
    plan |= {"predicted": {"epochSeconds": 4.0, "communicationSeconds": 1.0}, "allreduce": {"latencySeconds": 0, "secondsPerByte": 4e-3}}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    environment |= {"HYPERSCALE_PARTITIONING_METHOD": "Auto", "HYPERSCALE_PLAN_FILE": str(tmp_path / "plan.json")}
    best = automatic.parts(prepare.read_run(environment), symmetric(graph), graph.train, 16, 4)
    assert prepare.main(environment) == 0
    first = json.loads(capsys.readouterr().out)
    assert (first["method"], first["measures"]["cut"]) == (best.method, best.measures.cut)
    assert prepare.main(environment) == 0
    again = json.loads(capsys.readouterr().out)
    assert (again["reused"], again["key"]) == (True, first["key"])


def test_parts_that_came_with_the_data_set_are_taken_and_checked(
    environment: dict[str, str], tmp_path: Path, graph: TrainingGraph, capsys: pytest.CaptureFixture[str]
) -> None:
    archive.write(tmp_path / "g.npz", graph)
    parts = tmp_path / "g.npz.parts.parquet"
    environment |= {
        "HYPERSCALE_DATASET_SOURCE": "persistentVolumeClaim",
        "HYPERSCALE_DATASET_PATH": str(tmp_path / "g.npz"),
        "HYPERSCALE_DATASET_FORMAT": "NPZ",
    }
    environment |= {"HYPERSCALE_PARTITIONING_METHOD": "Precomputed"}
    keys = []
    for shift in (0, 1):
        parquet.write_table(pa.table({"vertex": np.arange(300), "part": (np.arange(300) + shift) % 3}), parts)
        assert prepare.main(environment) == 0
        answer = json.loads(capsys.readouterr().out)
        assert (answer["method"], answer["reused"]) == ("Precomputed", False)
        keys.append(answer["key"])
        owned = part_store.load(Path(environment["HYPERSCALE_PARTITION_DIR"]), answer["key"], 0).owned
        assert np.array_equal(owned, np.flatnonzero((np.arange(300) + shift) % 3 == 0))
    assert keys[0] != keys[1], "other parts, another key"
    parquet.write_table(pa.table({"vertex": np.arange(300), "part": np.arange(300) % 4}), parts)
    assert prepare.main(environment) == 2
    assert "a part outside 0..2; write 3 parts" in capsys.readouterr().err
    parts.unlink()
    assert prepare.main(environment) == 2
    assert "absent, and spec.partitioning.method is Precomputed" in capsys.readouterr().err


def test_a_job_may_ask_for_parts_by_degree(environment: dict[str, str], graph: TrainingGraph, capsys: pytest.CaptureFixture[str]) -> None:
    assert prepare.main({**environment, "HYPERSCALE_PARTITIONING_METHOD": "Degree"}) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["method"] == "Degree"
    adjacency = symmetric(graph)
    degrees = [
        int(np.diff(adjacency.indptr)[part_store.load(Path(environment["HYPERSCALE_PARTITION_DIR"]), answer["key"], part).owned].sum())
        for part in range(3)
    ]
    assert np.array(degrees) / len(adjacency.indices) == pytest.approx(SHARES, abs=0.02)


def test_more_parts_than_ranks_share_evenly(environment: dict[str, str]) -> None:
    environment |= {"HYPERSCALE_PARTITIONS": "6", "HYPERSCALE_GPUS_PER_WORKER": "1"}
    assert given.part_shares(prepare.read_run(environment)) == (0.25, 0.25, 0.125, 0.125, 0.125, 0.125)
    environment |= {"HYPERSCALE_PARTITIONS": "3", "HYPERSCALE_GPUS_PER_WORKER": "2"}
    assert given.part_shares(prepare.read_run(environment)) == (0.25, 0.25, 0.125, 0.125, 0.125, 0.125), "one part a rank"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"HYPERSCALE_PARTITION_DIR": ""}, "HYPERSCALE_PARTITION_DIR: missing"),
        ({"HYPERSCALE_SHARES": "1,x,2"}, "HYPERSCALE_SHARES"),
        ({"HYPERSCALE_PARTITIONS": "4"}, "write a multiple of the ranks"),
        ({"HYPERSCALE_DATASET_PATH": "Torus"}, "write one of SBM, RMAT"),
        ({"HYPERSCALE_DATASET_PATH": "SBM?vertices=10&edges=46"}, "more than half of all pairs"),
        (
            {"HYPERSCALE_DATASET_SOURCE": "persistentVolumeClaim", "HYPERSCALE_DATASET_PATH": "/nowhere/graph.npz"},
            "does not exist in the mounted volume",
        ),
        ({"HYPERSCALE_PARTITIONING_METHOD": "Precomputed"}, "a generated data set has no parts"),
    ],
)
def test_the_program_refuses_with_one_line_and_exit_code_2(
    change: dict[str, str], words: str, environment: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert prepare.main({**environment, **change}) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("hyperscale-prepare: ")
    assert words in error


def test_what_cannot_fit_is_refused_before_anything_is_read(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    environment |= {"HYPERSCALE_DATASET_VERTICES": "10000000", "HYPERSCALE_DATASET_EDGES": "200000000"}
    monkeypatch.setattr(prepare, "limit_bytes", lambda: 16 * 2**30)
    assert prepare.main(environment) == 2
    error = capsys.readouterr().err
    assert "this container may use 16.00 GiB; name nodes with more memory in spec.placement.nodeSelector, or write Auto" in error
    assert "reading" not in error
    monkeypatch.setattr(prepare, "limit_bytes", lambda: 2**30)
    assert prepare.main({**environment, "HYPERSCALE_PARTITIONING_METHOD": "Auto"}) == 2
    assert "into 3 parts need" in capsys.readouterr().err


def test_auto_streams_what_metis_has_no_memory_for(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    limit = (partition.streaming_bytes(300, 2400, 16) + partition.memory_bytes(300, 1200, 16, 3)) // 2
    monkeypatch.setattr(prepare, "limit_bytes", lambda: limit)
    assert prepare.main({**environment, "HYPERSCALE_PARTITIONING_METHOD": "Auto"}) == 0
    captured = capsys.readouterr()
    answer = json.loads(captured.out)
    assert answer["method"] == "Fennel"
    assert answer["measures"]["imbalance"] <= 1.06
    assert "streaming with Fennel instead" in captured.err


def test_the_program_as_a_process_says_what_is_wrong(environment: dict[str, str]) -> None:
    variables = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1", **environment, "HYPERSCALE_DATASET_VERTICES": "many"}
    ran = subprocess.run(
        [sys.executable, "-m", "hyperscale.training.worker.prepare"], env=variables, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert "HYPERSCALE_DATASET_VERTICES" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_data_sets_of_many_graphs_are_dealt_out_whole() -> None:
    sizes = np.random.default_rng(0).integers(1, 9, 200)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    train = np.arange(200) < 100
    nothing, vertices = np.zeros(200, bool), int(offsets[-1])
    graph = TrainingGraph(
        np.zeros(vertices + 1, np.int64),
        np.zeros(0, np.int32),
        np.zeros((vertices, 1)),
        np.zeros((200, 1)),
        train,
        ~train,
        nothing,
        1,
        offsets,
    )
    assignment = deal(graph, SHARES, 0)
    first = assignment[offsets[:-1]]
    assert np.array_equal(np.repeat(first, sizes), assignment)
    assert np.bincount(first[train]).tolist() == [50, 25, 25]
    assert np.bincount(first).tolist() == [100, 50, 50]
