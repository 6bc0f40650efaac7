"""Every published figure has a product of the planner's table and an address; predictions are written out by hand."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from benchmarks import hardware
from benchmarks.hardware import Point
from hyperscale.model.products import longest
from hyperscale.planner.graph.inside import BOARDS

POINTS = hardware.read(hardware.FIGURES)
HEADER = ",".join(hardware.COLUMNS)
A100 = "NVIDIA-A100-SXM4-80GB"


def point(**changed: object) -> Point:
    fields: dict[str, object] = {
        "kind": "A100 x8",
        "product": A100,
        "nodes": 1,
        "gpus": 8,
        "cards": 0,
        "gbit": 0.0,
        "instance": "",
        "message_bytes": 8.0 * 2**20,
        "busbw": 100.0,
        "sharp": False,
        "source": "https://example.com",
    }
    return Point(**(fields | changed))  # type: ignore[arg-type]


def test_the_table_has_a_dozen_points_of_five_kinds_of_machine_and_more() -> None:
    assert len(POINTS) >= 12
    assert len({each.kind for each in POINTS}) >= 5


@pytest.mark.parametrize("each", POINTS, ids=[each.label for each in POINTS])
def test_every_point_has_a_product_of_the_planner_an_address_and_positive_figures(each: Point) -> None:
    assert longest(each.product, BOARDS) is not None
    assert each.source.startswith("https://")
    assert min(each.nodes, each.gpus, each.message_bytes, each.busbw) > 0
    assert (each.cards > 0 and each.gbit > 0) == (each.nodes > 1)


def test_no_run_has_the_same_message_twice() -> None:
    runs = [(each.kind, each.nodes, each.message_bytes, each.source, each.sharp) for each in POINTS]
    assert len(runs) == len(set(runs))


def test_the_flat_ring_inside_of_a_node_is_fourteen_hops_and_seven_quarters_of_the_message() -> None:
    # 14 x 5 us + 14,680,064 B at 240 GB/s = 131.167 us.
    assert hardware.predicted(point(), "flat ring") == pytest.approx(14_680_064 / 131.166933e-6 / 1e9)


def test_the_peers_between_nodes_have_one_latency_and_one_bandwidth() -> None:
    # 30 x 20 us + 16,106,127,360 B at 200 GB/s = 81.1306 ms.
    two = point(nodes=2, cards=8, gbit=200.0, message_bytes=8.0 * 2**30)
    assert hardware.predicted(two, "flat ring") == pytest.approx(16_106_127_360 / 81.1306368e-3 / 1e9)
    wide = point(nodes=2, cards=8, gbit=800.0, message_bytes=8.0 * 2**40)
    assert hardware.predicted(wide, "nominal rates") == pytest.approx(300.0, rel=1e-3)
    assert hardware.predicted(wide, "25 GB/s") == pytest.approx(25.0, rel=1e-3)


def test_inside_of_a_node_a_large_message_has_the_rate_of_a_ring() -> None:
    # 8.4 us + 14 x 3.4 us + 15,032,385,536 B at 240 GB/s.
    large = point(message_bytes=8.0 * 2**30)
    assert hardware.predicted(large) == pytest.approx(15_032_385_536 / (56e-6 + 15_032_385_536 / 240e9) / 1e9)


def test_the_switches_add_up_eight_ninths_of_the_bytes_of_a_ring() -> None:
    # 25 us + 9/8 of the message at 0.85 of 360 GB/s.
    large = point(product="NVIDIA-H100-80GB-HBM3", sharp=True, message_bytes=8.0 * 2**30)
    assert hardware.predicted(large) == pytest.approx(1.75 * 2**33 / (25e-6 + 1.125 * 2**33 / (0.85 * 360e9)) / 1e9)
    assert hardware.predicted(point(product="NVIDIA-H100-80GB-HBM3", message_bytes=8.0 * 2**30)) < 360.0


def test_on_two_nodes_the_bus_bandwidth_may_pass_the_rate_of_the_cards() -> None:
    # A tree carries the message once over 50 GB/s of cards and twice over 240 GB/s of NVLinks.
    two = point(nodes=2, cards=4, gbit=100.0, message_bytes=8.0 * 2**40)
    assert hardware.predicted(two) == pytest.approx(1.875 * 50.0 * 0.92, rel=1e-3)
    assert hardware.predicted(point(nodes=4, cards=4, gbit=100.0, message_bytes=8.0 * 2**40)) == pytest.approx(50.0, rel=1e-3)


def test_a_machine_of_a_cloud_has_the_latency_that_its_plugin_states() -> None:
    plain = point(nodes=2, cards=4, gbit=100.0)
    efa = point(nodes=2, cards=4, gbit=100.0, instance="p4d.24xlarge")
    assert (plain.latency_seconds, efa.latency_seconds) == (20e-6, 75e-6)
    assert hardware.predicted(efa) < hardware.predicted(plain)


def test_the_error_is_percent_of_the_published_figure() -> None:
    exact = hardware.predicted(point())
    assert hardware.error(point(busbw=exact)) == pytest.approx(0.0, abs=1e-9)
    assert hardware.error(point(busbw=2.0 * exact)) == pytest.approx(50.0)
    assert hardware.error(point(busbw=exact / 2.0)) == pytest.approx(100.0)


def test_the_kinds_of_the_table_are_taught_and_judged_by_turns() -> None:
    kinds = tuple(dict.fromkeys(each.kind for each in POINTS))
    assert kinds[: 2 * len(hardware.TAUGHT_KINDS) : 2] == hardware.TAUGHT_KINDS
    assert len({each.kind for each in POINTS if each.held_out}) >= 5
    assert sum(each.held_out for each in POINTS) >= 12


def test_the_goal_counts_only_kinds_that_no_constant_was_chosen_by() -> None:
    exact = hardware.predicted(point(product="NVIDIA-H200"))
    rows = hardware.summary_rows([point(busbw=1.0), point(kind="H200 x8", product="NVIDIA-H200", busbw=exact)])
    goal = rows[-1]
    assert goal.value == pytest.approx(0.0, abs=1e-9)
    assert not any("held-out" in row.case for row in hardware.summary_rows([point(), point(kind="V100-SXM2 x8")]))


@pytest.mark.parametrize(
    ("lines", "place"),
    [
        ((), "no rows"),
        ((HEADER,), "no rows"),
        (("kind,product", "a,b"), "no rows"),
        ((HEADER, f"a,{A100},1,8,0,0,,many,1,no,https://a,"), "line 2: bytes is 'many'"),
        ((HEADER, f"a,{A100},1,8,0,0,,8,inf,no,https://a,"), "line 2: busbw is 'inf'"),
        ((HEADER, f"a,{A100},1,8,0,0,,8,0,no,https://a,"), "line 2: write nodes"),
        ((HEADER, f"a,{A100},1,1,0,0,,8,1,no,https://a,"), "line 2: write nodes"),
        ((HEADER, f"a,{A100},2,8,0,0,,8,1,no,https://a,"), "line 2: write nodes"),
    ],
)
def test_a_table_with_a_bad_figure_names_the_line(lines: tuple[str, ...], place: str, tmp_path: Path) -> None:
    file = tmp_path / "figures.csv"
    file.write_text("\n".join(lines) + "\n")
    with pytest.raises(SystemExit, match=place):
        hardware.read(file)


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"none\.csv"):
        hardware.read(tmp_path / "none.csv")


def test_one_gpu_a_node_has_hops_between_nodes_only() -> None:
    single = point(nodes=2, gpus=1, cards=1, gbit=80.0, message_bytes=1e9)
    # LL128 14 us and Simple 8.4 us to start, 4 and 14 us more for each of two hops; a tree as the ring but 8.5 and 0.92.
    ring = 8.4e-6 + 2 * (20e-6 + 14e-6) + 1e9 / 10e9
    assert hardware.predicted(single) == pytest.approx(1e9 / ring / 1e9)
    assert math.isfinite(hardware.error(single))
