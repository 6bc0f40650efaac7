"""Answers of Prometheus in pieces: the same elements as at once, whatever the size of the pieces; label sets are kept."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from hyperscale.observe import vector
from hyperscale.observe.vector import LabelSets, NotJsonError, elements


def body(entries: list[tuple[dict[str, str], str]], *, compact: bool = True, **more: Any) -> bytes:
    result = [{"metric": dict(sorted(labels.items())), "value": [1.5, value]} for labels, value in entries]
    answer = {"status": "success", "data": {"resultType": "vector", "result": result}, **more}
    return json.dumps(answer, separators=(",", ":") if compact else None, ensure_ascii=False).encode()


def series(count: int, **more: str) -> list[tuple[dict[str, str], str]]:
    return [({"Hostname": f"n{at}", 'odd,{"metric":': '},{"metric":{"x"', "UUID": f"GPU-{at}", **more}, str(at)) for at in range(count)]


@pytest.mark.parametrize("piece", [1, 100, 1000, 10**6])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 50])
def test_pieces_of_any_size_give_every_element_once_and_in_order(monkeypatch: pytest.MonkeyPatch, piece: int, count: int) -> None:
    monkeypatch.setattr(vector, "PIECE_BYTES", piece)
    found = list(elements(body(series(count))))
    assert [(one.value, one.evaluated) for one in found] == [(float(at), 1.5) for at in range(count)]
    assert [json.loads(one.identity) for one in found] == [labels for labels, _ in series(count)]


@pytest.mark.parametrize("name", ["A_FIRST", "m", "zzz"])
@pytest.mark.parametrize("others", [{}, {"a": "1"}, {"z": "1"}, {"a": "1", "z": "2"}])
def test_the_identity_of_q_is_that_of_its_timestamp(name: str, others: dict[str, str]) -> None:
    for count in (1, 3):
        named = [({"__name__": name, "Z": str(at), **others}, "1") for at in range(count)]
        nameless = [({"Z": str(at), **others}, "2") for at in range(count)]
        for compact in (True, False):
            left, right = ([one.identity for one in elements(body(entries, compact=compact))] for entries in (named, nameless))
            assert left == right


def test_special_values_and_warnings_pass() -> None:
    found = list(elements(body([({}, "NaN"), ({"a": "b"}, "+Inf"), ({"a": "é\\"}, "-Inf")], warnings=["slow"])))
    assert math.isnan(found[0].value)
    assert (found[1].value, found[2].value) == (math.inf, -math.inf)


@pytest.mark.parametrize(
    "broken",
    [
        b'{"status":"error","error":"x"}',
        b'{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}',
        b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"x"]}]}}',
        b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,2]},{"metric":{},"value":[1,"2"]}]}}',
        body(series(3)).replace(b'"value":[1.5,"1"]', b'"value":[1.5]'),
    ],
)
def test_what_is_no_vector_is_refused(broken: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        list(elements(broken))


@pytest.mark.parametrize("broken", [b"", b"<html>", body(series(3))[:-9]])
def test_what_is_no_json_is_told_apart(broken: bytes) -> None:
    with pytest.raises(NotJsonError):
        list(elements(broken))


def test_label_sets_are_narrowed_once_and_forgotten_when_nobody_asks_for_them() -> None:
    sets = LabelSets(frozenset({"a", "b"}))
    first = sets.labels(b'{"a":"1","c":"2"}')
    assert first == {"a": "1"}
    sets.sweep()
    assert sets.labels(b'{"a":"1","c":"2"}') is first
    sets.sweep()
    sets.sweep()
    assert sets.labels(b'{"a":"1","c":"2"}') is not first
    with pytest.raises(ValueError, match=r"."):
        sets.labels(b"[]")
