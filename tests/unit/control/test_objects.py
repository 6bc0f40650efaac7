"""Lists and watch events, cut into objects: one that cannot be decoded spoils no other."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperscale.control.apply.api_answers import LARGE_BYTES
from hyperscale.control.cache.cluster_cache import ClusterCache
from hyperscale.control.cache.intake import JOB, Intake
from hyperscale.control.controller.feed import Feed
from hyperscale.spec import api_objects
from hyperscale.spec.api_objects import ListPage
from hyperscale.spec.parse import TOO_LARGE

DEEP = 9_000
PAST_EVERY_STACK = 100_000
"""Python 3.13 decodes 9,000 levels."""


def nested(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


def job(name: str, spec: bytes = b"{}") -> bytes:
    """As the API server writes a custom resource: fields sorted."""
    metadata = {"labels": {"a": 'b,{["'}, "name": name, "namespace": "team", "resourceVersion": "7", "uid": f"uid-{name}"}
    return b'{"apiVersion":"hyperscale.dev/v1alpha1","kind":"GNNTrainingJob","metadata":%s,"spec":%s}' % (
        json.dumps(metadata).encode(),
        spec,
    )


def page(*items: bytes, token: str = "") -> bytes:
    metadata = json.dumps({"continue": token, "resourceVersion": "42"}).encode()
    return b'{"apiVersion":"v1","items":[%s],"kind":"List","metadata":%s}' % (b",".join(items), metadata)


def test_a_list_is_cut_into_its_items() -> None:
    found = api_objects.list_page(page(job("a"), job("b"), token='more"'))
    assert (found.version, found.token) == (42, 'more"')
    assert [api_objects.read(item)["metadata"]["name"] for item in found.items] == ["a", "b"]


def test_so_is_one_with_an_item_that_no_decoder_follows() -> None:
    body = page(job("a"), job("deep", nested(DEEP)), job("b"), token="more")
    with pytest.raises(RecursionError):
        api_objects.list_page(page(job("deep", nested(PAST_EVERY_STACK))))
    found = api_objects.nested_list_page(body)
    assert (found.version, found.token) == (42, "more")
    one, deep, other = map(api_objects.read, found.items)
    assert (one["metadata"]["name"], other["metadata"]["name"]) == ("a", "b")
    assert deep["metadata"] == {
        "labels": {"a": 'b,{["'},
        "name": "deep",
        "namespace": "team",
        "resourceVersion": "7",
        "uid": "uid-deep",
    }
    assert api_objects.fault_of(deep) == ("", "nested more than 500 levels deep")


def test_an_event_with_such_an_object_keeps_its_type() -> None:
    line = b'{"type":"MODIFIED","object":%s}'
    with pytest.raises(RecursionError):
        api_objects.watch_event(line % job("deep", nested(PAST_EVERY_STACK)))
    line %= job("deep", nested(DEEP))
    kind, raw = api_objects.nested_watch_event(line)
    assert (kind, api_objects.read(raw)["metadata"]["name"]) == ("MODIFIED", "deep")


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (b'{"a":"%s"}' % (b"x" * api_objects.MAX_OBJECT_BYTES), "bytes of JSON"),
        (b"[%s1]" % (b"[]," * api_objects.MAX_VALUES), "values"),
        (b'{"a":1e999}', "can be decoded"),
        (b'{"a":"\xff"}', "can be decoded"),
    ],
    ids=["large", "many values", "a number beyond any float", "no UTF-8"],
)
def test_what_cannot_be_kept_is_known_by_its_name_alone(spec: bytes, said: str) -> None:
    found = api_objects.read(job("odd", spec))
    assert found["metadata"]["uid"] == "uid-odd"
    assert "spec" not in found
    assert said in (api_objects.fault_of(found) or ("", ""))[1]


def test_commas_in_texts_are_no_values() -> None:
    assert api_objects.fault_of(api_objects.read(job("text", b'{"a":"%s"}' % (b"," * (api_objects.MAX_VALUES + 1))))) is None


@given(st.lists(st.text(alphabet='a,[{"\\\\') | st.integers(0, 9), max_size=12))
def test_values_are_counted_outside_texts_only(entries: list[str | int]) -> None:
    """An object of exactly the limit can be decoded, one of a value more cannot, whatever is in its texts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(api_objects, "MAX_VALUES", 20)
        for more, fault in ((0, False), (1, True)):
            spec = [*entries, *[7] * (20 - 3 - len(entries) + more)]  # three objects and lists, a comma before `spec`, all but one in it
            raw = json.dumps({"metadata": {"name": "n"}, "spec": spec}).encode()
            assert (api_objects.fault_of(api_objects.read(raw)) is not None) == fault


@pytest.mark.parametrize("spec", [nested(DEEP), b"[%s1]" % (b"1," * api_objects.MAX_VALUES)], ids=["deep", "many values"])
def test_of_what_identifies_such_an_object_nothing_large_is_kept(spec: bytes) -> None:
    labels = ",".join(f'"l{number}":"x"' for number in range(20_000)).encode()
    found = api_objects.read(b'{"kind":"Pod","metadata":{"name":"odd","labels":{%s},"uid":"u"},"spec":{"a":%s}}' % (labels, spec))
    assert found["metadata"] == {"name": "odd", "uid": "u"}


async def test_a_large_object_is_decoded_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    at: list[threading.Thread] = []
    read = api_objects.read

    def noted(raw: bytes) -> dict[str, Any]:
        at.append(threading.current_thread())
        return read(raw)

    monkeypatch.setattr(api_objects, "read", noted)
    small, large = job("small"), job("large", b'{"a":"%s"}' % (b"x" * LARGE_BYTES))
    page_of_both = ListPage(7, "", [small, large])
    cache = ClusterCache()
    feed = Feed(None, cache, ())  # type: ignore[arg-type] # no request is made
    await feed._take(cache.listings.begin(JOB, "", 7), page_of_both)
    assert [thread is threading.main_thread() for thread in at] == [True, False]
    assert sorted(key.name for key in cache.jobs) == ["large", "small"]


def test_a_spec_that_is_too_large_is_refused_without_a_look_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = json.dumps({"workers": {"template": {f"k{number}": 1 for number in range(90_000)}}}).encode()
    intake = Intake()
    intake.job(api_objects.read(job("large", spec)))
    assert [refused.message for refused in intake.refused.values()] == [f"spec: {TOO_LARGE}"]


@pytest.mark.parametrize(
    "raw", [b"", b"[]", b"7", b"null", b"{}", b'{"metadata":{}}', b'{"metadata":{"name":7}}', b'{"metadata":[]}', b"{"]
)
def test_what_has_no_name_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"name|JSON|expected|Expected|truncated"):
        api_objects.read(raw)


@pytest.mark.parametrize("text", ["", "x", "-1", "1e3", "\u0661", "9" * 40, None, 7, [], "0x10"])
def test_what_is_no_version_is_0(text: object) -> None:
    assert api_objects.version_of(text) == 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(specs=st.lists(JSON, max_size=4), indent=st.sampled_from([None, 1]))
def test_cutting_by_brackets_finds_what_a_decoder_finds(specs: list[Any], indent: int | None) -> None:
    items = [{"metadata": {"name": f"n{number}", "resourceVersion": "3"}, "spec": spec} for number, spec in enumerate(specs)]
    body = json.dumps({"items": items, "metadata": {"resourceVersion": "5", "continue": "t"}}, indent=indent).encode()
    quick, careful = api_objects.list_page(body), api_objects.nested_list_page(body)
    assert (quick.version, quick.token) == (careful.version, careful.token)
    assert [json.loads(item) for item in careful.items] == [json.loads(item) for item in quick.items] == items


@given(st.binary(max_size=200) | st.text(alphabet='{}[]",:\\ab1', max_size=60).map(str.encode))
def test_bytes_of_any_kind_are_read_or_refused(raw: bytes) -> None:
    for read in (
        api_objects.list_page,
        api_objects.nested_list_page,
        api_objects.watch_event,
        api_objects.nested_watch_event,
        api_objects.read,
    ):
        try:
            read(raw)
        except ValueError:
            continue
    assert api_objects.head(raw) is None or api_objects.head(raw)
