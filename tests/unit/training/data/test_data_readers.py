"""Every reader on a file that its own library wrote, and on files that lie."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from hyperscale.model.adjacency import TrainingGraph
from hyperscale.training.data import DataError, Stated, graph_digest, known_many, read
from hyperscale.training.data.edges_to_csr import plain_csr as csr
from hyperscale.training.data.formats.dglbinary import MAGIC, VERSION

EDGES = [(0, 1), (1, 2), (2, 0), (2, 3)]
LABELS = [0, 1, 0, -1]
FEATURES = [[1.0, 0.5], [0.0, 2.0], [3.0, 1.0], [0.25, 0.0]]
SPLIT = ["train", "val", "test", "train"]


def load(place: Path, form: str, stated: Stated | None = None) -> TrainingGraph:
    graph = read("persistentVolumeClaim", str(place), form, cache=None, seed=3, stated=stated)
    assert known_many("persistentVolumeClaim", str(place), form) == (graph.graph_offsets is not None), (
        "a look at how it begins tells as much"
    )
    return graph


def check_example(graph: TrainingGraph) -> None:
    """The four vertices above, whichever way they were stored."""
    indptr, indices = csr(np.array(EDGES)[:, 0], np.array(EDGES)[:, 1], 4, True)
    assert np.array_equal(graph.indptr, indptr)
    assert np.array_equal(graph.indices, indices)
    assert graph.labels.tolist() == LABELS
    assert graph.classes == 2
    assert np.array_equal(graph.features, np.array(FEATURES, np.float32))
    assert graph.train.tolist() == [True, False, False, False], "a vertex without label trains nothing"
    assert graph.validation.tolist() == [False, True, False, False]
    assert graph.test.tolist() == [False, False, True, False]


def nodes_csv() -> str:
    rows = [f"{at},{'' if label < 0 else label},{SPLIT[at]},{FEATURES[at][0]},{FEATURES[at][1]}" for at, label in enumerate(LABELS)]
    return "\n".join(["id,label,split,f0,f1", *reversed(rows)]) + "\n"


def test_csv_folder_with_edges_and_vertices_in_any_order(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("source,destination,weight\n" + "".join(f"{u},{v},1\n" for u, v in EDGES))
    (tmp_path / "nodes.csv").write_text(nodes_csv())
    check_example(load(tmp_path, "CSV"))


@pytest.mark.parametrize(("direction", "edges"), [("Auto", 8), ("Undirected", 8), ("Directed", 4)])
def test_the_job_says_whether_edges_count_in_both_directions(tmp_path: Path, direction: str, edges: int) -> None:
    (tmp_path / "edges.csv").write_text("source,destination\n" + "".join(f"{u},{v}\n" for u, v in EDGES))
    (tmp_path / "nodes.csv").write_text(nodes_csv())
    graph = load(tmp_path, "CSV", Stated(direction=direction))
    assert len(graph.indices) == edges
    assert any("spec.dataset.direction" in note for note in graph.notes) == (direction == "Auto"), graph.notes


def test_a_direction_where_there_is_nothing_to_choose_is_refused() -> None:
    with pytest.raises(DataError, match=r"^spec.dataset.direction: .*leave it out"):
        read("builtin", "Cora", "", cache=None, stated=Stated(direction="Directed"))


def test_ids_of_an_edge_list_that_begin_at_1_are_numbered_from_0_and_it_is_said(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("1,2\n2,3\n")
    graph = load(tmp_path / "edges.csv", "CSV")
    assert len(graph.indptr) == 4
    assert (np.diff(graph.indptr) > 0).all(), "no vertex that the file does not name"
    assert any("begin at 1" in note for note in graph.notes)
    assert len(load(tmp_path / "edges.csv", "CSV", Stated(vertices=4)).indptr) == 5, "unless the job counts a vertex 0"


def test_tsv_gz_with_comments_and_without_header_is_an_edge_list(tmp_path: Path) -> None:
    file = tmp_path / "snap.txt.gz"
    file.write_bytes(gzip.compress(b"# Nodes: 4\n# FromNodeId\tToNodeId\n" + b"".join(b"%d\t%d\n" % edge for edge in EDGES)))
    graph = load(file, "CSV")
    assert len(graph.indptr) == 5
    assert len(graph.indices) == 8
    assert graph.features.shape == (4, 2), "degrees stand in for features"
    assert not graph.train.any()


def test_parquet_folder_with_lists_of_features(tmp_path: Path) -> None:
    sources, destinations = zip(*EDGES, strict=True)
    parquet.write_table(pa.table({"src": sources, "dst": destinations}), tmp_path / "edges.parquet")
    labels = [None if label < 0 else label for label in LABELS]
    parquet.write_table(pa.table({"features": FEATURES, "label": labels, "split": SPLIT}), tmp_path / "nodes.parquet")
    check_example(load(tmp_path, "Parquet"))


def test_npz_in_the_plain_form(tmp_path: Path) -> None:
    file = tmp_path / "g.npz"
    np.savez(file, edges=np.array(EDGES), features=np.array(FEATURES), labels=np.array(LABELS), split=np.array(SPLIT))
    check_example(load(file, "NPZ"))


def test_graphml_as_networkx_writes_it(tmp_path: Path) -> None:
    import networkx as nx

    graph: nx.Graph[str] = nx.Graph()
    for at, label in enumerate(LABELS):
        extra = {} if label < 0 else {"label": label}
        graph.add_node(f"n{at}", split=SPLIT[at], f0=FEATURES[at][0], f1=FEATURES[at][1], **extra)
    graph.add_edges_from((f"n{u}", f"n{v}") for u, v in EDGES)
    nx.write_graphml(graph, tmp_path / "g.graphml")
    check_example(load(tmp_path / "g.graphml", "GraphML"))


@pytest.mark.filterwarnings("ignore")
def test_dgl_binary(tmp_path: Path) -> None:
    dgl = pytest.importorskip("dgl")
    import torch

    sources, destinations = torch.tensor(EDGES).T
    graph = dgl.graph((torch.cat([sources, destinations]), torch.cat([destinations, sources])), num_nodes=4)
    graph.ndata["feat"] = torch.tensor(FEATURES)
    graph.ndata["label"] = torch.tensor(LABELS)
    for part, name in (("train", "train_mask"), ("val", "val_mask"), ("test", "test_mask")):
        graph.ndata[name] = torch.tensor([entry == part for entry in SPLIT])
    dgl.save_graphs(str(tmp_path / "g.bin"), [graph])
    check_example(load(tmp_path / "g.bin", "DGL"))
    del graph.ndata["val_mask"]
    dgl.save_graphs(str(tmp_path / "half.bin"), [graph])
    with pytest.raises(DataError, match="not all of train_mask, val_mask, test_mask"):
        load(tmp_path / "half.bin", "DGL")
    graph.ndata["feat"] = graph.ndata["feat"].to(torch.int64)
    dgl.save_graphs(str(tmp_path / "many.bin"), [graph, graph], {"label": torch.tensor([1, 0])})
    many = load(tmp_path / "many.bin", "DGL")
    assert many.graph_offsets is not None
    assert many.graph_offsets.tolist() == [0, 4, 8]
    assert many.labels.tolist() == [[1.0], [0.0]]
    dgl.save_graphs(str(tmp_path / "scalar.bin"), [graph, graph], {"label": torch.tensor(1)})
    with pytest.raises(DataError, match="2 graphs without a label each"):
        load(tmp_path / "scalar.bin", "DGL")
    (tmp_path / "torn.bin").write_bytes((tmp_path / "g.bin").read_bytes()[:40])
    with pytest.raises(DataError, match=r"DGL cannot read it \((?!.*Stack trace)"):
        load(tmp_path / "torn.bin", "DGL")


@pytest.mark.parametrize("contents", [b"", b"x" * 100, struct.pack("<QQQQ", MAGIC, 1, 2, 9), struct.pack("<QQQ", MAGIC, VERSION, 2)])
@pytest.mark.parametrize("form", ["DGL", "OGB", "NPZ"])
def test_files_that_are_none_of_their_format_are_not_known_to_be_many_graphs(contents: bytes, form: str, tmp_path: Path) -> None:
    (tmp_path / "g").write_bytes(contents)
    assert not known_many("persistentVolumeClaim", str(tmp_path / "g"), form)


@pytest.mark.parametrize(
    ("source", "path"),
    [("persistentVolumeClaim", "/no/such\0place"), ("s3", "s3://bucket/set"), ("builtin", "Cora"), ("persistentVolumeClaim", "/dev/null")],
)
@pytest.mark.parametrize("form", ["DGL", "OGB"])
def test_what_is_not_at_hand_is_not_known_to_be_many_graphs(source: str, path: str, form: str) -> None:
    assert not known_many(source, path, form)


def test_a_file_that_is_no_dgl_file_never_reaches_dgl(tmp_path: Path) -> None:
    (tmp_path / "g.bin").write_bytes(b"\x80\x04" + b"x" * 100)
    with pytest.raises(DataError, match="no DGL file of version 2"):
        load(tmp_path / "g.bin", "DGL")


def ogb_folder(root: Path) -> None:
    """Two tiny molecules as OGB's archives hold them."""
    raw, split = root / "raw", root / "split" / "scaffold"
    raw.mkdir()
    split.mkdir(parents=True)
    files = {
        "edge": "0,1\n1,2\n0,1\n",
        "num-node-list": "3\n2\n",
        "num-edge-list": "2\n1\n",
        "node-feat": "5,0\n6,0\n7,1\n5,0\n7,1\n",
        "edge-feat": "0,0\n1,0\n2,1\n",
        "graph-label": "1\n0\n",
    }
    for name, text in files.items():
        (raw / f"{name}.csv.gz").write_bytes(gzip.compress(text.encode()))
    for name, text in (("train", "0\n"), ("valid", "1\n"), ("test", "1\n")):
        (split / f"{name}.csv.gz").write_bytes(gzip.compress(text.encode()))


def test_ogb_folder_of_many_graphs_gets_reverse_edges_with_the_same_features(tmp_path: Path) -> None:
    ogb_folder(tmp_path)
    graph = load(tmp_path, "OGB")
    assert graph.graph_offsets is not None
    assert graph.graph_offsets.tolist() == [0, 3, 5]
    assert graph.indptr.tolist() == [0, 1, 3, 4, 5, 6]
    assert graph.indices.tolist() == [1, 0, 2, 1, 4, 3]
    assert graph.edge_features is not None
    assert graph.edge_features.tolist() == [[0, 0], [0, 0], [1, 0], [1, 0], [2, 1], [2, 1]]
    assert graph.features.dtype == np.int64
    assert graph.train.tolist() == [True, False]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("node-feat", "5,0\n6,0\n7,99999999999\n5,0\n7,1\n", "graph 0: whole features are categories"),
        ("edge-feat", "0,0\n1,0\n-2,1\n", "graph 1: whole features are categories"),
        ("node-feat", "5,0\n,0\n7,1\n5,0\n7,1\n", "graph 0: a feature is not finite"),
        ("graph-label", "inf\n0\n", "graph 0: a label is infinite"),
    ],
)
def test_ogb_figures_that_cannot_be_meant_are_refused_with_their_graph(name: str, text: str, words: str, tmp_path: Path) -> None:
    ogb_folder(tmp_path)
    (tmp_path / "raw" / f"{name}.csv.gz").write_bytes(gzip.compress(text.encode()))
    with pytest.raises(DataError, match=words):
        load(tmp_path, "OGB")


def test_ogb_folder_of_one_graph(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    texts = {"edge": "0,1\n1,2\n2,0\n2,3\n", "num-node-list": "4\n", "num-edge-list": "4\n", "node-label": "0\n1\n0\nnan\n"}
    texts["node-feat"] = "".join(f"{a},{b}\n" for a, b in FEATURES)
    for name, text in texts.items():
        (raw / f"{name}.csv").write_text(text)
    graph = load(tmp_path, "OGB")
    assert graph.labels.tolist() == LABELS
    assert len(graph.indices) == 8
    assert np.array_equal(graph.features, np.array(FEATURES, np.float32))


def test_smiles_have_the_features_of_ogb(tmp_path: Path) -> None:
    file = tmp_path / "m.csv"
    file.write_text("smiles,active,toxic,split\nCC(=O)O,1,,train\nc1ccccc1,0,1,test\n")
    graph = load(file, "SMILES")
    assert graph.graph_offsets is not None
    assert graph.graph_offsets.tolist() == [0, 4, 10]
    # Places in OGB's lists of values, by hand.
    assert graph.features[:4].tolist() == [
        [5, 0, 4, 5, 3, 0, 2, 0, 0],
        [5, 0, 3, 5, 0, 0, 1, 0, 0],
        [7, 0, 1, 5, 0, 0, 1, 0, 0],
        [7, 0, 2, 5, 1, 0, 1, 0, 0],
    ]
    assert graph.edge_features is not None
    assert graph.indices[:6].tolist() == [1, 0, 2, 3, 1, 1]
    assert graph.edge_features[:6].tolist() == [[0, 0, 0], [0, 0, 0], [1, 0, 1], [0, 0, 1], [1, 0, 1], [0, 0, 1]]
    assert graph.edge_features[6:, 0].tolist() == [3] * 12, "aromatic"
    assert np.isnan(graph.labels[0, 1])
    assert graph.train.tolist() == [True, False]


def test_a_table_of_nonsense_instead_of_smiles_is_refused_with_its_row(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("smiles,active\nCC,1\nnot a molecule,0\n")
    with pytest.raises(DataError, match=r"row 2: 'not a molecule'.*1 of 2 rows"):
        load(tmp_path / "m.csv", "SMILES")


RINGS = ("c1ccccc1", "C1CCCCC1", "c1ccncc1", "c1ccc2ccccc2c1", "c1ccoc1", "c1ccsc1", "C1CCNCC1", "c1ccc2[nH]ccc2c1", "C1CCOC1", "C1CC1")


def test_scaffold_split_keeps_the_molecules_of_a_scaffold_together(tmp_path: Path) -> None:
    scaffolds = [at for at in range(len(RINGS)) for _ in range(20 + 4 * at)]
    chains = [f"{'C' * (1 + turn % 30)}{RINGS[at]}" for turn, at in enumerate(scaffolds)]
    (tmp_path / "m.csv").write_text("smiles,active\n" + "".join(f"{smiles},{at % 2}\n" for at, smiles in enumerate(chains)))
    graph = read("persistentVolumeClaim", str(tmp_path / "m.csv"), "SMILES", cache=tmp_path / "cache")
    part = graph.train * 1 + graph.validation * 2 + graph.test * 4
    assert set(part.tolist()) == {1, 2, 4}, "each in one part"
    for at in range(len(RINGS)):
        assert len({int(one) for one, scaffold in zip(part, scaffolds, strict=True) if scaffold == at}) == 1
    assert 0.7 <= graph.train.mean() <= 0.8
    again = read("persistentVolumeClaim", str(tmp_path / "m.csv"), "SMILES", cache=tmp_path / "cache", seed=7)
    assert graph_digest(again) == graph_digest(graph)
    assert len(list((tmp_path / "cache").iterdir())) == 1
