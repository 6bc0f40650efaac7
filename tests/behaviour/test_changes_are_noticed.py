"""The comparison with records can fail: every changed value is noticed and named, and no record is without its case."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.behaviour import record, stored

KINDS = sorted(record.CASES)


def leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Paths to all numbers, texts and truths inside."""
    if isinstance(value, dict | list):
        for key, entry in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(entry, (*path, key))
    else:
        yield path


def changed(value: Any) -> Any:
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + (1 if isinstance(value, int) else abs(value) * 1e-5 + 1e-12)
    return f"{value}x"


@pytest.mark.parametrize("kind", KINDS)
def test_every_record_has_its_case_and_every_case_its_record(kind: str) -> None:
    assert sorted(path.stem for path in (stored.FOLDER / kind).iterdir()) == sorted(record.CASES[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_every_value_of_a_record_that_changes_is_noticed(kind: str) -> None:
    for case in record.CASES[kind]:
        recorded, mutated = stored.read(kind, case), stored.read(kind, case)
        assert stored.difference(recorded, json.loads(stored.text(recorded))) is None
        for *parents, last in leaves(recorded):
            holder = mutated
            for step in parents:
                holder = holder[step]
            before, holder[last] = holder[last], changed(holder[last])
            found = stored.difference(recorded, mutated)
            holder[last] = before
            assert found is not None, (kind, case, parents, last)


def test_a_difference_names_the_case_and_the_first_path(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = {"plan": {"workers": [{"node": "a"}, {"node": "b"}]}}
    monkeypatch.setattr(stored, "read", lambda kind, case: recorded)
    now = copy.deepcopy(recorded)
    now["plan"]["workers"][1]["node"] = "c"
    with pytest.raises(AssertionError, match=r'plans/any differs from its record at plan\.workers\[1\]\.node: recorded "b", now "c"'):
        stored.assert_as_recorded("plans", "any", now)


@pytest.mark.parametrize(
    ("recorded", "now", "says"),
    [
        ({"a": 1}, {}, "a: recorded 1, now absent"),
        ({}, {"a": 1}, "a: recorded as absent, now 1"),
        ([1, 2], [1], ": recorded 2 entries, now 1"),
        ({"a": 1}, {"a": True}, "a: recorded 1, now true"),
        ({"a": None}, {"a": 0}, "a: recorded null, now 0"),
        ({"a": 1.0}, {"a": 1.000001}, "a: recorded 1.0, now 1.000001"),
        ({"a": 1.0}, {"a": 1.000000001}, None),
    ],
)
def test_a_difference_says_what_was_and_what_is(recorded: Any, now: Any, says: str | None) -> None:
    assert stored.difference(recorded, now) == says


def test_what_is_written_is_one_text_and_stale_files_go(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "FOLDER", tmp_path)
    assert stored.write("plans", {"one": {"b": 1, "a": [1, 2]}, "two": {}}) == 2
    assert stored.write("plans", {"one": {"a": [1, 2], "b": 1}}) == 1
    assert [path.name for path in (tmp_path / "plans").iterdir()] == ["one.json"]
    assert stored.path_of("plans", "one").read_text(encoding="utf-8") == '{"a": [1, 2], "b": 1}\n'
