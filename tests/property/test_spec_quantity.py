"""Quantities against exact arithmetic."""

from __future__ import annotations

import contextlib
from decimal import ROUND_CEILING, Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperscale.util.quantity import parse_bytes, parse_exact, parse_number, shortest

POWERS = {
    "": 1,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
    "Pi": 2**50,
    "Ei": 2**60,
}


@settings(max_examples=50, deadline=None)
@given(st.decimals(0, 10**6, places=3), st.sampled_from(sorted(POWERS)))
def test_bytes_are_the_exact_product_rounded_up(number: Decimal, suffix: str) -> None:
    assert parse_bytes(f"{number}{suffix}") == int((number * POWERS[suffix]).to_integral_value(rounding=ROUND_CEILING))


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**9))
def test_a_thousand_milli_are_one(number: int) -> None:
    assert parse_number(f"{number}000m") == parse_number(str(number)) == float(number)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 2**60) | st.floats(1, 1e15))
def test_the_shortest_text_is_the_same_number_and_no_longer_than_its_digits(number: float) -> None:
    assert type(number)(parse_exact(shortest(number))) == number  # a float would round whole numbers above 2^53
    assert len(shortest(number)) <= len(repr(number))


@pytest.mark.parametrize(("number", "text"), [(24 * 2**30, "24Gi"), (10**13, "10T"), (1e13, "10T"), (1.5, "1.5"), (7, "7")])
def test_a_number_is_written_as_a_person_would(number: float, text: str) -> None:
    assert shortest(number) == text


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=80))
def test_other_text_is_refused_with_an_example_of_what_to_write(text: str) -> None:
    with contextlib.suppress(ValueError):
        parse_number(text)
        return
    with pytest.raises(ValueError, match="24Gi"):
        parse_number(text)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("500m", 0.5),
        ("1e3", 1000.0),
        ("1e003", 1000.0),
        ("1E3", 1000.0),
        ("1E", 1e18),
        ("-1", -1.0),
        (".5", 0.5),
        ("2.", 2.0),
        ("100u", 1e-4),
        ("5n", 5e-9),
    ],
)
def test_every_form_of_kubernetes_is_read(text: str, number: float) -> None:
    assert parse_number(text) == pytest.approx(number)


@pytest.mark.parametrize("text", ["", "Gi", "1.2.3", "1 Gi", "1gi", "0x10", "1e", "1e1000", "1Gi\n", "NaN", "inf", "\u0661", "9" * 65])
def test_what_kubernetes_does_not_read_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="24Gi"):
        parse_bytes(text)
