"""Untrusted text to a mapping: whatever comes in, a plain mapping or InputError comes out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hyperscale.cli.documents import load_mapping
from hyperscale.cli.exit_codes import MAX_LINE, InputError, one_line
from hyperscale.cli.text_tables import bytes_text, data_text, rate_text, seconds_text, table

# Pieces of YAML that matter to its grammar, so that random text gets past the scanner.
PIECES = st.sampled_from(
    [
        *(
            "a",
            "b: ",
            "- ",
            "\n",
            "  ",
            "[",
            "]",
            "{",
            "}",
            "&x ",
            "*x",
            "<<: ",
            "? ",
            ": ",
            ",",
            "|\n",
            ">\n",
            "'",
            '"',
            "#",
            "!",
            "!<tag>",
        ),
        *("!!set ", "!!omap ", "!!binary ", "!!int ", "---\n", "...\n", "%YAML 1.1\n", "~", "0x", "0o9", "1:30", "1_000", ".inf"),
        *("2026-13-45", "yes", "=", "\t", "\x85", "\ufeff", "é"),
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=20,
)


def assert_mapping_or_refusal(text: str) -> None:
    document, refusal = {}, "file.yaml: "
    try:
        document = load_mapping(text, "file.yaml")
    except InputError as error:
        refusal = str(error)
    assert refusal.startswith("file.yaml: ")
    assert isinstance(document, dict)
    assert all(isinstance(key, str) for key in document)


@settings(max_examples=50, deadline=None)
@given(st.lists(PIECES, max_size=40).map("".join))
@example("!!set {a, b}")
@example("a: !!binary 'x'")
@example("<<: [a]")
@example("<<: {a: 1}\n")
@example("a: !!int ''")
@example("a: !!float ''")
@example("a: !!bool maybe")
@example("a: !!timestamp x")
@example("%YAML 9.9\n--- a")
@example("=: 1")
@example("a: =")
def test_any_text_gives_a_mapping_or_one_clear_refusal(text: str) -> None:
    assert_mapping_or_refusal(text)


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=200))
def test_any_characters_give_a_mapping_or_one_clear_refusal(text: str) -> None:
    assert_mapping_or_refusal(text)


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.text(max_size=6), VALUES, max_size=4))
def test_what_yaml_writes_is_read_back(document: dict[str, Any]) -> None:
    assert load_mapping(data_text(document, "yaml"), "file.yaml") == document


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.text(alphabet=st.characters(codec="ascii"), max_size=6), st.integers() | st.booleans() | st.none(), max_size=4))
def test_json_is_read_as_json(document: dict[str, Any]) -> None:
    assert load_mapping(json.dumps(document), "file.json") == document


def test_dates_stay_text_as_in_kubernetes() -> None:
    assert load_mapping("created: 2026-01-01\nat: 2026-01-01T00:00:00Z", "f") == {"created": "2026-01-01", "at": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("text", "value"),
    [("1e-2", 0.01), ("2E2", 200.0), ("-1.5e3", -1500.0), ("1_000", 1000), ("0200", 128), ("0x1F", 31), (".5", 0.5), ("1.", 1.0), ("-0", 0)]
    + [(text, text) for text in ("3:20", "190:20:30.15", "1e", "e5", "1e5x", "1.2.3", "12Gi", "500m")],
)
def test_numbers_are_those_that_kubectl_reads(text: str, value: object) -> None:
    """go-yaml's resolve.go. Else a preview accepts a learningRate of 1e-2 that the API server refuses, and 3:20 epochs."""
    (loaded,) = load_mapping(f"a: {text}", "f").values()
    assert (loaded, type(loaded)) == (value, type(value))


@pytest.mark.parametrize("text", ["1e-2", "2E2", "1234567890123e45", "0o17", "08", "y", "N", "12", "0x1F", "off", "null", "2026-01-01"])
def test_a_text_that_kubectl_would_read_as_something_else_is_written_in_quotes(text: str) -> None:
    assert data_text({"a": text}, "yaml") == f"a: '{text}'\n"


def test_merge_keys_work_and_count_as_what_they_add() -> None:
    assert load_mapping("base: &base {a: 1}\nfull: {<<: *base, b: 2}", "f")["full"] == {"a": 1, "b": 2}
    bomb = ["m0: &m0 {a: 1}", *(f"m{level}: &m{level} {{<<: [{','.join([f'*m{level - 1}'] * 10)}]}}" for level in range(1, 12))]
    with pytest.raises(InputError, match="values once aliases are written out"):
        load_mapping("\n".join(bomb), "f")


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=2000))
def test_an_error_line_is_one_bounded_printable_line(text: str) -> None:
    line = one_line(text)
    assert line.isprintable()
    assert len(line) <= MAX_LINE


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.text(max_size=9), st.text(max_size=9)), max_size=6))
def test_a_table_has_one_printable_line_a_row(rows: list[tuple[str, str]]) -> None:
    lines = table(("A", "B"), rows, right=frozenset({1}))
    assert len(lines) == len(rows) + 1
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "unknown"), (0.0, "0 µs"), (2.5e-5, "25 µs"), (0.0371, "37.1 ms"), (1.5, "1.5 s"), (180.0, "3 min"), (7200.0, "2 h")],
)
def test_times_are_written_in_the_unit_that_reads_best(seconds: float | None, text: str) -> None:
    assert seconds_text(seconds) == text


def test_bytes_and_rates_are_decimal() -> None:
    assert (bytes_text(1.25e9), rate_text(6e8), rate_text(None), bytes_text(12)) == ("1.25 GB", "600 MB/s", "unknown", "12 B")
