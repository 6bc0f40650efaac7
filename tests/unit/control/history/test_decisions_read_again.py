"""What people decided is read though nothing can be written, and only what changed is worked out again."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from msgspec.structs import replace

from hyperscale.control.history import preference_book
from hyperscale.control.history.decision_recorder import DecisionRecorder
from hyperscale.control.history.decision_store import MAX_EACH, DecisionStore
from hyperscale.control.history.decisions_table import DecisionKind, PersonDecision, decision
from hyperscale.control.history.preference_book import NamespacePreferences
from hyperscale.control.specs.parsed_specs import JobReader
from hyperscale.control.telemetry.metrics import Telemetry
from hyperscale.evaluate.preferences.revealed_weights import RevealedWeights, WeightBounds
from hyperscale.model.api.policy import PolicySpec
from tests.unit.control.history.test_decisions_of_people import CHEAP, FAST, SAFE, chosen, state_with, url_of

FIXED = (0.2, 0.6, 0.2)


def stored(folder: Path) -> DecisionStore:
    """Return a database in which an administrator has set weights."""
    store = DecisionStore(url_of(folder))
    store.record([decision(1000.0, "team", DecisionKind.WEIGHTS_SET, offers="[0.2,0.6,0.2]")])
    return store


@pytest.mark.parametrize("waiting", [False, True])
async def test_a_history_that_takes_no_rows_is_still_read_and_the_fault_is_counted(tmp_path: Path, waiting: bool) -> None:
    stored(tmp_path).close()
    telemetry = Telemetry()
    recorder = DecisionRecorder(JobReader(), telemetry, f"sqlite:///file:{tmp_path}/history.sqlite?mode=ro&uri=true", lambda: 2000.0)
    if waiting:
        recorder.note(None, *state_with(approved_plan=FAST.plan_id))
    working = asyncio.create_task(recorder.run())
    async with asyncio.timeout(20.0):
        while not telemetry.history_failures._value.get():  # noqa: ASYNC110 - nothing else tells
            await asyncio.sleep(0.01)
    working.cancel()
    assert recorder.weights("team", PolicySpec()) == pytest.approx(FIXED)
    assert "readonly" in recorder._fault


class Counted:
    """Counts what is read and worked out."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.read, self.revealed, self.threads = list[str | None](), list[NamespacePreferences](), set[threading.Thread]()
        rows, weigh = DecisionStore.decisions, preference_book.revealed

        def decisions(store: DecisionStore, each: int = MAX_EACH, namespace: str | None = None) -> tuple[PersonDecision, ...]:
            self.read.append(namespace)
            return rows(store, each, namespace)

        def revealed(preferences: NamespacePreferences, bounds: WeightBounds) -> RevealedWeights:
            self.revealed.append(preferences)
            self.threads.add(threading.current_thread())
            return weigh(preferences, bounds)

        monkeypatch.setattr(DecisionStore, "decisions", decisions)
        monkeypatch.setattr(preference_book, "revealed", revealed)


def recorder_of(folder: Path) -> DecisionRecorder:
    return DecisionRecorder(JobReader(), Telemetry(), url_of(folder), lambda: 2000.0)


async def test_a_decision_of_one_namespace_has_only_its_weights_worked_out_and_outside_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, recorder = stored(tmp_path), recorder_of(tmp_path)
    store.record([replace(chosen(CHEAP.plan_id, uid=name), identifier=name, namespace=name) for name in "abcd"])
    assert recorder.weights("a", PolicySpec()) is None
    await recorder.read(store)
    before = {name: recorder.weights(name, PolicySpec()) for name in "abcd"}
    counted = Counted(monkeypatch)
    store.record([replace(chosen(SAFE.plan_id, 50.0, "u9"), namespace="b")])
    await recorder.read(store)
    after = {name: recorder.weights(name, PolicySpec()) for name in "abcd"}
    assert [name for name in "abcd" if after[name] != before[name]] == ["b"]
    assert (counted.read, len(counted.revealed)) == (["b"], 1)
    assert threading.current_thread() not in counted.threads
    store.close()


async def test_what_has_not_changed_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, recorder = stored(tmp_path), recorder_of(tmp_path)
    await recorder.read(store)
    counted = Counted(monkeypatch)
    await recorder.read(store)
    assert counted.read == []
    assert recorder.weights("team", PolicySpec()) == pytest.approx(FIXED)
    store.close()


async def test_a_namespace_whose_rows_are_gone_has_no_weights(tmp_path: Path) -> None:
    store, recorder = stored(tmp_path), recorder_of(tmp_path)
    store.record([replace(chosen(CHEAP.plan_id), namespace="left")])
    await recorder.read(store)
    assert recorder.weights("left", PolicySpec()) is not None
    store.prune(1e9)
    await recorder.read(store)
    assert recorder.weights("left", PolicySpec()) is None
    assert recorder.weights("team", PolicySpec()) == pytest.approx(FIXED)
    store.close()


async def test_many_namespaces_that_changed_are_read_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, recorder = stored(tmp_path), recorder_of(tmp_path)
    store.record([replace(chosen(CHEAP.plan_id, uid=f"u{number}"), identifier=f"{number}", namespace=f"n{number}") for number in range(20)])
    counted = Counted(monkeypatch)
    await recorder.read(store)
    assert counted.read == [None]
    assert all(recorder.weights(f"n{number}", PolicySpec()) for number in range(20))
    store.close()
