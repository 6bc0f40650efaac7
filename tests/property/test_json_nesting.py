"""The limit of nesting holds on every Python, whatever stands in the texts."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperscale.util import nesting
from hyperscale.util.nesting import shallow

TEXTS = st.text(alphabet='a[]{}",\\\n', max_size=6)
VALUES = st.recursive(
    TEXTS | st.integers(), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=12
)


def levels(value: object) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(levels, inner), default=0)


@given(VALUES, st.integers(0, 4))
def test_exactly_what_nests_deeper_than_the_limit_is_refused(value: object, limit: int) -> None:
    text = json.dumps(value).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nesting, "MAX_LEVELS", limit)
        if levels(value) <= limit:
            assert shallow(text) is text
        else:
            with pytest.raises(RecursionError, match=f"nested more than {limit} levels deep"):
                shallow(text)


@given(st.binary(max_size=60).map(lambda odd: b"[" * 501 + odd) | st.binary(max_size=60))
def test_of_what_is_no_json_nothing_else_is_raised(odd: bytes) -> None:
    try:
        assert shallow(odd) is odd
    except RecursionError:
        assert odd.count(b"[") + odd.count(b"{") > nesting.MAX_LEVELS
