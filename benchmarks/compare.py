"""How often `hyperscale compare` states a difference where there is none, and how often it shows one that is there.

Null experiments over normal, lognormal, tied and unequal-variance data, in groups and in pairs, with one metric and with many.
Peers in the same run: Student's, Welch's and the paired t-test, Mann-Whitney and Wilcoxon of scipy at 5 %, without correction.
Seeds of a case alike: a method does each case better or worse by chance, in all seeds; taken for independent they state too much.
The goal of each kind is at most 5 %, with exact one-sided 95 % bounds (Clopper-Pearson) for each and for all together.
With --quick only all kinds together have a goal: 250 experiments of one kind scatter by 1.4 points.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from msgspec.structs import replace
from scipy import stats

from benchmarks.common import Row, goal, parser, report
from hyperscale.evaluate.statistics.binomial import upper_bound
from hyperscale.evaluate.statistics.result_rows import ResultRow
from hyperscale.evaluate.statistics.row_comparison import compare_rows
from hyperscale.model.graph import FloatArray

NAME: Final = "compare"
OURS: Final = "compare"
LEVEL: Final = 0.05
EXPERIMENTS: Final = 2000
QUICK_EXPERIMENTS: Final = 250
Groups = list[FloatArray]
Draw = Callable[[np.random.Generator], Groups]
Chance = np.random.Generator


def normal(chance: Chance, count: int, *, second: bool) -> FloatArray:
    """Normal values around 10."""
    return chance.normal(10.0, 1.0, count)


def lognormal(chance: Chance, count: int, *, second: bool) -> FloatArray:
    """Skewed values above 0."""
    return chance.lognormal(0.0, 1.0, count)


def tied(chance: Chance, count: int, *, second: bool) -> FloatArray:
    """Small counts, most of them tied."""
    return chance.poisson(1.5, count).astype(np.float64)


def unequal(chance: Chance, count: int, *, second: bool) -> FloatArray:
    """Normal values of one mean, the second group's spread three times the first one's."""
    return chance.normal(10.0, 3.0 if second else 1.0, count)


KINDS: Final = {"normal": normal, "lognormal": lognormal, "tied": tied, "unequal variance": unequal}


def groups_of(kind: str, shift: float = 0.0) -> Draw:
    """Two groups of 4 to 30 values each; `shift` in standard deviations is added to the second one."""

    def draw(chance: Chance) -> Groups:
        first, second = (KINDS[kind](chance, int(chance.integers(4, 31)), second=late) for late in (False, True))
        return [first, second + shift * float(np.std(second))]

    return draw


def pairs_of(kind: str, shift: float = 0.0) -> Draw:
    """6 to 30 pairs with an effect of the case in both, of very different size from case to case where values stay above 0."""

    def draw(chance: Chance) -> Groups:
        count = int(chance.integers(6, 31))
        first, second = (KINDS[kind](chance, count, second=late) for late in (False, True))
        second = second + shift * float(np.std(second - first))
        if kind in ("lognormal",):
            size = np.exp(chance.normal(0.0, 2.0, count))
            return [first * size, second * size]
        return [first, second]

    return draw


def rows_of(values: FloatArray, metric: str, paired: bool) -> list[ResultRow]:
    """Rows as a benchmark writes them; without pairs, no two rows of two groups share case and seed."""
    return [ResultRow(float(value), metric, "s", NAME, f"case {at}" if paired else "", "", "") for at, value in enumerate(values)]


def is_stated(groups: Groups, paired: bool) -> bool:
    """Whether `compare` states any difference between these groups."""
    answer = compare_rows({f"group {at}": rows_of(values, "time", paired) for at, values in enumerate(groups)})
    return any(each.shown for each in answer.comparisons) or any(each.shown for each in answer.overall)


def peers(groups: Groups, paired: bool) -> dict[str, bool]:
    """What tests of scipy state at 5 %."""
    first, second = groups
    if paired:
        tests = {
            "paired t-test": stats.ttest_rel(first, second).pvalue,
            "Wilcoxon": stats.wilcoxon(first, second, correction=True, method="asymptotic").pvalue,
        }
    else:
        tests = {
            "Student's t-test": stats.ttest_ind(first, second).pvalue,
            "Welch's t-test": stats.ttest_ind(first, second, equal_var=False).pvalue,
            "Mann-Whitney": stats.mannwhitneyu(first, second).pvalue,
        }
    return {name: bool(p_value <= LEVEL) for name, p_value in tests.items()}


def count_two(draw: Draw, paired: bool, experiments: int, seed: int) -> dict[str, int]:
    """In how many experiments each method states a difference."""
    chance = np.random.default_rng(seed)
    counts: dict[str, int] = {OURS: 0}
    for _ in range(experiments):
        groups = draw(chance)
        stated = {OURS: is_stated(groups, paired), **peers(groups, paired)}
        for method, yes in stated.items():
            counts[method] = counts.get(method, 0) + yes
    return counts


def count_many(experiments: int, seed: int, paired: bool) -> int:
    """In how many experiments any difference is stated among four groups, one of each size, of a kind drawn by chance."""
    chance, stated = np.random.default_rng(seed), 0
    kinds = list(KINDS)
    for _ in range(experiments):
        kind = KINDS[kinds[int(chance.integers(len(kinds)))]]
        count = int(chance.integers(6, 21))
        sizes = [count] * 4 if paired else chance.integers(4, 21, 4).tolist()
        stated += is_stated([kind(chance, size, second=at % 2 == 1) for at, size in enumerate(sizes)], paired)
    return stated


def count_metrics(experiments: int, seed: int) -> int:
    """In how many experiments a difference is stated in any of eight metrics, of several cases and seeds, in pairs."""
    chance, stated = np.random.default_rng(seed), 0
    for _ in range(experiments):
        groups: dict[str, list[ResultRow]] = {"first": [], "second": []}
        for metric in range(8):
            for case in range(12):
                size = float(np.exp(chance.normal(0.0, 2.0)))
                for name, rows in groups.items():
                    values = size * chance.lognormal(0.0, 0.2, 3)
                    rows += [
                        ResultRow(float(value), f"metric {metric}", "s", NAME, f"case {case}", name, str(at))
                        for at, value in enumerate(values)
                    ]
        stated += any(each.shown for each in compare_rows(groups).comparisons)
    return stated


def clustered(chance: Chance, *, same_cases: bool, shift: float = 0.0) -> dict[str, list[ResultRow]]:
    """Two groups of 6 to 20 cases with 2 to 8 seeds each. A method does each case better or worse by chance, which all its seeds share.

    same_cases: both groups have the same cases; else each has cases of its own
    shift:      of ln(value) in the second group
    """
    groups: dict[str, list[ResultRow]] = {"first": [], "second": []}
    cases, seeds = int(chance.integers(6, 21)), int(chance.integers(2, 9))
    sizes = chance.normal(0.0, 2.0 if same_cases else 0.3, cases)
    for at, (name, rows) in enumerate(groups.items()):
        own = sizes if same_cases else chance.normal(0.0, 0.3, cases)
        middles = own + chance.normal(0.0, 0.15, cases) + at * shift
        values = np.exp(middles[:, None] + chance.normal(0.0, 0.05, (cases, seeds)))
        for (case, seed), value in np.ndenumerate(values):
            rows.append(ResultRow(float(value), "time", "s", NAME, f"case {case}{'' if same_cases else name}", name, str(seed)))
    return groups


def count_clustered(experiments: int, seed: int, *, same_cases: bool, shift: float = 0.0) -> dict[str, int]:
    """In how many experiments each method states a difference; the peers take each seed for independent."""
    chance, counts = np.random.default_rng(seed), {OURS: 0}
    for _ in range(experiments):
        groups = clustered(chance, same_cases=same_cases, shift=shift)
        values = [np.log([row.value for row in rows]) for rows in groups.values()]
        stated = {OURS: any(each.shown for each in compare_rows(groups).comparisons)}
        stated |= {f"{name}, all seeds": yes for name, yes in peers(values, same_cases).items()}
        for method, yes in stated.items():
            counts[method] = counts.get(method, 0) + yes
    return counts


def count_clustered_factor(experiments: int, seed: int) -> int:
    """In how many experiments the group is said to explain values, next to the case, where seeds repeat each case."""
    chance, stated = np.random.default_rng(seed), 0
    for _ in range(experiments):
        groups = clustered(chance, same_cases=True)
        named = {name: [replace(row, columns={"case": row.case}) for row in rows] for name, rows in groups.items()}
        overall = compare_rows(named, factor_names=("group", "case")).overall
        stated += any(each.shown for each in overall if each.factor == "group")
    return stated


def count_factors(experiments: int, seed: int) -> int:
    """In how many experiments either of two factors is said to explain values that neither does, of a kind drawn by chance."""
    chance, stated = np.random.default_rng(seed), 0
    kinds = list(KINDS)
    for _ in range(experiments):
        kind = KINDS[kinds[int(chance.integers(len(kinds)))]]
        rows = []
        for level, size in enumerate(chance.integers(4, 16, 3).tolist()):
            values = kind(chance, size, second=level == 1)
            labels = chance.integers(0, 2, size)
            labels[:2] = (0, 1)
            rows += [
                ResultRow(float(value), columns={"level": str(level), "label": str(label)})
                for value, label in zip(values, labels, strict=True)
            ]
        stated += any(each.shown for each in compare_rows({"all": rows}, factor_names=("level", "label")).overall)
    return stated


def null_rows(case: str, counts: dict[str, int], experiments: int, seed: int) -> list[Row]:
    """Rates of false statements with the exact bound, and the goal of ours."""
    rows = []
    for method, count in counts.items():
        rows.append(Row(NAME, case, method, "false positives", count / experiments, "share", seed))
    rows.append(Row(NAME, case, OURS, "upper bound 95 %", upper_bound(counts[OURS], experiments), "share", seed))
    if experiments >= EXPERIMENTS:
        rows.append(goal(NAME, f"false positives, {case}", OURS, counts[OURS] / experiments, LEVEL, "share"))
    return rows


def null_counts(experiments: int, seed: int) -> dict[str, dict[str, int]]:
    """By case, in how many experiments without a difference each method states one."""
    designs = [(f"{kind}, {'pairs' if paired else 'groups'}", kind, paired) for paired in (False, True) for kind in KINDS]
    counts = {
        case: count_two((pairs_of if paired else groups_of)(kind), paired, experiments, seed + at)
        for at, (case, kind, paired) in enumerate(designs)
    }
    several = {
        "any of 4 groups": count_many(experiments, seed + 100, paired=False),
        "any of 4 groups, pairs": count_many(experiments, seed + 101, paired=True),
        "any of 8 metrics, pairs": count_metrics(experiments, seed + 102),
        "any of 2 factors": count_factors(experiments, seed + 103),
        "seeds of a case alike, factor": count_clustered_factor(experiments, seed + 105),
    }
    counts |= {case: {OURS: count} for case, count in several.items()}
    for name, same_cases in {"pairs": True, "groups": False}.items():
        counts[f"seeds of a case alike, {name}"] = count_clustered(experiments, seed + 104, same_cases=same_cases)
    return counts


def power_rows(experiments: int, seed: int) -> list[Row]:
    """How often a difference that is there is shown."""
    shown: dict[str, dict[str, int]] = {}
    for paired, shift in ((False, 1.0), (True, 0.8)):
        for kind in KINDS:
            draw = (pairs_of if paired else groups_of)(kind, shift)
            case = f"{kind}, {'pairs' if paired else 'groups'}, shift of {shift:g} standard deviations"
            shown[case] = count_two(draw, paired, experiments, seed + 200)
    clusters = count_clustered(experiments, seed + 201, same_cases=True, shift=0.15)
    shown["seeds of a case alike, pairs, shift of 15 %"] = {OURS: clusters[OURS]}
    return [
        Row(NAME, case, method, "shown", count / experiments, "share", seed)
        for case, counts in shown.items()
        for method, count in counts.items()
    ]


def rows_of_all(experiments: int, seed: int) -> list[Row]:
    """All rows."""
    by_case = null_counts(experiments, seed)
    rows = [row for case, counts in by_case.items() for row in null_rows(case, counts, experiments, seed)]
    total, everything = sum(counts[OURS] for counts in by_case.values()), experiments * len(by_case)
    rows.append(goal(NAME, f"false positives, all {everything}", OURS, total / everything, LEVEL, "share"))
    rows.append(goal(NAME, f"upper bound 95 %, all {everything}", OURS, upper_bound(total, everything), LEVEL, "share"))
    return [*rows, *power_rows(max(100, experiments // 4), seed)]


def main() -> int:
    """Draw, compare, report."""
    arguments = parser(__doc__ or "")
    arguments.add_argument("--seeds", type=int, default=1, metavar="N", help="how often all is drawn again (default: %(default)s)")
    chosen = arguments.parse_args()
    experiments = QUICK_EXPERIMENTS if chosen.quick else EXPERIMENTS
    warnings.simplefilter("ignore", RuntimeWarning)  # scipy's, where all values are tied
    return report([row for seed in range(chosen.seeds) for row in rows_of_all(experiments, 1000 * seed)], chosen.json)


if __name__ == "__main__":
    sys.exit(main())
