"""Groups of result rows against each other: each metric, each two groups, one corrected p value and one sentence each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import comb
from typing import Final

import msgspec
import numpy as np

from hyperscale.evaluate.statistics.effect_size import magnitude
from hyperscale.evaluate.statistics.factor_analysis import Variance, blocked, factors, one_way
from hyperscale.evaluate.statistics.group_pair import LEVEL, Scale, TwoGroups, compare_groups, compare_pairs
from hyperscale.evaluate.statistics.holm import holm
from hyperscale.evaluate.statistics.result_rows import (
    Aligned,
    Averaged,
    MetricKey,
    Pairing,
    ResultRow,
    align,
    by_metric,
    independent_values,
    values_of,
)
from hyperscale.evaluate.statistics.wording import factor_sentence, overall_sentence, sentence
from hyperscale.model.graph import FloatArray

MAX_GROUPS: Final = 50
MAX_COMPARISONS: Final = 5_000
"""Of two groups in one metric, in one answer."""


class Comparison(msgspec.Struct, frozen=True, rename="camel"):
    """Two groups in one metric."""

    benchmark: str
    metric: str
    method: str
    """Empty where each group has one method."""
    unit: str
    first: str
    second: str
    lower_cases: int
    """Cases in which `first` has the lower mean; 0 where values do not pair, as the next two."""
    higher_cases: int
    cases: int
    result: TwoGroups
    corrected_p_value: float | None
    """By Holm, over all tests of the same answer."""
    shown: bool
    """A difference is shown at 5 %."""
    effect: str
    """negligible, small, medium or large."""
    sentence: str
    averaged: Averaged = Averaged()
    """How many rows the value of a case is the mean of: rows of a case are not independent."""


class Overall(msgspec.Struct, frozen=True, rename="camel"):
    """More than two groups in one metric, or the levels of one factor."""

    benchmark: str
    metric: str
    method: str
    factor: str
    """Empty: the groups themselves."""
    groups: tuple[str, ...]
    result: Variance
    corrected_p_value: float | None
    shown: bool
    sentence: str


class Comparisons(msgspec.Struct, frozen=True, rename="camel"):
    """All that groups of rows show."""

    comparisons: tuple[Comparison, ...]
    overall: tuple[Overall, ...]
    notes: tuple[str, ...]
    """What was left out, and why."""


def compare_rows(
    groups: Mapping[str, Sequence[ResultRow]], pairing: Pairing = "auto", scale: Scale | None = None, factor_names: Sequence[str] = ()
) -> Comparisons:
    """Return each metric's comparison of each two groups, and an analysis of variance of more than two groups and of factors.

    scale None: ratios where all values are above 0 and of several cases, else differences.
    Raises ValueError for mismatched units, no metric in common, and what the tests refuse.
    """
    table = by_metric(groups)
    notes = _missing(table, tuple(groups))
    together = {key: members for key, members in table.items() if len(members) > 1}
    _check_number(together)
    if not together and not factor_names:
        raise ValueError("the groups have no metric in common; compare files of the same benchmark")
    pairs = [_two(key, members, names, pairing, scale) for key, members in together.items() for names in combinations(members, 2)]
    several = [_several(key, members, pairing, scale) for key, members in together.items() if len(members) > 2]
    if factor_names:
        several += [each for key, members in table.items() for each in _by_factors(key, members, factor_names, scale)]
    return _corrected(pairs, several, notes)


def _check_number(together: Mapping[MetricKey, Mapping[str, Sequence[ResultRow]]]) -> None:
    """Raise ValueError, before any test, for more comparisons than can be read."""
    most = max(map(len, together.values()), default=0)
    if most > MAX_GROUPS:
        raise ValueError(f"{most:,} groups; compare at most {MAX_GROUPS}: name fewer files, or write --by with a column of fewer values")
    count = sum(comb(len(members), 2) for members in together.values())
    if count > MAX_COMPARISONS:
        raise ValueError(f"{count:,} comparisons of {len(together):,} metrics; at most {MAX_COMPARISONS:,} fit an answer: write --metric")


def _corrected(pairs: Sequence[Comparison], several: Sequence[Overall], notes: Sequence[str]) -> Comparisons:
    """All tests of one answer are one family."""
    corrected = holm([*(each.result.p_value for each in pairs), *(each.result.p_value for each in several)])
    return Comparisons(
        tuple(_judged(each, p_value) for each, p_value in zip(pairs, corrected, strict=False)),
        tuple(_judged_overall(each, p_value) for each, p_value in zip(several, corrected[len(pairs) :], strict=True)),
        tuple(notes),
    )


def _missing(table: Mapping[MetricKey, Mapping[str, Sequence[ResultRow]]], names: tuple[str, ...]) -> list[str]:
    """One note for each metric that some group lacks."""
    notes = []
    for key, members in table.items():
        without = [name for name in names if name not in members]
        if without and len(names) > 1:
            shown = " ".join(part for part in (key.benchmark, key.method, key.metric) if part)
            notes.append(f"{shown}: no rows in {', '.join(without)}")
    return notes


def _two(
    key: MetricKey, members: Mapping[str, Sequence[ResultRow]], names: tuple[str, str], pairing: Pairing, scale: Scale | None
) -> Comparison:
    rows = [members[name] for name in names]
    aligned = align(rows, pairing)
    chosen = scale or _scale(rows, aligned is not None)
    if aligned is not None:
        result, cases, averaged = compare_pairs(aligned.values[:, 0], aligned.values[:, 1], chosen), _cases(aligned), aligned.averaged
    else:
        (first, one), (second, other) = map(independent_values, rows)
        averaged = Averaged(min(one.fewest, other.fewest), max(one.most, other.most), one.what if one.what == other.what else "values")
        result, cases = compare_groups(first, second, chosen), (0, 0, 0)
    effect = magnitude(result.hedges_g, result.cliffs_delta)
    return Comparison(key.benchmark, key.metric, key.method, rows[0][0].unit, *names, *cases, result, None, False, effect, "", averaged)


def _several(key: MetricKey, members: Mapping[str, Sequence[ResultRow]], pairing: Pairing, scale: Scale | None) -> Overall:
    rows = list(members.values())
    aligned = align(rows, pairing)
    ratios = (scale or _scale(rows, aligned is not None)) == "ratio"
    if aligned is not None:
        result = blocked(_by_case(aligned) if ratios else aligned.values)
    else:
        values = [independent_values(each)[0] for each in rows]
        result = one_way([_logarithms(each) for each in values] if ratios else values)
    return Overall(key.benchmark, key.metric, key.method, "", tuple(members), result, None, False, "")


def _by_factors(key: MetricKey, members: Mapping[str, Sequence[ResultRow]], names: Sequence[str], scale: Scale | None) -> list[Overall]:
    rows = [(group, row) for group, each in members.items() for row in each]
    every = {name: [group if name == "group" else _level(row, name) for group, row in rows] for name in names}
    values, columns = _by_levels(rows, every)
    effects = factors(_logarithms(values) if (scale or _scale(list(members.values()), False)) == "ratio" else values, columns)
    return [
        Overall(key.benchmark, key.metric, key.method, name, tuple(sorted(set(columns[name]))), effect, None, False, "")
        for name, effect in effects.items()
    ]


def _by_levels(rows: Sequence[tuple[str, ResultRow]], columns: Mapping[str, Sequence[str]]) -> tuple[FloatArray, dict[str, list[str]]]:
    """(n,) values with their levels: of several cases, means of the rows with the same group, case and levels, which are not independent.

    Where cases alone are asked about, all rows are: those of a case say how much it varies.
    """
    if len({row.case for _, row in rows}) < 2 or set(columns) == {"case"}:
        return values_of([row for _, row in rows]), {name: list(levels) for name, levels in columns.items()}
    cells: dict[tuple[str, ...], list[float]] = {}
    for at, (group, row) in enumerate(rows):
        cells.setdefault((group, row.case, *(levels[at] for levels in columns.values())), []).append(row.value)
    means = np.array([float(np.mean(each)) for each in cells.values()])
    return means, {name: [cell[place] for cell in cells] for place, name in enumerate(columns, 2)}


def _level(row: ResultRow, name: str) -> str:
    if name not in row.columns:
        raise ValueError(f"factor {name!r} is no column of every row; write one of {', '.join(['group', *row.columns])[:400]}")
    return row.columns[name]


def _scale(groups: Sequence[Sequence[ResultRow]], paired: bool) -> Scale:
    """Ratios where several cases may be of different size and all values are above 0; in pairs a value may be 0."""
    rows = [row for each in groups for row in each]
    least = min(row.value for row in rows)
    return "ratio" if (least > 0.0 or (paired and least == 0.0)) and len({row.case for row in rows}) > 1 else "difference"


def _by_case(aligned: Aligned) -> FloatArray:
    """(n, k) logarithms, or values over the mean of their case where a value is 0."""
    if float(aligned.values.min()) > 0.0:
        return _logarithms(aligned.values)
    means = aligned.values.mean(axis=1, keepdims=True)
    shares: FloatArray = np.where(means > 0.0, aligned.values / np.where(means > 0.0, means, 1.0), 1.0)
    return shares


def _logarithms(values: FloatArray) -> FloatArray:
    """Raise ValueError for a value of 0 or less."""
    if float(values.min()) <= 0.0:
        raise ValueError(f"value {float(values.min()):g}: ratios need values above 0; compare differences")
    logarithms: FloatArray = np.log(values)
    return logarithms


def _cases(aligned: Aligned) -> tuple[int, int, int]:
    """Cases with the first group lower, with it higher, and all; by the mean over seeds."""
    sums: dict[str, float] = {}
    for (first, second), case in zip(aligned.values, aligned.cases, strict=True):
        sums[case] = sums.get(case, 0.0) + float(first - second)
    return sum(each < 0.0 for each in sums.values()), sum(each > 0.0 for each in sums.values()), len(sums)


def _judged(one: Comparison, corrected: float | None) -> Comparison:
    text = sentence((one.first, one.second), one.unit, one.result, corrected, (one.lower_cases, one.higher_cases, one.cases), one.averaged)
    is_shown = corrected is not None and corrected <= LEVEL and not one.result.reason
    return msgspec.structs.replace(one, corrected_p_value=corrected, shown=is_shown, sentence=text)


def _judged_overall(one: Overall, corrected: float | None) -> Overall:
    text = factor_sentence(one.factor, one.result, corrected) if one.factor else overall_sentence(one.groups, one.result, corrected)
    is_shown = corrected is not None and corrected <= LEVEL
    return msgspec.structs.replace(one, corrected_p_value=corrected, shown=is_shown, sentence=text)
