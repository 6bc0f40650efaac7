"""`hyperscale topology`: what the summary says and that pictures are drawn, alike for alike input."""

from __future__ import annotations

import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

from hyperscale.cli.topology.domains import domain_pairs, widest
from hyperscale.cli.topology.topology_summary import summarize
from hyperscale.cli.topology.topology_view import topology_table
from hyperscale.model.api.policy import Overrides, PolicySpec, UplinkOverride
from hyperscale.model.api.topology import topology_status
from hyperscale.model.cluster import AbsentLink, ClusterSnapshot, Link, Quality, Sample
from hyperscale.model.graph import ClusterGraph
from hyperscale.observe.files.snapshot_files import write_snapshot
from hyperscale.pictures import scene
from hyperscale.pictures.svg import WIDTH, svg
from hyperscale.planner.graph.cluster_graph import build
from tests.unit.cli.cli_samples import LEVELS, Files, files_fixture, measured, node, run, snapshot

__all__ = ["files_fixture"]

GUESS = Sample(1e-3, 1.0, Quality.ESTIMATED)


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
    path = Path(files.folder / "cluster.svg")
    ran = run("topology", "--snapshot", files.snapshot, "--svg", str(path))
    assert ran.code == 0
    assert ran.err.startswith("wrote ")
    assert path.read_text() == svg(topology_status(snapshot()))


NAMES = {
    "markup": ("<script>alert(1)</script>", "a&b\"c'd", "]]>", "</title><svg onload=x>"),
    "formulas": ("a$b$c", "$\\frac{", "$x_{$", "_hidden", "^", "\\$", "\\alpha"),
    "scripts": ("Жлд", "節点", "😀", "e\u0301", "\u202eevil", "\u200b", "عقدة"),
    "control characters": ("a\nb", "a\tb", "\x1b[31mred", "\0nul", "\x7f", "\ufffe", "\uffff"),
    "253 letters": tuple(f"{'n' * 250}{index:03d}" for index in range(12)),
}


def named(names: tuple[str, ...], **changed: Any) -> ClusterSnapshot:
    """The sample with other names of nodes; products likewise."""
    base = snapshot()
    new = {each.name: names[at % len(names)] + (f" {at}" if at >= len(names) else "") for at, each in enumerate(base.nodes)}
    nodes = tuple(replace(each, name=new[each.name], gpu_product=names[at % len(names)]) for at, each in enumerate(base.nodes))
    links = tuple(replace(link, source=new[link.source], destination=new[link.destination]) for link in base.links)
    return replace(base, nodes=nodes, links=links, **changed)


def sampled(value: float) -> ClusterSnapshot:
    """All latencies and bandwidths this figure."""
    links = tuple(replace(link, latency_seconds=measured(value), bandwidth_bytes_per_second=measured(value)) for link in snapshot().links)
    return replace(snapshot(), links=links)


CLUSTERS: dict[str, ClusterSnapshot] = {
    **{f"names: {kind}": named(names) for kind, names in NAMES.items()},
    "links of 0": sampled(0.0),
    "links all alike": sampled(1.0),
    "links next to nothing": sampled(1e-300),
    "the longest links": sampled(3600.0),
    "no GPUs": replace(snapshot(), nodes=tuple(replace(each, allocatable_gpus=0, requested_gpus=0, gpus=()) for each in snapshot().nodes)),
    "60 products": replace(
        snapshot(),
        nodes=tuple(node(at % 12, name=f"x-{at}", gpu_product=f"NVIDIA-Model-{at}-With-A-Long-Name") for at in range(60)),
        links=(),
    ),
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
    picture, page, graphml = (files.folder / f"cluster.{ending}" for ending in ("svg", "html", "graphml"))
    ran = run("topology", "--snapshot", files.snapshot, "--svg", str(picture), "--html", str(page), "--graphml", str(graphml))
    assert ran.code == 0, ran
    assert ran.err.count("\n") == 3, "warnings"
    assert all(line.isprintable() for line in ran.out.splitlines())
    drawn = ElementTree.parse(picture)  # noqa: S314 - our own text
    assert len(drawn.findall(".//{*}circle[@class='node']")) == len(CLUSTERS[case].nodes)
    assert len(ElementTree.parse(graphml).findall(".//{*}node")) == len(CLUSTERS[case].nodes)  # noqa: S314 - our own text
    tags = TagNames()
    tags.feed(page.read_text())
    assert not tags.found & {"script", "svg onload", "b"}
    assert {"html", "svg"} <= tags.found


class TagNames(HTMLParser):
    """Names of all elements of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Note it, and an attribute that would be a program."""
        self.found |= {tag, *(f"{tag} {name}" for name, _ in attributes if name.startswith("on"))}


def scene_of(snapshot: ClusterSnapshot) -> scene.Scene:
    return scene.arrange(topology_status(snapshot))


def test_of_many_products_the_last_are_told_together_and_the_legend_stays_inside() -> None:
    root = ElementTree.fromstring(svg(topology_status(CLUSTERS["60 products"])))  # noqa: S314 - our own text
    assert "53 other products" in [text.text for text in root.findall(".//{*}text")]
    height = float(root.attrib["viewBox"].split()[3])
    places = [re.findall(r"[\d.]+", group.attrib["transform"]) for group in root.findall(".//{*}g")]
    assert all(float(x) < WIDTH - 100 and float(y) < height for x, y in places)


def test_a_picture_holds_every_name_as_text() -> None:
    drawn = svg(topology_status(CLUSTERS["names: markup"]))
    assert "<script" not in drawn
    assert "&lt;script&gt;" in drawn


def test_a_link_that_is_estimated_is_marked() -> None:
    guessed = replace(snapshot(), links=tuple(replace(each, latency_seconds=GUESS) for each in snapshot().links))
    assert {edge.measured for edge in scene_of(guessed).routes} == {False}
    assert {edge.measured for edge in scene_of(snapshot()).routes} == {True}
    assert ">estimated<" in svg(topology_status(guessed))


def test_thousands_of_nodes_are_all_there_and_every_region_has_its_share_of_lines() -> None:
    base = large(2000)
    pairs = {tuple(sorted((at, at // 500 * 500 + at * 7 * step % 500))) for at in range(2000) for step in range(1, 5)}
    links = tuple(
        Link(f"node-{one:04d}", f"node-{other:04d}", measured(1e-4 * (1 + one % 5)), measured(1e9))
        for one, other in sorted(pairs)
        if one != other
    )
    drawn = scene_of(replace(base, links=links))
    assert (len(drawn.dots), len(drawn.islands)) == (2000, 4)
    inside = [sum(math.dist(edge.ends[0], (island.x, island.y)) < island.radius for edge in drawn.inside) for island in drawn.islands]
    assert min(inside) > 0.5 * max(inside) > 0


@pytest.mark.parametrize("case", sorted(CLUSTERS))
def test_a_scene_holds_every_node_once_and_islands_never_overlap(case: str) -> None:
    drawn = scene_of(CLUSTERS[case])
    assert len(drawn.dots) == len(CLUSTERS[case].nodes) == len({(dot.x, dot.y) for dot in drawn.dots})
    assert sum(len(island.nodes) for island in drawn.islands) == len(CLUSTERS[case].nodes)
    assert len(drawn.inside) <= scene.MAX_INSIDE_EDGES
    for at, first in enumerate(drawn.islands):
        for second in drawn.islands[at + 1 :]:
            assert math.dist((first.x, first.y), (second.x, second.y)) > first.radius + second.radius


def test_a_link_far_slower_than_its_like_is_drawn_by_itself_and_so_is_a_dead_one() -> None:
    (slow,) = scene_of(snapshot()).outliers
    assert max(link.latency_seconds or 0.0 for link in slow.links) > 0.3
    first, *others = snapshot().links
    dead = scene_of(replace(snapshot(), links=(replace(first, bandwidth_bytes_per_second=measured(0.0)), *others)))
    assert dead.outliers[0].between == (min(first.source, first.destination), max(first.source, first.destination))


def test_names_lose_what_all_of_them_share() -> None:
    assert sorted(dot.label for dot in scene_of(snapshot()).dots)[:2] == ["00", "01"]


def test_figures_between_domains_are_medians_of_samples_or_marked_as_estimates() -> None:
    measured = graph()
    between = domain_pairs(measured, widest(measured, 16))
    assert all(link.latency_samples for link in between)
    assert [round(link.latency_seconds, 3) for link in between if link.first == link.second] == [0.0, 0.0, 0.0]
    blind = graph(links=())
    assert all(link.latency_samples == 0 and link.latency_seconds > 0 for link in domain_pairs(blind, widest(blind, 16)))


def test_no_figure_is_invented_where_nodes_cannot_talk() -> None:
    apart = graph(links=(), absent_links=AbsentLink.UNREACHABLE)
    assert domain_pairs(apart, widest(apart, 16)) == ()


def test_domains_are_chosen_wide() -> None:
    assert list(widest(graph(), 16)) == ["ap-south", "eu-west", "us-east"]
    assert list(widest(graph(levels=()), 16)) == ["cluster"]
    assert LEVELS[0] == "topology.kubernetes.io/region"


def test_overrides_of_a_policy_file_are_laid_over_the_snapshot_and_those_that_fit_nothing_are_said(files: Files, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "apiVersion: hyperscale.dev/v1alpha1\nkind: PlannerPolicy\nmetadata: {name: what-if}\nspec:\n  overrides:\n"
        "    nodes: [{name: gpu-node-00, gpuProduct: NVIDIA-L4}, {name: gone, gpuProduct: NVIDIA-L4}]\n"
        "    links: [{source: gpu-node-00, destination: gpu-node-01, latencyNanoseconds: 3500000000}]\n"
    )
    ran = run("topology", "--snapshot", files.snapshot, "--policy", str(policy), "-o", "json")
    document = json.loads(ran.out)
    assert document["nodes"][0]["product"] == "NVIDIA-L4"
    assert document["slowestLinks"][0]["latencySeconds"] == 3.5
    assert document["slowestLinks"][0]["sources"] == {"latencySeconds": "override"}
    assert ran.err == "--policy: spec.overrides: overrides speak of nodes that are not there (gone)\n"


def test_cards_of_every_node_and_limited_uplinks_are_shown() -> None:
    speed = Sample(5e10, 3.0, Quality.MEASURED, source="infiniband")
    nodes = tuple(replace(each, network_bytes_per_second=speed, network_cards=2) for each in snapshot().nodes[:3])
    limited = PolicySpec(overrides=Overrides(uplinks=(UplinkOverride(LEVELS[0], oversubscription=2.0),)))
    built = build(replace(snapshot(), nodes=nodes, links=()), limited)
    summary = summarize(built)
    assert [(row.network_bytes_per_second, row.network_cards) for row in summary.nodes] == [(5e10, 2)] * 3
    assert [row.network_rails for row in summary.nodes] == built.machine.rails.tolist()
    assert summary.uplinks
    assert sum(row.bytes_per_second for row in summary.uplinks) == pytest.approx(3 * 1e11 / 2)
    text = "\n".join(topology_table(summary))
    assert "2 x 50 GB/s (infiniband)" in text
    assert "UPLINKS OF" in text


def test_without_figures_of_cards_and_uplinks_neither_is_shown() -> None:
    text = "\n".join(topology_table(summarize(graph())))
    assert "CARDS" not in text
    assert "UPLINKS" not in text
