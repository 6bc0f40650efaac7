"""A reading of history that fails is tried again without a new run, each time after a longer pause, and keeps no run waiting."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

import pytest

from hyperscale.control.history import recorder as module
from hyperscale.control.history.run_store import HistoryError, RunStore
from hyperscale.control.history.teaching import Taught, Teacher
from tests.unit.control.history.recording import Desk
from tests.unit.control.history.test_finished_runs import run


class Failing:
    """Lessons that cannot be read a number of times; `asked` counts all tries."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
        self.asked = 0
        teach = Teacher.teach

        def fail(teacher: Teacher, history: RunStore, cluster: str, now: float) -> Taught:
            self.asked += 1
            if self.asked <= times:
                raise HistoryError("the plans cannot be read")
            return teach(teacher, history, cluster, now)

        monkeypatch.setattr(Teacher, "teach", fail)


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Of a file with runs that teach."""
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.02)
    monkeypatch.setattr(module, "SETTLE_SECONDS", 0.0)
    with closing(RunStore(f"sqlite:///{tmp_path}/h")) as store:
        store.record([run(number) for number in range(8)])
    return f"sqlite:///{tmp_path}/h"


def test_what_history_teaches_is_read_again_though_no_run_ends(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    failing, desk = Failing(monkeypatch, 3), Desk(url)
    desk.work_until(lambda: bool(desk.reader.calibrations))
    assert (failing.asked, desk.failures) == (4, 3)


def test_runs_are_written_while_lessons_cannot_be_read(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Failing(monkeypatch, 1_000_000)
    desk = Desk(url, run(20))
    desk.work()
    desk.wait(run(21))
    desk.work()
    with closing(RunStore(url)) as store:
        assert len(store.runs(20)) == 10


async def test_the_pause_doubles_up_to_a_quarter_of_an_hour_and_ends_with_a_reading(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_SECONDS", 30.0)
    Failing(monkeypatch, 7)
    recorder, now = Desk(url).recorder, asyncio.get_running_loop().time
    recorder._unlearnt = True
    pauses = []
    with closing(RunStore(url)) as store:
        for _ in range(7):
            with pytest.raises(HistoryError):
                await recorder._learn(store)
            pauses.append(round(recorder._learn_at - now()))
            await recorder._learn(store)
            recorder._learn_at = 0.0
        await recorder._learn(store)
    assert pauses == [30, 60, 120, 240, 480, 900, 900]
    assert (recorder._unlearnt, recorder._learn_pause) == (False, 0.0)


async def test_between_two_readings_the_operator_rests_for_several_times_what_one_took(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Failing(monkeypatch, 0)
    recorder, now = Desk(url).recorder, asyncio.get_running_loop().time
    recorder._unlearnt = True
    with closing(RunStore(url)) as store:
        began = now()
        await recorder._learn(store)
        took = now() - began
        assert recorder._learn_at - now() == pytest.approx(module.LEARN_REST * took, rel=0.5)
