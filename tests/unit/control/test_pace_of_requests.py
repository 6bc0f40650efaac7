"""The pace of requests to the API server, and the Lease's times."""

from __future__ import annotations

from unittest.mock import Mock, create_autospec

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperscale.control.apply.client import ApiClient
from hyperscale.control.apply.lease import Lease
from hyperscale.control.apply.pace import Pace, ServerTime, turn
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
    time = ServerTime(lambda: 7.0)
    assert time.ahead_seconds(1_800_000_000.0) == 0.0
    for date, ahead in (
        ("Fri, 15 Jan 2027 09:00:00 GMT", 3600.5),
        (None, 3600.5),
        ("garbage", 3600.5),
        ("Fri, 15 Jan 2027 07:00:00 GMT", -3599.5),
    ):
        time.note(date)
        assert time.ahead_seconds(1_800_000_000.0) == ahead


@pytest.mark.parametrize("step_seconds", [900.0, -3600.0])
def test_a_step_of_this_machines_clock_moves_no_time_of_the_api_server(step_seconds: float) -> None:
    monotonic, now = 7.0, 1_800_000_000.0
    time = ServerTime(lambda: monotonic)
    time.note("Fri, 15 Jan 2027 08:00:00 GMT")
    monotonic, now = monotonic + 20.0, now + 20.0 + step_seconds
    assert now + time.ahead_seconds(now) == 1_800_000_020.5


def test_what_is_dated_by_the_api_server_needs_an_answer_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 1_800_000_000.0 + 40 * 86_400.0)
    time = ServerTime(lambda: 7.0)
    assert time.now() == 1_800_000_000.0 + 40 * 86_400.0
    time.note("Fri, 15 Jan 2027 08:00:00 GMT")
    assert time.now() == 1_800_000_000.5


class ATerm:
    """A Lease whose renewal is overdue at the first looks."""

    def __init__(self, late_looks: int) -> None:
        self.late_looks = late_looks

    def seconds_left(self) -> float:
        return 5.0

    def overdue(self) -> bool:
        self.late_looks -= 1
        return self.late_looks >= 0


@pytest.mark.parametrize(("late_looks", "turns"), [(0, 1), (1, 2), (4, 2)])
async def test_a_request_waits_until_the_lease_is_renewed_and_takes_a_new_turn_then(late_looks: int, turns: int) -> None:
    clock = Mock(return_value=0.0)
    term = ATerm(late_looks)
    await turn(Pace(0.0, 1.0, clock), term)
    assert clock.call_count == turns
    assert term.late_looks < 0


@pytest.mark.parametrize(
    ("silent_seconds", "overdue"), [(0.0, False), (3.9, False), (4.1, True), (9.9, True), (10.0, False), (60.0, False)]
)
async def test_a_renewal_is_overdue_a_second_after_it_was_due_and_until_the_lease_is_lost(silent_seconds: float, overdue: bool) -> None:
    now = 0.0
    client = create_autospec(ApiClient, instance=True)
    client.find.return_value = None
    client.create.return_value = {"metadata": {"resourceVersion": "1"}, "spec": {"holderIdentity": "me"}}
    lease = Lease(client, "a", "me", 15.0, 3.0, lambda: now)
    assert not lease.overdue()
    await lease.acquire()
    now = silent_seconds
    assert lease.overdue() is overdue
