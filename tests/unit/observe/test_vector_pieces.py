"""Answers of Prometheus in pieces: the same elements as at once, whatever the size of the pieces; label sets are kept."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from hyperscale.observe.prometheus import vector
from hyperscale.observe.prometheus.vector import EMPTY, Decoder, LabelSets, NotJsonError, SeriesShape, Vector
from hyperscale.observe.series import _follow

KEPT = frozenset({"Hostname", "UUID", "a", "z", "Z"})


def body(entries: list[tuple[dict[str, str], str]], *, compact: bool = True, stamp: float = 1.5, **more: Any) -> bytes:
    result = [{"metric": dict(sorted(labels.items())), "value": [stamp, value]} for labels, value in entries]
    answer = {"status": "success", "data": {"resultType": "vector", "result": result}, **more}
    return json.dumps(answer, separators=(",", ":") if compact else None, ensure_ascii=False).encode()


def series(count: int, **more: str) -> list[tuple[dict[str, str], str]]:
    return [({"Hostname": f"n{at}", 'odd,{"metric":': '},{"metric":{"x"', "UUID": f"GPU-{at}", **more}, str(at)) for at in range(count)]


def decoded(answer: bytes, piece: int = 10**9, expected: SeriesShape = EMPTY, sets: LabelSets | None = None) -> Vector:
    decoder = Decoder(sets if sets is not None else LabelSets(KEPT), expected)
    for at in range(0, len(answer), piece):
        decoder.feed(answer[at : at + piece])
    return decoder.finish()


@pytest.mark.parametrize("piece", [1, 100, 1000, 10**6])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 50])
def test_pieces_of_any_size_give_every_element_once_and_in_order(monkeypatch: pytest.MonkeyPatch, piece: int, count: int) -> None:
    monkeypatch.setattr(vector, "PIECE_BYTES", piece)
    found = decoded(body(series(count)), piece)
    assert found.values.tolist() == [float(at) for at in range(count)]
    assert found.evaluated.tolist() == [1.5] * count
    assert [json.loads(identity) for identity in found.shape.identities] == [labels for labels, _ in series(count)]
    assert [labels["Hostname"] for labels in found.shape.labels] == [f"n{at}" for at in range(count)]


@pytest.mark.parametrize("name", ["A_FIRST", "m", "zzz"])
@pytest.mark.parametrize("others", [{}, {"a": "1"}, {"z": "1"}, {"a": "1", "z": "2"}])
def test_the_identity_of_q_is_that_of_its_timestamp(name: str, others: dict[str, str]) -> None:
    for count in (1, 3):
        named = [({"__name__": name, "Z": str(at), **others}, "1") for at in range(count)]
        nameless = [({"Z": str(at), **others}, "2") for at in range(count)]
        for compact in (True, False):
            left, right = (decoded(body(entries, compact=compact)).shape.identities for entries in (named, nameless))
            assert left == right


@pytest.mark.parametrize("piece", [7, 200, 10**6])
def test_series_that_come_again_are_the_objects_of_last_time_whatever_the_metric_is_called(piece: int) -> None:
    sets = LabelSets(KEPT)
    first = decoded(body([({**labels, "__name__": "one"}, "1") for labels, _ in series(40)]), sets=sets).shape
    again = [({**labels, "__name__": "another_one"}, f"{at}.25") for at, (labels, _) in enumerate(series(40))]
    found = decoded(body(again, stamp=2.5), piece, first, sets)
    assert found.shape is first
    assert found.values.tolist() == [at + 0.25 for at in range(40)]
    assert set(found.evaluated.tolist()) == {2.5}
    stamps = decoded(body([(labels, "1800000000.125") for labels, _ in series(40)], stamp=2.5), piece, first, sets)
    assert stamps.shape is first
    assert set(stamps.values.tolist()) == {1800000000.125}


def test_series_that_come_go_or_change_places_among_others_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector, "ODD_BYTES", 100)
    sets = LabelSets(KEPT)
    known = series(60)
    first = decoded(body(known), sets=sets).shape
    odd = [*known[5:20], ({"Hostname": "new"}, "7"), *known[20:40], *known[45:50], *known[40:45], *known[50:]]
    found = decoded(body(odd), 333, first, sets)
    assert found.values.tolist() == [float(value) for _, value in odd]
    assert [json.loads(identity) for identity in found.shape.identities] == [dict(sorted(labels.items())) for labels, _ in odd]
    assert found.shape.labels[0] is first.labels[5]
    back = decoded(body(known), 333, found.shape, sets)
    assert back.shape.identities == first.identities
    assert back.shape.labels[30] is first.labels[30]


def test_entries_of_other_moments_keep_their_own() -> None:
    entries = [
        body(series(3), stamp=stamp)[len(b'{"status":"success","data":{"resultType":"vector","result":[') : -3] for stamp in (1.5, 2.5)
    ]
    answer = b'{"status":"success","data":{"resultType":"vector","result":[' + b",".join(entries) + b"]}}"
    shape = decoded(answer).shape
    assert decoded(answer, 50, shape).evaluated.tolist() == [1.5] * 3 + [2.5] * 3


def test_special_values_and_warnings_pass() -> None:
    texts = ["NaN", "+Inf", "-Inf", "1e+300", "-0", "2.5e-05", "123456789012345678", "1e-320", "0.1"]
    answer = body([({"a": f"é\\{at}"}, text) for at, text in enumerate(texts)], warnings=["slow"])
    first = decoded(answer)
    for found in (first, decoded(answer, 40, first.shape)):
        assert [repr(value) for value in found.values.tolist()] == [repr(float(text)) for text in texts]
    assert math.isnan(first.values[0])


@pytest.mark.parametrize(
    "broken",
    [
        b'{"status":"error","error":"x"}',
        b'{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}',
        b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"x"]}]}}',
        b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,2]},{"metric":{},"value":[1,"2"]}]}}',
        body(series(3)).replace(b'"value":[1.5,"1"]', b'"value":[1.5]'),
        body(series(3)).replace(b'"value":[1.5,"1"]', b'"value":[1.5,"1x"]'),
        body(series(3)).replace(b'"resultType":"vector"', b'"resultType":"matrix"'),
        body(series(3)).replace(b'"status":"success"', b'"status":"error"'),
    ],
)
def test_what_is_no_vector_is_refused(broken: bytes) -> None:
    for expected in (EMPTY, decoded(body(series(3))).shape):
        for piece in (1, 10**6):
            with pytest.raises(ValueError, match=r"."):
                decoded(broken, piece, expected)


@pytest.mark.parametrize("broken", [b"", b"<html>", body(series(3))[:-9], b"x" + body(series(3))])
def test_what_is_no_json_is_told_apart(broken: bytes) -> None:
    for expected in (EMPTY, decoded(body(series(3))).shape):
        with pytest.raises(NotJsonError):
            decoded(broken, 10, expected)


def test_label_sets_are_narrowed_once_and_forgotten_when_no_answer_has_them_any_more() -> None:
    sets = LabelSets(frozenset({"a", "b"}))
    shape = decoded(body([({"a": "1", "c": "2"}, "1"), ({"a": "2"}, "1")]), sets=sets).shape
    first = sets.labels(shape.identities[0])
    assert first == {"a": "1"}
    sets.sweep([shape])
    assert sets.labels(shape.identities[0]) is first
    sets.sweep([SeriesShape(shape.identities[1:], shape.cuts[1:], shape.labels[1:])])
    assert len(sets) == 1
    assert sets.labels(shape.identities[0]) is not first
    with pytest.raises(ValueError, match=r"."):
        sets.labels(b"[]")


def test_the_compiled_walk_checks_what_it_is_given() -> None:
    shape = decoded(body(series(2))).shape
    for start, row in ((-1, 0), (10**6, 0), (0, -1)):
        with pytest.raises(ValueError, match="do not fit"):
            _follow.follow(b"{}", start, shape.identities, shape.cuts, row, b"", np.empty(2))
    with pytest.raises(TypeError):
        _follow.follow(b"{}", 0, ("text",), np.zeros(1, np.int32), 0, b"", np.empty(2))  # type: ignore[arg-type] # that is the point
