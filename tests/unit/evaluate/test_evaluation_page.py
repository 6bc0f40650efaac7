"""The report of an evaluation: one page without scripts, whatever the names in it hold."""

from __future__ import annotations

from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from hyperscale.model.evaluation import Evaluation, Interval, LikeRun, StageOutcome, StageState, TimePart
from hyperscale.pictures.evaluation_page import evaluation_page
from tests.builders.placement import plan

STAGES = (
    StageOutcome("proof", StageState.PASSED, "all conditions hold", (), 1.0, 0.5, 0.5),
    StageOutcome("twin", StageState.WARNED, "80 % end in time", ("node <b> is a lemon",), 0.8, 0.3, 0.24),
    StageOutcome("novelty", StageState.SKIPPED, "no history"),
)


def evaluation(**changes: object) -> Evaluation:
    fields: dict[str, object] = {
        "end_seconds": Interval(3600.0, 3000.0, 7200.0),
        "deadline_seconds": 5000.0,
        "ends_by_deadline": Interval(0.8, 0.79, 0.81),
        "end_curve": ((3000.0, 0.1), (3600.0, 0.5), (7200.0, 1.0)),
        "time_parts": (TimePart("training", 3000.0, 0.9), TimePart("restarts", 1000.0, 0.1)),
        "value": 0.9,
        "hyper_score": 106.0,
    }
    return Evaluation("default/cora", "0123456789abcdef", STAGES, **(fields | changes))  # type: ignore[arg-type]


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "onload", "onclick")]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self.open and self.open[-1] == tag:
            self.open.pop()


def tags_of(page: str) -> _Tags:
    found = _Tags()
    found.feed(page)
    return found


def test_the_page_is_well_formed_and_asks_for_nothing_from_elsewhere() -> None:
    found = tags_of(evaluation_page(evaluation(), plan("a", "b")))
    assert found.links == []
    assert "script" not in found.names
    assert "svg" in found.names


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", '"><img src=x onerror=y>', "\x1b[2J"])
def test_a_hostile_name_is_text(name: str) -> None:
    hostile = plan(name)
    page = evaluation_page(evaluation(top_risk=name), hostile)
    assert tags_of(page).names.isdisjoint({"script", "img"})
    assert "\x1b" not in page


def test_the_pictures_are_valid_svg_also_without_a_deadline() -> None:
    page = evaluation_page(evaluation(deadline_seconds=None, ends_by_deadline=None), plan("a"))
    pictures = ["<svg" + part.partition("</svg>")[0] + "</svg>" for part in page.split("<svg")[1:]]
    assert len(pictures) == 3
    for picture in pictures:
        ElementTree.fromstring(picture)  # noqa: S314 - our own text
    assert "deadline" not in page


def test_a_job_whose_futures_all_end_at_once_has_a_picture_too() -> None:
    page = evaluation_page(evaluation(end_curve=((10.0, 0.5), (10.0, 1.0)), deadline_seconds=10.0), plan("a"))
    assert "nan" not in page.lower().replace("dominant", "")


def test_the_same_evaluation_gives_the_same_bytes() -> None:
    assert evaluation_page(evaluation(), plan("a")) == evaluation_page(evaluation(), plan("a"))


def test_the_page_shows_what_the_time_goes_to() -> None:
    page = evaluation_page(evaluation(), plan("a"))
    assert "training: 90.0 % (mean 50 min)" in page
    assert "restarts: 10.0 % (mean 16.7 min)" in page
    assert "What the time of a future goes to" not in evaluation_page(evaluation(time_parts=()), plan("a"))


def test_the_runs_that_it_is_like_are_a_table_and_absent_without_any() -> None:
    near = (LikeRun("ml/cora <i>", ("same model", "3 of 4 nodes"), "ended well", 1.04), LikeRun("ml/other", (), "failed"))
    page = evaluation_page(evaluation(neighbours=near), plan("a"))
    assert "same model, 3 of 4 nodes" in page
    assert "1.04" in page
    assert "i" not in tags_of(page).names
    assert "Finished runs most like it" not in evaluation_page(evaluation(), plan("a"))
