"""`hyperscale topology`: what the summary says and that pictures are drawn, alike for alike input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from hyperscale.graph import scene
from hyperscale.graph.cluster import build
from hyperscale.graph.draw import png
from hyperscale.graph.groups import links_between, narrowest, widest
from hyperscale.model.cluster import AbsentLink, ClusterSnapshot
from hyperscale.model.graph import ClusterGraph
from hyperscale.model.policy import PolicySpec
from hyperscale.observe.snapshot import write_snapshot
from tests.unit.cli.cli_samples import LEVELS, Files, files_fixture, node, run, snapshot

__all__ = ["files_fixture"]

PNG_MAGIC = b"\x89PNG\r\n\x1a\n"


def graph(**changed: Any) -> ClusterGraph:
    return build(replace(snapshot(), **changed), PolicySpec())


def large(count: int) -> ClusterSnapshot:
    nodes = tuple(
        node(index % 12, name=f"node-{index:04d}", domains=(f"region-{index // 500}", f"region-{index // 500}-rack-{index // 25:03d}"))
        for index in range(count)
    )
    return replace(snapshot(), nodes=nodes, links=())


def test_the_table_shows_levels_states_and_the_worst_link(files: Files) -> None:
    ran = run("topology", "--snapshot", files.snapshot)
    assert (ran.code, ran.err) == (0, "")
    assert "53 free of 72" in ran.out
    for state in ("Ready", "Cordoned", "Tainted"):
        assert state in ran.out
    slowest = ran.out.split("Slowest links", 1)[1].splitlines()[2].split()
    assert set(slowest[:2]) == {"gpu-node-04", "gpu-node-08"}


def test_json_counts_every_figure_by_quality(files: Files) -> None:
    document = json.loads(run("topology", "--snapshot", files.snapshot, "-o", "json").out)
    assert document["quality"]["linkLatency"] == {
        "measured": 132,
        "estimated": 0,
        "unknown": 0,
        "sources": {},
        "confidence": 1.0,
    }
    assert document["quality"]["gpuTemperature"] == {"measured": 0, "estimated": 0, "unknown": 72, "sources": {}, "confidence": None}
    assert [level["domains"] for level in document["levels"]] == [3, 6]
    assert document["freeGpus"] == 53
    assert len(document["nodes"]) == 12
    assert document["unlistedPairs"] == 0


def test_unlabelled_nodes_are_counted_and_are_no_domain(files: Files) -> None:
    nodes = (*snapshot().nodes[:11], node(11, domains=("", "")))
    write_snapshot(files.snapshot, replace(snapshot(), nodes=nodes))
    document = json.loads(run("topology", "--snapshot", files.snapshot, "-o", "json").out)
    assert [(level["domains"], level["unlabelledNodes"]) for level in document["levels"]] == [(3, 1), (6, 1)]


def test_a_picture_is_written_and_is_the_same_again(files: Files) -> None:
    path = Path(files.folder / "cluster.png")
    ran = run("topology", "--snapshot", files.snapshot, "--png", str(path))
    assert ran.code == 0
    assert "drew 12 nodes" in ran.err
    assert path.read_bytes().startswith(PNG_MAGIC)
    assert path.read_bytes() == png(graph())


CLUSTERS: dict[str, ClusterSnapshot] = {
    "one node": replace(snapshot(), nodes=snapshot().nodes[:1], links=()),
    "no levels": replace(snapshot(), levels=(), nodes=tuple(replace(each, domains=()) for each in snapshot().nodes)),
    "no links": replace(snapshot(), links=()),
    "no links and none meant": replace(snapshot(), links=(), absent_links=AbsentLink.UNREACHABLE),
    "two regions": replace(
        snapshot(),
        nodes=snapshot().nodes[:8],
        links=tuple(link for link in snapshot().links if max(link.source, link.destination) < "gpu-node-08"),
    ),
    "an unlabelled node": replace(snapshot(), nodes=(*snapshot().nodes[:11], node(11, domains=("", ""), gpu_product=None))),
    "no free GPU": replace(snapshot(), nodes=tuple(replace(each, schedulable=False) for each in snapshot().nodes)),
    "1,500 nodes": large(1500),
    "300 nodes that nothing groups": replace(large(300), levels=(), nodes=tuple(replace(each, domains=()) for each in large(300).nodes)),
}


@pytest.mark.parametrize("case", sorted(CLUSTERS))
def test_every_cluster_can_be_drawn_and_tabled(case: str, files: Files) -> None:
    write_snapshot(files.snapshot, CLUSTERS[case])
    path = files.folder / "cluster.png"
    ran = run("topology", "--snapshot", files.snapshot, "--png", str(path))
    assert ran.code == 0, ran
    assert path.read_bytes().startswith(PNG_MAGIC)


@pytest.mark.parametrize("case", sorted(CLUSTERS))
def test_a_scene_holds_every_node_once_and_islands_never_overlap(case: str) -> None:
    drawn = scene.arrange(build(CLUSTERS[case], PolicySpec()))
    assert sum(item.nodes for item in drawn.items) == len(CLUSTERS[case].nodes)
    assert sum(island.nodes for island in drawn.islands) == len(CLUSTERS[case].nodes)
    assert len(drawn.items) <= scene.MAX_ITEMS
    for at, first in enumerate(drawn.islands):
        for second in drawn.islands[at + 1 :]:
            apart = ((first.x - second.x) ** 2 + (first.y - second.y) ** 2) ** 0.5
            assert apart > first.radius + second.radius


def test_a_link_far_slower_than_its_like_is_drawn_by_itself() -> None:
    drawn = scene.arrange(graph())
    assert len(drawn.outliers) == 1
    assert drawn.outliers[0].latency_seconds > 0.3


def test_names_lose_what_all_of_them_share() -> None:
    assert [item.label for item in scene.arrange(graph()).items][:2] == ["00", "01"]


def test_figures_between_domains_are_medians_of_samples_or_marked_as_estimates() -> None:
    measured = graph()
    between = links_between(measured, widest(measured, 16))
    assert all(link.latency_samples for link in between)
    assert [round(link.latency_seconds, 3) for link in between if link.first == link.second] == [0.0, 0.0, 0.0]
    blind = graph(links=())
    assert all(link.latency_samples == 0 and link.latency_seconds > 0 for link in links_between(blind, widest(blind, 16)))


def test_no_figure_is_invented_where_nodes_cannot_talk() -> None:
    apart = graph(links=(), absent_links=AbsentLink.UNREACHABLE)
    assert links_between(apart, widest(apart, 16)) == ()


def test_domains_are_chosen_wide_for_islands_and_narrow_for_items() -> None:
    assert [group.name for group in widest(graph(), 16)] == ["ap-south", "eu-west", "us-east"]
    assert len(narrowest(graph(), 16)) == 6
    assert [group.name for group in widest(graph(levels=()), 16)] == ["cluster"]
    assert len(narrowest(graph(levels=()), 16)) == 4, "by product"
    assert LEVELS[0] == "topology.kubernetes.io/region"


def test_overrides_of_a_policy_file_are_laid_over_the_snapshot_and_those_that_fit_nothing_are_said(files: Files, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "apiVersion: hyperscale.dev/v1alpha1\nkind: PlannerPolicy\nmetadata: {name: what-if}\nspec:\n  overrides:\n"
        "    nodes: [{name: gpu-node-00, gpuProduct: NVIDIA-L4}, {name: gone, gpuProduct: NVIDIA-L4}]\n"
        "    links: [{source: gpu-node-00, destination: gpu-node-01, latencySeconds: 3.5}]\n"
    )
    ran = run("topology", "--snapshot", files.snapshot, "--policy", str(policy), "-o", "json")
    document = json.loads(ran.out)
    assert document["nodes"][0]["product"] == "NVIDIA-L4"
    assert document["slowestLinks"][0]["latencySeconds"] == 3.5
    assert document["slowestLinks"][0]["sources"] == {"latencySeconds": "override"}
    assert ran.err == "--policy: spec.overrides: overrides speak of nodes that are not there (gone)\n"
