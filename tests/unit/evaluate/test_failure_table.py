"""Tables of units: what is read, and a clear error with the row for everything that is no table."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from hyperscale.evaluate.pipeline.evaluation_question import of_table
from hyperscale.evaluate.twin.failure_table import (
    FailureTableError,
    fitted_laws,
    lives_of,
    parse_failure_table,
    parse_time,
    read_failure_table,
)

HEADER = "location,insert,remove,cause"


def lines(*rows: str, header: str = HEADER) -> list[str]:
    return [header, *rows]


def test_units_are_lives_that_failed_or_are_censored() -> None:
    records = parse_failure_table(lines("a,0,10,gpu", "a,10,14,network", "b,2,,", "a,14,,"), "h")
    sample = lives_of(records, "", "gpu")
    hours = [seconds / 3600.0 for seconds in sample.seconds.tolist()]
    assert hours == [10.0, 4.0, 12.0]  # the records end at 14 h: the last unit says nothing yet
    assert sample.failed.tolist() == [True, False, False]
    assert lives_of(records, "", "gpu", 20.0 * 3600.0).seconds.tolist() == [36_000.0, 14_400.0, 64_800.0, 21_600.0]


def test_times_may_be_dates_with_a_zone() -> None:
    records = parse_failure_table(lines("a,2026-01-01T00:00:00Z,2026-01-02T02:00:00+02:00,gpu", "b,2026-01-01T00:00:00Z,,"))
    assert lives_of(records, "", "gpu").seconds.tolist() == [86_400.0, 86_400.0]
    assert parse_time("1970-01-02T00:00:00Z", "s") == 86_400.0
    assert parse_time("2", "d") == 172_800.0


def test_laws_are_fitted_for_each_class_and_cause() -> None:
    rows = [f"n{index},0,{10 + index},{'gpu' if index % 2 else 'network'},{'h100' if index < 20 else 'a100'}" for index in range(40)]
    laws = fitted_laws(parse_failure_table(lines(*rows, header=HEADER + ",class"), "d"))
    assert list(laws) == [("a100", "gpu"), ("a100", "network"), ("h100", "gpu"), ("h100", "network")]
    assert all(law.units == 20 and law.events == 10 for law in laws.values())


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (["a,0,10,gpu", "b,nan,10,gpu"], 'row 3: insert is "nan"; write a number of at most 1e15 s'),
        (["a,0,inf,gpu"], 'row 2: remove is "inf"; write a number of at most 1e15 s'),
        (["a,-1e300,1e300,gpu"], 'row 2: insert is "-1e300"; write a number of at most 1e15 s'),
        (["a,0,10,gpu", "b,10,4,gpu"], "row 3: removed at 4, not after its insertion at 10"),
        (["a,5,5,gpu"], "row 2: removed at 5, not after its insertion at 5"),
        (["a,0,10,"], "row 2: removed without a cause"),
        (["a,0,,gpu"], 'row 2: cause "gpu" without a time of removal'),
        ([",0,10,gpu"], "row 2: location is empty"),
        (["a,,10,gpu"], "row 2: insert is empty"),
        (["a,20,30,gpu", "b,0,,", "a,0,10,gpu"], 'row 4: location "a" is inserted before row 2; sort'),
        (["a,0,10,gpu", "a,9,20,gpu"], 'row 3: location "a" is inserted while the unit of row 2 is there'),
        (["a,0,,", "a,9,20,gpu"], 'row 3: location "a" is inserted while the unit of row 2 is there'),
        (["a,yesterday,10,gpu"], 'row 2: insert is "yesterday"; write RFC 3339'),
        (["a,2026-01-01T00:00:00,,"], "has no time zone"),
        (["a,2026-01-01T00:00:00Z,10,gpu"], "row 2: insert and remove are written in different ways"),
        (["a,0,10,gpu", "b,2026-01-01T00:00:00Z,,"], "row 3: times with a date and plain numbers in one table"),
        (["", "a,0,10,gpu", "", "b,10,4,gpu"], "row 5: removed at 4"),
        (['"a\n', 'x",0,10,gpu', "b,10,4,gpu"], "row 4: removed at 4"),
        (["a,0,10,gpu,more"], "row 2: more fields than the header has"),
        (["a,0"], None),
        ([], "row 2: the table has no units"),
    ],
)
def test_faulty_rows_are_named_with_what_to_write_instead(rows: list[str], words: str | None) -> None:
    if words is None:  # missing fields are empty ones: a unit that is still there
        assert parse_failure_table(lines(*rows))[0].remove_seconds is None
        return
    with pytest.raises(FailureTableError) as error:
        parse_failure_table(lines(*rows))
    assert words in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("location,insert", "no column remove, cause"),
        ("", "no column location"),
        ("location,insert,remove,cause,cause", 'two columns "cause"'),
        ("location,insert,remove,cause,note,note", 'two columns "note"'),
    ],
)
def test_a_table_without_its_columns_is_refused(header: str, words: str) -> None:
    with pytest.raises(FailureTableError, match=words):
        parse_failure_table(lines("a,0", header=header))


def test_healthy_units_are_no_failures_however_it_is_written() -> None:
    records = parse_failure_table(lines("a,0,10,Healthy", "b,0,10,PLANNED", "c,0,10,healthy", "d,0,10,gpu", "e,0,,"))
    assert [record.failed for record in records] == [False, False, False, True, False]
    assert list(of_table(records).laws) == ["gpu/0"]


def test_rare_causes_of_many_share_one_law() -> None:
    rows = [f"n{at},0,{100 + at},{'often' if at % 2 else f'rare-{at}'}" for at in range(400)]
    assumption = of_table(parse_failure_table(lines(*rows, "x,0,500,planned")))
    assert len(assumption.laws) == 9
    assert {"often/0", "other causes/0"} <= set(assumption.laws)
    assert "The 8 most frequent causes have a law each; 193 rarer ones are taken as one." in assumption.source
    assert "other causes" in assumption.source.partition(")")[0]
    few = of_table(parse_failure_table(lines(*[f"n{at},0,{100 + at},c{at % 8}" for at in range(80)])))
    assert len(few.laws) == 8
    assert "taken as one" not in few.source


def test_an_end_of_the_records_before_a_unit_is_refused() -> None:
    records = parse_failure_table(lines("a,0,10,gpu", "b,4,,"))
    with pytest.raises(FailureTableError, match=r"row 2: .* state a later end"):
        lives_of(records, "", "gpu", 5.0)


def test_files_that_are_no_tables_give_one_line(tmp_path: Path) -> None:
    with pytest.raises(FailureTableError, match="name a CSV file"):
        read_failure_table(tmp_path / "absent.csv")
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"location,insert\xff\xfe\x00")
    with pytest.raises(FailureTableError, match="UTF-8"):
        read_failure_table(binary)
    good = tmp_path / "good.csv"
    good.write_text("﻿location, insert, remove, cause\na, 0, 10, gpu\n", encoding="utf-8")
    assert read_failure_table(good, "d")[0].remove_seconds == 864_000.0
    with pytest.raises(FailureTableError, match='"weeks" is no unit'):
        read_failure_table(good, "weeks")
    assert math.isfinite(fitted_laws(read_failure_table(good))[("", "gpu")].law.scale_seconds)
