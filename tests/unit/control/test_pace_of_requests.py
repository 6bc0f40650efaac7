"""The pace of requests to the API server, and the Lease's times."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperscale.control.apply.client import Pace, ServerTime
from hyperscale.control.settings import SettingsError, from_environment


@given(st.lists(st.floats(0.0, 5.0), min_size=1, max_size=200), st.floats(1.0, 50.0), st.floats(0.0, 3.0))
def test_no_stretch_of_time_has_more_requests_than_the_pace_and_one_burst(gaps: list[float], per_second: float, burst: float) -> None:
    now = 0.0
    pace = Pace(per_second, burst, lambda: now)
    sent = []
    for gap in gaps:
        now += gap
        sent.append(now + pace.delay_seconds())
        now = sent[-1]
    for first in range(len(sent)):
        for last in range(first, len(sent)):
            assert last - first + 1 <= per_second * (sent[last] - sent[first] + burst) + 1 + 1e-6


def test_an_unused_pace_delays_nobody_and_no_pace_never_does() -> None:
    assert Pace(10.0, 1.0, lambda: 5.0).delay_seconds() == 0.0
    unlimited = Pace(0.0, 1.0, lambda: 5.0)
    assert {unlimited.delay_seconds() for _ in range(1000)} == {0.0}


@pytest.mark.parametrize("renew", ["10", "0", "-1", "nan"])
def test_a_renewal_that_cannot_come_before_the_deadline_is_refused(renew: str) -> None:
    with pytest.raises(SettingsError, match=r"HYPERSCALE_LEASE_RENEW_SECONDS: .* below 10 s"):
        from_environment({"HYPERSCALE_LEASE_RENEW_SECONDS": renew})


def test_the_api_servers_clock_is_told_by_the_date_of_its_answers() -> None:
    time = ServerTime(lambda: 1_800_000_000.0)
    assert time.ahead_seconds == 0.0
    for date, ahead in (
        ("Fri, 15 Jan 2027 09:00:00 GMT", 3600.5),
        (None, 3600.5),
        ("garbage", 3600.5),
        ("Fri, 15 Jan 2027 07:00:00 GMT", -3599.5),
    ):
        time.note(date)
        assert time.ahead_seconds == ahead
