"""The guard at the level of the policy: what it accepts, and which figure refuses what."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperscale.learn.streams.policy_guard import MIN_STREAMS, StreamEvidence, judged

HELD_OUT = "held-out streams"
FAMILIES = ("geo", "wan")


def evidence(ratios: list[float], wait: float = 100.0, rule_wait: float = 100.0, source: str = HELD_OUT) -> list[StreamEvidence]:
    return [StreamEvidence(source, FAMILIES[number % 2], ratio, wait, rule_wait, run_seconds=10.0) for number, ratio in enumerate(ratios)]


def better(streams: int = 40) -> list[float]:
    return [float(ratio) for ratio in np.random.default_rng(3).uniform(0.7, 0.98, streams)]


def test_a_policy_that_is_better_everywhere_is_accepted_with_its_figures() -> None:
    verdict = judged(evidence(better()))
    assert verdict.accepted
    assert verdict.refusals == ()
    assert verdict.figures[f"{HELD_OUT}: ratio, upper limit"] < 1.0


def test_a_policy_that_equals_the_rule_is_refused() -> None:
    verdict = judged(evidence([1.0] * 40))
    assert not verdict.accepted
    assert "upper confidence limit" in verdict.refusals[0]


def test_a_mean_below_one_by_chance_alone_is_refused() -> None:
    ratios = [0.7, 1.24] * 20
    assert np.exp(np.mean(np.log(ratios))) < 1.0
    assert not judged(evidence(ratios)).accepted


def test_one_disaster_among_good_streams_is_refused_and_named() -> None:
    verdict = judged(evidence([*better(), 1.26]))
    assert verdict.refusals == (f"{HELD_OUT}: the worst stream takes 1.26 times the rule's time, at most 1.25 is allowed",)


def test_a_figure_just_beyond_its_limit_is_told_from_the_limit() -> None:
    (worst,) = judged(evidence([*better(), 1.2504])).refusals
    assert "takes 1.2504 times the rule's time, at most 1.25 is" in worst
    assert any("are 1.000004 times" in one for one in judged(evidence(better(), wait=100.0004)).refusals)
    assert "rule is 1.000, below 1 is needed" in judged(evidence([1.0] * 40)).refusals[0]


def test_a_policy_that_starves_large_jobs_is_refused_by_its_longest_waits() -> None:
    verdict = judged(evidence(better(), wait=500.0))
    assert not verdict.accepted
    assert all("longest waits" in sentence for sentence in verdict.refusals)


def test_waits_shorter_than_a_mean_run_count_alike() -> None:
    assert judged(evidence(better(), wait=9.0, rule_wait=0.0)).accepted


def test_starving_in_one_family_only_is_refused() -> None:
    streams = [one._replace(longest_wait_seconds=130.0 if one.family == "wan" else 60.0) for one in evidence(better())]
    verdict = judged(streams)
    assert verdict.refusals == (f"{HELD_OUT}: the longest waits of the family wan are 1.30 times the rule's, at most 1.1 is allowed",)


def test_the_history_refuses_a_policy_that_is_good_on_held_out_streams_alone() -> None:
    verdict = judged([*evidence(better()), *evidence([1.1] * 40, source="history")])
    assert not verdict.accepted
    assert all(sentence.startswith("history: ") for sentence in verdict.refusals)


def test_too_few_streams_say_nothing() -> None:
    assert not judged(evidence(better(MIN_STREAMS - 1))).accepted
    assert judged([]).refusals == ("no stream was judged",)


@pytest.mark.parametrize("ratio", [math.inf, math.nan])
def test_a_stream_that_never_ends_or_has_no_figure_refuses(ratio: float) -> None:
    assert not judged(evidence([*better(), ratio])).accepted


@settings(max_examples=50)
@given(st.lists(st.floats(0.2, 3.0), min_size=MIN_STREAMS, max_size=60))
def test_what_is_accepted_has_no_stream_beyond_the_limit_and_a_mean_below_one(ratios: list[float]) -> None:
    verdict = judged(evidence(ratios))
    assert verdict == judged(evidence(ratios))
    if verdict.accepted:
        assert max(ratios) <= 1.25 + 1e-9
        assert np.mean(np.log(ratios)) < 0.0
    else:
        assert verdict.refusals
