"""Tables of the stream benchmark, for a terminal and for docs/benchmarks/streams.md, from its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from benchmarks.clusterhistory import CLUSTERS
from benchmarks.common import Row, table
from benchmarks.recordedstreams import TRACES
from benchmarks.summary import GOAL_HEADER, figure, goal_cells, markdown

HEADER: Final = (
    *("method", "/ tuned rule", "95 % interval", "p", "wins", "worst", "/ operator's rule", "/ shortest first"),
    *("slowdown", "p95", "communication"),
)
WAIT: Final = "longest wait / operator's rule"
OTHER: Final = "other clusters"
SHORTEST_BOUND: Final = "shortest starvation bound"
FURTHER: Final = "further draws"
"""Ends the names of their cases."""
ALONE: Final = "every job alone (bound)"
"""No policy is better: each job at once, on the empty cluster, with its best count. Its communication is not known."""
Section = tuple[str, str, Sequence[str], list[list[str]]]
"""Title, sentence, header, cells."""


def text(rows: Sequence[Row]) -> str:
    """For a terminal."""
    return "\n\n".join(f"{title}\n{table(header, cells)}" for title, _, header, cells in sections(rows))


def page(rows: Sequence[Row]) -> str:
    """Markdown."""
    commands = [f"    {row.method}" for row in rows if row.metric == "command"]
    machines = sorted({row.method for row in rows if row.metric == "machine"})
    made = "Written by the command below (several sections: from their rows, `--from FILE ... --write-docs`); edit it, not this page."
    parts = ["# Streams of jobs", made, *commands]
    parts += [f"Machine: {'; '.join(machines)}."] if machines else []
    parts += [
        "Figures are geometric means over streams of the method's over the tuned rule's, stream by stream; below 1 the method is better. "
        "The tuned rule knows order, thrift and patience; the operator's rule also sizes, communication and running jobs that end soon. "
        "Intervals: percentile bootstrap over streams, 2,000 resamples. p: Wilcoxon's signed ranks, two-sided, uncorrected. "
        "Completion is the weighted mean of the seconds from arrival to end; slowdown is the mean of completion over the time alone on the "
        "empty cluster; p95 of completion unweighted; communication is mean seconds a job. Every method places with the same search.",
        missed(rows),
    ]
    for title, sentence, header, cells in sections(rows):
        parts += [f"## {title}", *([sentence] if sentence else []), markdown(header, cells)]
    return "\n\n".join(parts) + "\n"


def missed(rows: Sequence[Row]) -> str:
    """What does not hold, in words."""
    goals = [row for row in rows if row.metric == "goal"]
    lost = [f"* {row.case}, {row.method}: {figure(row.value)}, goal {figure(row.limit or 0.0)}" for row in goals if not row.holds]
    return "\n".join([f"{len(lost)} of {len(goals)} goals missed:", "", *lost]) if lost else f"All {len(goals)} goals hold."


def sections(rows: Sequence[Row]) -> list[Section]:
    """All tables that have rows."""
    figures = {(row.case, row.method, row.metric): row.value for row in rows}
    cases = dict.fromkeys(row.case for row in rows if row.metric == "streams")
    found = [
        *(_by_method(rows, figures, case) for case in cases),
        _waits(rows),
        _by_part(rows, figures),
        _guard(rows, "guard", "The guard", "Only whom it accepts is judged with bounds.", "chooser"),
        _guard(rows, OTHER, "The guard on other streams", "What it would say of streams of one kind only.", "agent"),
        _decisions(rows),
        ("The operator's rule", "order 0 is seconds / weight, 1 is area / weight.", ("knob", "value"), _knobs(rows)),
        ("Goals", "", GOAL_HEADER, [goal_cells(row) for row in rows if row.metric == "goal"]),
    ]
    return [section for section in found if section[3]]


def _by_method(rows: Sequence[Row], figures: dict[tuple[str, str, str], float], case: str) -> Section:
    """Every method on the streams of one case."""
    methods = list(dict.fromkeys(row.method for row in rows if row.case == case and row.metric == "streams"))
    count = int(figures[case, methods[0], "streams"])
    cells = [_cells(figures, case, method) for method in methods]
    return f"{case.capitalize()}, {count} streams", SENTENCES.get(case, ""), HEADER, cells


def _guard(rows: Sequence[Row], case: str, title: str, sentence: str, chooser: str) -> Section:
    """One line a chooser."""
    own = [row for row in rows if row.case == case and row.metric == "refused by"]
    figures = {(row.method, row.metric): row.value for row in rows if row.case == case}
    sources = list(dict.fromkeys(metric.split(": ")[0] for _, metric in figures if ": " in metric))
    names = ("ratio, upper limit", "worst stream", "longest wait")

    def cell(method: str, name: str) -> str:
        values = (figures.get((method, f"{source}: {name}")) for source in sources)
        return " · ".join(figure(value) for value in values if value is not None)

    def accepted(method: str) -> str:
        bound = figures.get((method, SHORTEST_BOUND))
        return "accepted" if bound is None else f"accepted, with starvation bounds from {figure(bound)} mean runs"

    cells = [[row.method, *(cell(row.method, name) for name in names), row.unit or accepted(row.method)] for row in own]
    return title, f"Figures of: {' · '.join(sources)}. {sentence}", (chooser, *names, "refused because"), cells


def _waits(rows: Sequence[Row]) -> Section:
    """Of the methods on later histories."""
    own = [row for row in rows if row.metric == WAIT]
    return (
        "Longest waits, / operator's rule",
        "Geometric mean over streams.",
        ("case", "method", "ratio"),
        [[row.case, row.method, figure(row.value)] for row in own],
    )


def _decisions(rows: Sequence[Row]) -> Section:
    return (
        "Time of a decision",
        "The simulator's figure holds the placement search of all candidates; Python is the operator's agent on ready plans.",
        ("method", "figure", "ms"),
        [[row.method, row.metric, figure(row.value)] for row in rows if row.case == "decision" and row.metric != "goal"],
    )


def _knobs(rows: Sequence[Row]) -> list[list[str]]:
    return [[row.method, figure(row.value)] for row in rows if row.metric == "knob"]


SENTENCES: Final = {
    **{
        f"later history, {cluster}": "Windows of the last part of a simulated history on one cluster; the first part taught, on it too "
        "(benchmarks/clusterhistory.py). The windows overlap: 450 runs hold three of them."
        for cluster in CLUSTERS
    },
    **dict.fromkeys(
        TRACES,
        "Recorded arrivals and GPU counts, sealed before the design (benchmarks/recordedstreams.py); families, loads and seeds vary.",
    ),
    **dict.fromkeys(
        (f"{trace}, {FURTHER}" for trace in TRACES),
        "The same arrivals and counts, with a cluster for every replicate: the 30 sealed ones have ten. Where a trace does not record its "
        "work, each has a draw of it too: behind the sealed ones stand two.",
    ),
    "ablation": "One thing changed in training, at a quarter of the steps (150), one seed each.",
    "durations ± 30 %": "Every method sees durations that are off by up to 30 %, uniformly, one factor a job.",
    "agents of stable-baselines3": "The same streams with exact durations: the papers' kind of agents, learned in minutes; no goals.",
    "contention": "Jobs whose nodes lie in several domains share uplinks and stretch each other's communication; no method foresees it.",
    "starvation bound": "Under every method a job goes first on good nodes once it has waited for 16 mean runs; after 32 it blocks others. "
    "One rule is strict after 16.",
    "tight starvation bound": "The same after 8 and 16 mean runs, which overrules every method for many jobs; no goal.",
}


def _cells(figures: dict[tuple[str, str, str], float], case: str, method: str) -> list[str]:
    def value(metric: str) -> float:
        return figures[case, method, metric]

    return [
        method,
        f"{value('completion / rule: ratio'):.3f}",
        f"{value('completion / rule: low'):.3f} – {value('completion / rule: high'):.3f}",
        f"{value('completion / rule: p'):.1g}",
        f"{100 * value('completion / rule: wins'):.0f} %",
        f"{value('completion / rule: worst'):.2f}",
        f"{value('completion / own rule: ratio'):.3f}",
        f"{value('completion / shortest: ratio'):.3f}",
        *(f"{value(f'{metric} / rule'):.3f}" for metric in ("slowdown", "p95")),
        "–" if method == ALONE else f"{value('communication / rule'):.3f}",
    ]


def _by_part(rows: Sequence[Row], figures: dict[tuple[str, str, str], float]) -> Section:
    """Ratio to the rule by family and load, one column a training seed."""
    plain = {row.case for row in rows if row.metric == "streams"}
    rows = [row for row in rows if row.case not in {"guard", OTHER}]
    groups = list(dict.fromkeys(row.case for row in rows if row.metric == "completion / rule: ratio" and row.case not in plain))
    methods = list(dict.fromkeys(row.method for row in rows if row.case in groups))
    cells = [
        [
            group,
            *(
                f"{figures[group, method, 'completion / rule: ratio']:.3f} (p {figures[group, method, 'completion / rule: p']:.1g})"
                for method in methods
            ),
        ]
        for group in groups
    ]
    return "By family and load, / tuned rule", "Exact durations.", ("", *methods), cells
