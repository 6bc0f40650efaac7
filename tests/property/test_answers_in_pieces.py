"""An answer read along the series of last time is the answer that a JSON decoder reads."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperscale.observe.prometheus import vector
from hyperscale.observe.prometheus.vector import Decoder, LabelSets, Vector
from hyperscale.observe.series import _follow

FAST = settings(max_examples=50, deadline=None)
names = st.sampled_from(["", "M", "metric", "zzz", 'quo"ted', "back\\slash"])
texts = st.one_of(
    st.floats().map(lambda value: f"{value:g}"),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers(-(10**25), 10**25).map(str),
    st.decimals(allow_nan=False, allow_infinity=False).map(str),
    st.sampled_from(["NaN", "+Inf", "-Inf", "1e+09", "1.", ".5", "00.10", "9007199254740993", "1e23", "1e-23"]),
)
label_values = st.text(st.characters(blacklist_categories=["Cs"]), max_size=6)
label_sets = st.dictionaries(st.sampled_from(["A", "UUID", "_", "__m", "__z", "instance", "zz"]), label_values, max_size=4)
entries = st.lists(st.tuples(label_sets, texts), max_size=12)


def body(name: str, given_entries: list[tuple[dict[str, str], str]], stamp: float) -> bytes:
    """As Prometheus writes it."""
    result: list[dict[str, Any]] = []
    for labels, text in given_entries:
        metric = {**labels, **({"__name__": name} if name else {})}
        result.append({"metric": dict(sorted(metric.items())), "value": [stamp, text]})
    answer = {"status": "success", "data": {"resultType": "vector", "result": result}}
    return json.dumps(answer, separators=(",", ":"), ensure_ascii=False).encode()


def by_json(answer: bytes) -> list[tuple[dict[str, str], str, float]]:
    found = json.loads(answer)["data"]["result"]
    return [
        ({key: text for key, text in one["metric"].items() if key != "__name__"}, repr(float(one["value"][1])), one["value"][0])
        for one in found
    ]


def told(found: Vector) -> list[tuple[dict[str, str], str, float]]:
    labels = [{key: text for key, text in json.loads(identity).items() if key != "__name__"} for identity in found.shape.identities]
    return list(zip(labels, map(repr, found.values.tolist()), found.evaluated.tolist(), strict=True))


@FAST
@given(st.lists(st.tuples(names, entries, st.booleans(), st.sampled_from([1.5, 1800000000.0])), min_size=1, max_size=4), st.data())
@pytest.mark.parametrize("compiled", [True, False])
def test_whatever_came_before_an_answer_is_read_as_it_is(
    compiled: bool, answers: list[tuple[str, list[tuple[dict[str, str], str]], bool, float]], data: st.DataObject
) -> None:
    follow = _follow.follow if compiled else (lambda *given_arguments: (given_arguments[1], 0))
    sets, shape = LabelSets(frozenset({"UUID", "instance"})), vector.EMPTY
    before: list[tuple[dict[str, str], str]] = []
    for name, given_entries, again, stamp in answers:
        # Half of the answers have the series of the one before, with the new ones in between.
        mixed = [(labels, data.draw(texts)) for labels, _ in before] if again else []
        at = data.draw(st.integers(0, len(mixed)))
        before = [*mixed[:at], *given_entries, *mixed[at:]]
        answer = body(name, before, stamp)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(vector, "follow", follow)
            patch.setattr(vector, "ODD_BYTES", 64)
            decoder, size = Decoder(sets, shape), data.draw(st.integers(1, 400))
            for start in range(0, len(answer), size):
                decoder.feed(answer[start : start + size])
            found = decoder.finish()
        assert told(found) == by_json(answer)
        assert all(
            kept == {key: text for key, text in labels.items() if key in ("UUID", "instance")}
            for kept, (labels, _) in zip(found.shape.labels, before, strict=True)
        )
        shape = found.shape
