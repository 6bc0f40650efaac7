"""The benchmarks of twin and failure laws count as they say."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from benchmarks import failures, twin, twin_cases
from benchmarks.failure_tables import BATHTUB, FAMILIES, Family, table


def test_the_distance_of_two_samples_is_the_largest_gap_of_their_distributions() -> None:
    assert twin.distance(np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 2.0, 3.0, 4.0 + 1e-9])) == 0.0
    assert twin.distance(np.array([1.0, 2.0, 3.0, math.inf]), np.array([1.0, 2.0, math.inf, math.inf])) == 0.25
    assert twin.distance(np.array([1.0]), np.array([2.0])) == 1.0


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_generated_tables_are_the_same_for_the_same_seed_and_have_as_many_units(family: Family) -> None:
    lines = table(family, 50, 3)
    assert lines == table(family, 50, 3)
    assert lines != table(family, 50, 4)
    assert len(lines) > 50


def test_a_fit_is_right_where_family_and_shape_are() -> None:
    fit = failures.fitted(FAMILIES[2], 1000, 4.0, 0)
    assert failures.is_right(FAMILIES[2], fit)
    assert not failures.is_right(FAMILIES[1], fit)
    assert {row.metric for row in failures.family_rows(FAMILIES[2], 1000, 4.0, [fit])} >= {"censored", "family right"}


def test_lives_of_two_kinds_fit_no_family() -> None:
    assert failures.is_right(BATHTUB, failures.fitted(BATHTUB, 1000, 4.0, 0))


def test_the_laws_of_any_file_are_printed_and_faults_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "units.csv"
    file.write_text("\n".join(table(FAMILIES[2], 300, 1)))
    assert failures.print_file(file, "h", "8000") == 0
    printed = capsys.readouterr().out
    assert "weibull" in printed
    assert "upgrade" in printed
    assert failures.print_file(file, "h", "yesterday") == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_what_independence_leaves_open_is_the_published_difference() -> None:
    rows = {row.metric: row.value for row in twin.unexplained_rows() if row.method in ("unexplained", "1 / (N r)")}
    assert rows["MTTF of independent nodes"] == pytest.approx(28.8, abs=0.1)
    assert rows["failures measured / independent"] == pytest.approx(28.85 / 7.9, abs=0.01)


def test_large_jobs_have_1024_gpus() -> None:
    assert all(len(job.nodes) * twin_cases.GPUS_PER_NODE == 1024 for job in twin.large_jobs().values())
