"""No file, however wrong, makes `hyperscale compare` do anything but answer or refuse in one line."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.unit.cli.cli_samples import run

cells = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**20), 10**20), st.floats(), st.text(max_size=6), st.lists(st.integers(), max_size=2)
)
names = st.sampled_from(["benchmark", "case", "method", "metric", "value", "unit", "seed", "x", ""])
rows = st.lists(st.dictionaries(names, cells, max_size=5), max_size=8)
options = st.sampled_from(
    [
        (),
        ("--paired",),
        ("--unpaired",),
        ("--by", "method"),
        ("--by", "x"),
        ("--column", "x"),
        ("--factor", "case"),
        ("--factor", "group", "--factor", "seed"),
        ("--scale", "ratio"),
        ("--regress", "value", "--on", "x"),
        ("--metric", "m", "-o", "json"),
    ]
)


def answers(content: bytes, other: bytes, arguments: tuple[str, ...]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("one", "other")]
        for file, each in zip(files, (content, other), strict=True):
            file.write_bytes(each)
        ran = run("compare", *map(str, files), *arguments)
        assert ran.code in (0, 2), ran.err
        assert ran.err.count("\n") == (1 if ran.code else 0)
        assert bool(ran.out) == (ran.code == 0)


@settings(max_examples=80, deadline=None)
@given(rows, rows, options)
@example([{"metric": "m", "value": 1e308}] * 3, [{"metric": "m", "value": -1e308}] * 3, ())
@example([{"metric": "m", "value": 5e-324, "case": "a"}] * 3, [{"metric": "m", "value": 1e308, "case": "b"}] * 3, ("--scale", "ratio"))
@example([{"value": 1e308, "x": 1e308}, {"value": -1e308, "x": -1e308}] * 3, [{"value": 1, "x": 2}], ("--regress", "value", "--on", "x"))
def test_any_rows_are_compared_or_refused(one: list[Any], other: list[Any], arguments: tuple[str, ...]) -> None:
    answers(json.dumps(one).encode(), json.dumps(other).encode(), arguments)


@settings(max_examples=40, deadline=None)
@given(st.one_of(st.binary(max_size=60), st.text('0123456789.,-eE\n"naif;x', max_size=60).map(str.encode)), options)
def test_any_bytes_are_compared_or_refused(content: bytes, arguments: tuple[str, ...]) -> None:
    answers(content, content, arguments)
