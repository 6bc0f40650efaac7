"""Finished runs of one namespace do not replace those of another; with a single namespace the newest runs count as they come."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperscale.control.history.run_lessons import lessons_and_report, shared
from hyperscale.control.history.run_store import RunStore
from hyperscale.control.history.runs_table import FinishedRun
from tests.unit.control.history.test_finished_runs import history, run, server  # noqa: F401 - fixtures


def runs_of(namespace: str, count: int, begin: int, **changes: object) -> list[FinishedRun]:
    return [run(begin + number, uid=f"{namespace}-{begin + number}", namespace=namespace, **changes) for number in range(count)]


def test_many_runs_of_a_namespace_do_not_move_the_correction_of_others(history: RunStore) -> None:  # noqa: F811
    history.record([*runs_of("one", 60, 0, measured_seconds=3.0), *runs_of("two", 10, 70, measured_seconds=3.0)])
    history.record(runs_of("attacker", 300, 100, measured_seconds=19.0))
    ((known,),) = history.calibrations(5).values()
    assert (known.factor, known.runs) == (3.0, 110)


def test_four_namespaces_share_the_whole_window_and_a_mix_with_one_is_untouched(history: RunStore) -> None:  # noqa: F811
    for place, namespace in enumerate("abcde"):
        history.record(runs_of(namespace, 70, 1000 * place))
    history.record(runs_of("a", 210, 9000, products="T4"))
    assert {known.products: known.runs for known in history.calibrations(5)["GCN"]} == {"A100": 200, "T4": 200}


def test_a_namespace_does_not_push_out_the_newest_quarter_of_another(history: RunStore) -> None:  # noqa: F811
    history.record([*runs_of("victim", 5, 0), *runs_of("attacker", 40, 100)])
    newest = [one.uid for one, _ in history.brief_runs(8)]
    assert newest == [*(f"attacker-{number}" for number in range(139, 133, -1)), "victim-4", "victim-3"]
    assert [one.uid for one, _ in history.brief_runs(1)] == ["attacker-139"]
    assert len(history.brief_runs(100)) == 45


def test_a_single_namespace_fills_the_window_with_its_newest_runs(history: RunStore) -> None:  # noqa: F811
    history.record(runs_of("team", 40, 0))
    assert [one.uid for one, _ in history.brief_runs(8)] == [f"team-{number}" for number in range(39, 31, -1)]


def test_evaluations_learn_from_others_beside_a_namespace_with_many_runs(tmp_path: Path) -> None:
    store = RunStore(f"sqlite:///{tmp_path}/history.sqlite")
    store.record([*runs_of("victim", 30, 0), *runs_of("attacker", 1100, 100)])
    lessons, _ = lessons_and_report(store, (), 5000.0)
    store.close()
    named = [row.run.partition("/")[0] for row in lessons.runs]
    assert (named.count("victim"), named.count("attacker")) == (30, 100)
    assert named[:30] == ["victim"] * 30


@given(st.lists(st.sampled_from("abcdef"), max_size=60), st.integers(4, 40))
def test_a_share_is_the_newest_of_each_in_order(namespaces: list[str], most: int) -> None:
    kept = shared([(namespace, number) for number, namespace in enumerate(["first", *namespaces, "last"])], most)
    assert list(kept) == sorted(kept)
    assert len(kept) <= most
    for namespace in set(namespaces):
        own = [number for number, name in enumerate(namespaces, 1) if name == namespace]
        mine = [number for number in kept if number in own]
        assert mine == own[len(own) - len(mine) :]
        assert len(mine) <= most // 4


@pytest.mark.parametrize("count", [0, 1, 3, 100])
def test_entries_of_one_namespace_are_the_newest(count: int) -> None:
    assert shared([("team", number) for number in range(count)], 8) == tuple(range(count))[-8:]
