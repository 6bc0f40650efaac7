"""Parts that send each other most go to ranks of one node, from a store or cut in memory, and what ranks exchange stays right."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest

from benchmarks.threads import run_threads
from hyperscale.model.adjacency import Array, LocalPart, TrainingGraph
from hyperscale.model.api.node_links import NodeLinks
from hyperscale.training import data, partition
from hyperscale.training.data import part_store
from hyperscale.training.data.formats import archive
from hyperscale.training.rankmap import part_ranks
from hyperscale.training.rankmap.exchange_cost import ExchangeCost
from hyperscale.training.rankmap.part_ranks import PartRanks, boundary_table, merged_table, place_parts
from hyperscale.training.rankmap.rank_links import RankLinks, rank_links
from hyperscale.training.runtime.comm import Comm
from hyperscale.training.worker import load_part, prepare
from tests.builders.training import a_run, labelled_graph

VERTICES = 60
NODES = ("a", "a", "b", "b")
NEIGHBOURS = np.array([[0, 1, 9, 1], [1, 0, 1, 9], [9, 1, 0, 1], [1, 9, 1, 0]])
"""Part 0 talks to 2, and 1 to 3."""


def plan_file(folder: Path, nodes: tuple[str, ...] = NODES, links: object = None) -> Path:
    share = 1.0 / len(nodes)
    workers = [{"index": at, "rank": at, "node": node, "gpus": 1, "share": share} for at, node in enumerate(nodes)]
    document: dict[str, object] = {
        "version": 1,
        "job": "team/j",
        "planId": "0" * 16,
        "seed": 0,
        "partitions": len(nodes),
        "workers": workers,
    }
    if links is not None:
        document["links"] = links
    (folder / "plan.json").write_text(json.dumps(document))
    return folder / "plan.json"


def test_neighbours_share_a_node_and_the_rows_between_nodes_are_counted() -> None:
    placed = place_parts(NEIGHBOURS, rank_links(NODES, None), [0.25] * 4)
    assert placed is not None
    node = np.array(NODES)[placed.rank]
    assert (node[0], node[1]) == (node[2], node[3])
    assert node[0] != node[1]
    assert (placed.before.rows, placed.after.rows) == (40, 8)


@pytest.mark.parametrize(
    ("nodes", "shares"),
    [
        (("a", "a", "a", "a"), [0.25] * 4),  # no row crosses a node
        (("a", "b", "c", "d"), [0.25] * 4),  # every row does
        (NODES, [0.1, 0.2, 0.3, 0.4]),  # each part was cut for its rank alone
        (NODES[:3], [0.25] * 4),  # another plan
    ],
)
def test_parts_stay_where_nothing_is_won_or_may_move(nodes: tuple[str, ...], shares: list[float]) -> None:
    assert place_parts(NEIGHBOURS, rank_links(nodes, None), shares) is None


def test_a_part_moves_only_to_ranks_of_its_share() -> None:
    placed = place_parts(NEIGHBOURS, rank_links(("a", "b", "b", "a"), None), [0.3, 0.2, 0.2, 0.3])
    assert placed is None or {int(placed.rank[0]), int(placed.rank[3])} == {0, 3}


def graph_and_parts() -> tuple[TrainingGraph, Array]:
    graph = labelled_graph(3, VERTICES)
    return graph, np.random.default_rng(1).integers(0, 4, VERTICES).astype(np.int32)


def test_the_table_counts_the_copies_of_each_part() -> None:
    graph, parts = graph_and_parts()
    table = boundary_table(graph, parts, 4)
    for part in range(4):
        copies = partition.local_part(graph, parts, part, 4).halo_owner
        assert table[:, part].tolist() == np.bincount(copies, minlength=4).tolist()
    assert merged_table(table, 2).tolist() == [[0, int(table[:2, 2:].sum())], [int(table[2:, :2].sum()), 0]]


def loaded(folder: Path, plan: Path, size: int, **variables: str) -> list[LocalPart]:
    told = {
        "HYPERSCALE_DATASET_SOURCE": "persistentVolumeClaim",
        "HYPERSCALE_DATASET_PATH": str(folder / "g.npz"),
        "HYPERSCALE_DATASET_FORMAT": "NPZ",
        "HYPERSCALE_WORKERS": str(size),
        "HYPERSCALE_PARTITIONING_METHOD": "Random",
        **variables,
    }

    def rank(comm: Comm) -> LocalPart:
        return load_part.part(a_run(None, None, comm.rank, comm.size, **told, HYPERSCALE_PLAN_FILE=str(plan)), comm, told)

    if "HYPERSCALE_PARTITION_DIR" in told:
        prepare.prepare({**told, "HYPERSCALE_MODEL": '{"architecture": "GCN"}'})
    return run_threads(size, rank)


def as_global(part: LocalPart) -> dict[int, list[int]]:
    """In-neighbours of each own vertex, by global ids."""
    local = np.concatenate([part.owned, part.halo])
    rows = np.split(local[part.indices], part.indptr[1:-1])
    return {int(vertex): sorted(row.tolist()) for vertex, row in zip(part.owned, rows, strict=True)}


@pytest.mark.parametrize(("stored", "each"), [(False, 1), (True, 1), (True, 2)])
def test_every_rank_gets_a_whole_part_whose_copies_name_the_ranks_that_own_them(
    tmp_path: Path, stored: bool, each: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = labelled_graph(3, VERTICES)
    archive.write(tmp_path / "g.npz", graph)
    monkeypatch.setattr(part_ranks, "place_parts", lambda table, links, shares, **_: _turned(table, links, shares))
    more = {"HYPERSCALE_PARTITION_DIR": str(tmp_path / "store"), "HYPERSCALE_PARTITIONS": str(4 * each)} if stored else {}
    parts = loaded(tmp_path, plan_file(tmp_path), 4, **more)
    plain = loaded(tmp_path, plan_file(tmp_path, ("a", "b")), 4, **more)
    assert [part.part for part in parts] == [0, 1, 2, 3]
    assert [part.owned.tolist() for part in parts] == [plain[at].owned.tolist() for at in (3, 0, 1, 2)]
    owner = np.empty(VERTICES, dtype=np.int64)
    for part in parts:
        owner[part.owned] = part.part
    for part in parts:
        assert (owner[part.halo] == part.halo_owner).all()
        assert (np.diff(part.halo_owner) >= 0).all()
        local = np.concatenate([part.owned, part.halo])
        assert (part.in_degree == np.diff(graph.indptr)[local]).all()
        whole = partition.local_part(graph, owner.astype(np.int32), part.part, 4)
        assert as_global(part) == as_global(whole)
        assert part.halo.tolist() == whole.halo.tolist()


def _turned(table: Array, links: RankLinks, shares: tuple[float, ...]) -> PartRanks:
    assert table.shape == (4, 4)
    assert len(links.node) == len(shares) == 4
    return PartRanks(np.array([1, 2, 3, 0]), ExchangeCost(2, 2.0, 2.0), ExchangeCost(1, 1.0, 1.0))


def test_parts_of_earlier_versions_of_the_store_stay_on_their_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive.write(tmp_path / "g.npz", labelled_graph(3, VERTICES))
    monkeypatch.setattr(part_store, "MAX_TABLE_PARTS", 0)
    more = {"HYPERSCALE_PARTITION_DIR": str(tmp_path / "store")}
    with_plan, without = (loaded(tmp_path, plan_file(tmp_path, nodes), 4, **more) for nodes in (NODES, ("a", "b")))
    assert [part.owned.tolist() for part in with_plan] == [part.owned.tolist() for part in without]


def test_a_real_cut_sends_fewer_rows_between_nodes() -> None:
    graph = data.read("builtin", "CiteSeer", "NPZ", cache=None, seed=0, endpoint=None, stated=None)
    parts = partition.split(data.symmetric(graph), (0.125,) * 8, "METIS", seed=0, train=graph.train).assignment
    placed = place_parts(boundary_table(graph, parts, 8), rank_links(["a"] * 4 + ["b"] * 4, None), [0.125] * 8)
    assert placed is not None
    assert placed.after.rows <= 0.7 * placed.before.rows


@pytest.mark.parametrize("wrong", [[10**400, 1, 1, 1], [-1, 1, 1, 1], [1, 1]])
def test_a_manifest_with_impossible_copies_is_refused_with_one_line(tmp_path: Path, wrong: list[int]) -> None:
    archive.write(tmp_path / "g.npz", labelled_graph(3, VERTICES))
    store = tmp_path / "store"
    loaded(tmp_path, plan_file(tmp_path), 4, HYPERSCALE_PARTITION_DIR=str(store))
    file = next(store.glob("*/manifest.json"))
    document = json.loads(file.read_text())
    document["parts"][1]["haloFrom"] = wrong
    file.write_text(json.dumps(document))
    with pytest.raises(data.DataError, match="haloFrom of part 1 fits no graph"):
        part_store.manifest(store, file.parent.name)


def test_the_graph_is_not_read_again_where_no_part_may_move(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive.write(tmp_path / "g.npz", labelled_graph(3, VERTICES))
    monkeypatch.setattr(part_ranks, "boundary_table", lambda *_: pytest.fail("the table was made"))
    for nodes in (("a", "a"), ("a", "a", "a"), ("a", "b", "c", "d")):
        loaded(tmp_path, plan_file(tmp_path, nodes), len(nodes))


UNEVEN: dict[str, object] = {
    "secondsPerByte": [1e-10, 1e-9, 1e-8, 1e-10, 1e-8, 1e-10],
    "latencySeconds": [1e-6, 1e-4, 1e-4, 1e-6, 1e-4, 1e-6],
}
"""Three nodes: the first two are near each other."""


def test_parts_that_send_each_other_most_take_the_nodes_with_the_fast_link_between_them() -> None:
    table = np.array([[0, 1, 90], [1, 0, 1], [90, 1, 0]])
    links = rank_links(("a", "b", "c"), msgspec.convert(UNEVEN, NodeLinks))
    placed = place_parts(table, links, [1 / 3] * 3, row_bytes=100.0)
    assert placed is not None
    assert {int(placed.rank[0]), int(placed.rank[2])} == {0, 1}
    assert placed.before.rows == placed.after.rows == 184
    assert placed.before.bottleneck_seconds == pytest.approx(91e-6 + 1e-4)
    assert placed.after.bottleneck_seconds == pytest.approx(9e-6 + 1e-6 + 1e-4)
    assert placed.after.seconds == pytest.approx(2 * (90e-7 + 1e-6 + 1e-6))


def test_equal_links_between_nodes_of_one_rank_each_move_nothing() -> None:
    even = NodeLinks((1e-10, 1e-9, 1e-9, 1e-10, 1e-9, 1e-10), (0.0,) * 6)
    assert place_parts(np.array([[0, 1, 90], [1, 0, 1], [90, 1, 0]]), rank_links(("a", "b", "c"), even), [1 / 3] * 3) is None


HOSTILE = {
    "none of the figures": {"secondsPerByte": [], "latencySeconds": []},
    "of another number of nodes": {**UNEVEN, "latencySeconds": [1e-6]},
    "a free link": {**UNEVEN, "secondsPerByte": [1e-10, 0.0, 1e-8, 1e-10, 1e-8, 1e-10]},
    "a negative figure": {**UNEVEN, "secondsPerByte": [1e-10, -1e-9, 1e-8, 1e-10, 1e-8, 1e-10]},
    "a link that never ends": {**UNEVEN, "secondsPerByte": [1e-10, 1e300, 1e-8, 1e-10, 1e-8, 1e-10]},
    "a wait into the past": {**UNEVEN, "latencySeconds": [1e-6, -1.0, 1e-4, 1e-6, 1e-4, 1e-6]},
}


@pytest.mark.parametrize("links", HOSTILE.values(), ids=HOSTILE)
def test_parts_stay_where_the_links_of_the_plan_are_unusable_and_the_log_says_why(
    tmp_path: Path, links: dict[str, object], capfd: pytest.CaptureFixture[str]
) -> None:
    archive.write(tmp_path / "g.npz", labelled_graph(3, VERTICES))
    with_links = loaded(tmp_path, plan_file(tmp_path, ("a", "b", "c"), links), 3)
    told = capfd.readouterr().err
    assert told.count("parts stay on the ranks of their numbers") == 1
    assert "plan.json: links." in told
    plain = loaded(tmp_path, plan_file(tmp_path, ("a", "a", "a")), 3)
    assert [part.owned.tolist() for part in with_links] == [part.owned.tolist() for part in plain]


def test_a_worker_places_parts_by_the_links_of_the_plan_and_says_what_the_busiest_card_gains(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    archive.write(tmp_path / "g.npz", labelled_graph(0, VERTICES))
    loaded(tmp_path, plan_file(tmp_path, ("a", "b", "c"), UNEVEN), 3, HYPERSCALE_PARTITIONING_METHOD="METIS")
    told = capfd.readouterr().err
    assert "an exchange of 20 bytes a copy keeps the busiest card" in told
