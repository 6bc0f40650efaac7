"""Which streams the benchmark of job streams takes."""

from __future__ import annotations

import pytest

from benchmarks import streamruns, streams
from benchmarks.suites import Options


def _seeds(*words: str) -> set[int]:
    arguments = streams.parsed(words)
    options = Options(arguments.quick, streams.seeds_of(arguments), None)
    return {seed for _, seed in streamruns.streams(streamruns.CONDITIONS[streamruns.PLAIN], options)}


def test_without_options_the_goals_are_judged_on_the_first_five_seeds() -> None:
    assert _seeds() == {20_000, 20_001, 20_002, 20_003, 20_004}


def test_a_first_seed_takes_other_streams() -> None:
    assert _seeds("--first-seed", "40000", "--seeds", "3") == {40_000, 40_001, 40_002}
    assert _seeds("--first-seed", "7", "--quick") == {7}


@pytest.mark.parametrize("words", [("--first-seed", "-1"), ("--seeds", "0")])
def test_seeds_that_cannot_be_are_refused_with_exit_code_2(words: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        streams.parsed(words)
    assert ended.value.code == 2
    assert "at least" in capsys.readouterr().err
