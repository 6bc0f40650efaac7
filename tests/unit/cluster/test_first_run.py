"""What the first run builds: which programs, by how many builds, and what it says meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2e import first_run
from e2e.cluster import binaries, progress

SECONDS = st.floats(0.0, 1e5)


@given(SECONDS, SECONDS, st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_what_is_left_is_never_negative_and_ends_at_nothing(elapsed: float, expected: float, one: float, other: float) -> None:
    assert progress.left_seconds(one, elapsed, expected) >= 0
    assert progress.left_seconds(1.0, elapsed, expected) == 0
    if min(one, other) >= 0.05:
        assert progress.left_seconds(max(one, other), elapsed, expected) <= progress.left_seconds(min(one, other), elapsed, expected)


def test_a_build_says_every_twenty_seconds_how_much_is_left() -> None:
    now, said = [0.0], list[str]()
    build = progress.Progress("building", 100.0, clock=lambda: now[0], write=said.append)
    for second in range(0, 101, 5):
        now[0] = float(second)
        build.at(second / 200, f"{second} of 200")
    assert said[0] == "building: 20 of 200, about 3 min left"
    assert len(said) == 5


def test_the_demo_lists_what_it_will_build_with_the_time_of_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HYPERSCALE_CACHE", str(tmp_path))
    first_run.announce(first_run.parts(trains=True))
    assert "to build, once: 3 parts" in capsys.readouterr().err
    for tool in binaries.TOOLS:
        binaries.folder_of(tool).mkdir(parents=True)
    first_run.announce(first_run.parts(trains=False))
    assert capsys.readouterr().err == ""
