"""The placement benchmark's command: suites by name, rows to tables and to a page, assignments to files."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from benchmarks import documents, placement, placementpages, rescore, summary
from benchmarks.common import Row, goal
from benchmarks.dumps import dump
from benchmarks.families import instance
from benchmarks.peers.placement.schedulers import SCHEDULERS
from benchmarks.suites import Options

ROWS = [
    Row("exact", "small", "hyperscale", "plan", 1.0, "ms", 0),
    Row("exact", "small", "other", "plan", 9.0, "ms", 0),
    Row("exact", "small", "hyperscale", "plan", 2.0, "ms", 1),
    Row("exact", "small", "hyperscale", "plan", 6.0, "ms", 2),
    goal("exact", "small: slowest", "hyperscale", 6.0, 5.0, "ms"),
    Row("placement", "run", "python benchmarks/placement.py --quick", "command", 1.0, "suites"),
]


def test_seeds_become_one_line_with_an_interval() -> None:
    first = summary.lines(ROWS)[0]
    assert (first.values, first.mean) == ((1.0, 2.0, 6.0), 3.0)
    interval = first.interval()
    assert interval is not None
    assert 1.0 <= interval[0] < 3.0 < interval[1] <= 6.0
    assert interval == summary.lines(ROWS)[0].interval()


def test_an_interval_needs_three_figures() -> None:
    assert summary.lines(ROWS)[1].interval() is None


def test_the_page_shows_command_figures_and_misses() -> None:
    page = documents.page("Placement benchmark", {"exact": "Proofs.", "middle": "Nothing here."}, ROWS)
    assert "    python benchmarks/placement.py --quick" in page
    assert "| small | hyperscale | plan | 3 |" in page
    assert "Missed, 1 of 1" in page
    assert "## middle" not in page


def test_a_suite_that_is_not_there_says_so() -> None:
    rows = placement.run_suite("nowhere", Options())
    assert [row.metric for row in rows] == ["missing"]


def test_an_unknown_suite_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        placement.parsed(["--suite", "nowhere"])
    assert "nowhere" in capsys.readouterr().err


def test_assignments_are_dumped_by_case_and_method(tmp_path: Path) -> None:
    Options(dump=tmp_path / "out").dump_assignment("geo n=3 k=2 seed 0", "2-swap", {"job": ["a", "b"]})
    (file,) = (tmp_path / "out").iterdir()
    assert json.loads(file.read_text()) == {"case": "geo n=3 k=2 seed 0", "method": "2-swap", "assignment": {"job": ["a", "b"]}}


def test_nothing_is_dumped_without_a_folder() -> None:
    Options().dump_assignment("case", "method", {"job": ["a"]})


def test_dumped_assignments_score_the_same_again(tmp_path: Path) -> None:
    case = instance("geo", 12, 3, 4)
    seconds, order = case.score(SCHEDULERS["random"](case, 0))
    dump(Options(dump=tmp_path), case, "random", order)
    Options(dump=tmp_path).dump_assignment("Hulk, four tasks", "other", {"a": ["machine-1"], "b": ["machine-2"]})
    ((name, method, objective, reason),) = rescore.scores(tmp_path)
    assert (name, method, reason) == ("geo n=12 k=3 seed 4", "random", "")
    assert objective == pytest.approx(seconds, rel=1e-12)


def test_rows_of_an_earlier_run_make_the_same_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [*ROWS[:4], Row("exact", "small", "hyperscale", "largest gap that is left", float("inf"), "%"), ROWS[-1]]
    kept, pages = tmp_path / "rows.json", tmp_path / "docs" / "placement"
    kept.write_text(json.dumps([msgspec.to_builtins(row) for row in rows]))
    monkeypatch.setattr("sys.argv", ["placement.py", "--from", str(kept), "--write-docs"])
    monkeypatch.setattr(placement, "DOCUMENTS", pages)
    assert placement.main() == 0
    own = (pages / "exact.md").read_text()
    assert own == documents.page("Placement: exact", {"exact": placement.SUITES["exact"]}, rows)
    assert "| largest gap that is left |" in own
    assert "    python benchmarks/placement.py --quick" in own
    assert [page.name for page in pages.iterdir()] == ["exact.md"]


def test_a_suite_measured_again_leaves_the_pages_of_the_others(tmp_path: Path) -> None:
    pages, suites = tmp_path / "placement", {"exact": "Proofs.", "middle": "Gaps.", "large": "Never measured."}
    placementpages.write(pages, suites, [*ROWS, Row("middle", "n=64", "hyperscale", "plan", 40.0, "ms")], ["## Clusters"])
    before = (pages / "middle.md").read_text()
    placementpages.write(pages, suites, [goal("exact", "small: slowest", "hyperscale", 4.0, 5.0, "ms")], ["## Clusters"])
    assert (pages / "middle.md").read_text() == before
    assert "All 1 goals hold." in (pages / "exact.md").read_text()
    assert not (pages / "large.md").exists()


def test_the_overview_counts_the_goals_of_every_page(tmp_path: Path) -> None:
    pages = tmp_path / "placement"
    several = [goal("middle", f"case {number}", "hyperscale", float(number), 5.0, "ms") for number in range(12)]
    placementpages.write(pages, {"exact": "Proofs.", "middle": "Gaps.", "large": "None."}, [*ROWS[:4], *several], ["## Clusters"])
    overview = pages.with_suffix(".md").read_text()
    assert "| [exact](placement/exact.md) | Proofs. | 0 |" in overview
    assert "| [middle](placement/middle.md) | Gaps. | 12 | 6 |" in overview
    assert "large" not in overview
    assert overview.endswith("## Clusters\n")
