"""The answer of `hyperscale compare`, as JSON and as tables."""

from __future__ import annotations

from typing import Final

import msgspec

from hyperscale.cli.text_tables import bullets, counted, printable, table
from hyperscale.evaluate.statistics.factor_analysis import Variance
from hyperscale.evaluate.statistics.group_pair import TwoGroups
from hyperscale.evaluate.statistics.linear_fit import LinearFit
from hyperscale.evaluate.statistics.row_comparison import Comparison, Overall
from hyperscale.evaluate.statistics.wording import averaged_text

SHORT: Final = {
    "Wilcoxon signed-rank test": "Wilcoxon",
    "Mann-Whitney U test": "Mann-Whitney",
    "Kruskal-Wallis test": "Kruskal-Wallis",
    "Friedman test": "Friedman",
}
"""Names of tests in the table."""


class GroupSize(msgspec.Struct, frozen=True, rename="camel"):
    """One group, and how many rows it has."""

    name: str
    rows: int


class CompareAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """What `-o json` prints."""

    groups: tuple[GroupSize, ...]
    comparisons: tuple[Comparison, ...]
    overall: tuple[Overall, ...]
    """Of more than two groups, and of factors."""
    regression: LinearFit | None
    notes: tuple[str, ...]
    """What was left out, and why."""


def lines(answer: CompareAnswer) -> list[str]:
    """Return the text of an answer: sentences first, figures below."""
    text = [printable("Groups: " + ", ".join(f"{group.name} ({counted(group.rows, 'row')})" for group in answer.groups))]
    if answer.comparisons or answer.overall:
        text.append("")
    text += [_labelled(each.benchmark, each.method, each.metric, each.sentence) for each in answer.overall]
    text += [_labelled(each.benchmark, each.method, each.metric, each.sentence) for each in answer.comparisons]
    if answer.comparisons:
        text += ["", *_comparisons(answer.comparisons)]
    if answer.overall:
        text += ["", *_overall(answer.overall)]
    if answer.regression is not None:
        text += ["", *_regression(answer.regression)]
    return [*text, *bullets("Notes", answer.notes)]


def _labelled(benchmark: str, method: str, metric: str, sentence: str) -> str:
    return printable(f"{' '.join(part for part in (benchmark, method, metric) if part)}: {sentence}")


def _comparisons(comparisons: tuple[Comparison, ...]) -> list[str]:
    header = ("METRIC", "METHOD", "FIRST", "SECOND", "MEANS", "ESTIMATE", "95 %", "N", "TESTS", "CORRECTED P", "HEDGES G", "CLIFF")
    return table(header, map(_cells, comparisons), right=frozenset({7, 9, 10, 11}))


def _cells(one: Comparison) -> tuple[str, ...]:
    two = one.result
    unit = f" {one.unit}" if one.unit else ""
    return (
        one.metric,
        one.method or "-",
        one.first,
        one.second,
        f"{two.first_mean:.4g}, {two.second_mean:.4g}{unit}",
        f"{'ratio' if two.scale == 'ratio' else 'difference'} {two.estimate:.4g}",
        "-" if two.low is None or two.high is None else f"{two.low:.4g} to {two.high:.4g}",
        _counts(one),
        _tests(two),
        _figure(one.corrected_p_value),
        _figure(two.hedges_g),
        f"{two.cliffs_delta:.3g}",
    )


def _counts(one: Comparison) -> str:
    """`36 pairs`, `9, 12`, or `36 cases of 5 seeds`."""
    two = one.result
    counts = f"{two.first_count} pairs" if two.paired else f"{two.first_count}, {two.second_count}"
    return counts if one.averaged.most == 1 else f"{counts.removesuffix(' pairs')} cases of {averaged_text(one.averaged)}"


def _overall(overall: tuple[Overall, ...]) -> list[str]:
    header = ("METRIC", "FACTOR", "LEVELS", "N", "TESTS", "CORRECTED P", "ETA SQUARED")
    rows = [
        (
            each.metric,
            each.factor or "group",
            str(each.result.levels),
            str(each.result.count),
            _tests(each.result),
            _figure(each.corrected_p_value),
            _figure(each.result.eta_squared),
        )
        for each in overall
    ]
    return table(header, rows, right=frozenset({2, 3, 5, 6}))


def _regression(line: LinearFit) -> list[str]:
    rows = [
        (slope.name, f"{slope.estimate:.4g}", f"{slope.error:.3g}", f"{slope.low:.4g} to {slope.high:.4g}", f"{slope.p_value:.3g}")
        for slope in line.slopes
    ]
    fitted = f"R squared {line.r_squared:.4g} (adjusted {line.adjusted_r_squared:.4g}) on {counted(line.count, 'row')}"
    head = f"{printable(line.explained)}: {fitted}"
    return [head, *table(("COLUMN", "SLOPE", "ERROR", "95 %", "P"), rows, right=frozenset({1, 2, 4}))]


def _tests(result: TwoGroups | Variance) -> str:
    """Each test with its own p value."""
    return ", ".join(f"{SHORT.get(test.name, test.name)} {test.p_value:.2g}" for test in result.tests) or "none"


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
