"""Every published figure has a product of the planner's table and an address; the prediction is the ring written out by hand."""

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


def test_inside_of_a_node_the_ring_is_fourteen_hops_and_seven_quarters_of_the_message() -> None:
    # 14 x 5 us + 14,680,064 B at 240 GB/s = 131.167 us.
    assert hardware.predicted(point()) == pytest.approx(14_680_064 / 131.166933e-6 / 1e9)
    assert hardware.predicted(point()) == pytest.approx(111.919, abs=0.001)


def test_between_nodes_the_slowest_hop_has_the_rate_of_all_cards_and_the_latency_of_a_switch() -> None:
    # 30 x 20 us + 16,106,127,360 B at 200 GB/s = 81.1306 ms.
    two = point(nodes=2, cards=8, gbit=200.0, message_bytes=8.0 * 2**30)
    assert hardware.predicted(two) == pytest.approx(16_106_127_360 / 81.1306368e-3 / 1e9)
    assert hardware.predicted(two) == pytest.approx(198.521, abs=0.001)


def test_cards_faster_than_the_inside_leave_the_inside_as_the_slowest_hop() -> None:
    wide = point(nodes=2, cards=8, gbit=800.0, message_bytes=8.0 * 2**40)
    assert hardware.predicted(wide) == pytest.approx(240.0, rel=1e-3)
    assert hardware.predicted(wide, hardware.nominal) == pytest.approx(300.0, rel=1e-3)
    assert hardware.predicted(wide, hardware.constant) == pytest.approx(25.0, rel=1e-3)


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
        ((HEADER, f"a,{A100},1,8,0,0,many,1,no,https://a,"), "line 2: bytes is 'many'"),
        ((HEADER, f"a,{A100},1,8,0,0,8,inf,no,https://a,"), "line 2: busbw is 'inf'"),
        ((HEADER, f"a,{A100},1,8,0,0,8,0,no,https://a,"), "line 2: write nodes"),
        ((HEADER, f"a,{A100},1,1,0,0,8,1,no,https://a,"), "line 2: write nodes"),
        ((HEADER, f"a,{A100},2,8,0,0,8,1,no,https://a,"), "line 2: write nodes"),
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
    assert hardware.predicted(single) == pytest.approx(1e9 / (2 * 20e-6 + 1e9 / 10e9) / 1e9)
    assert math.isfinite(hardware.error(single))
