"""A benchmark's page in docs/, from its rows."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence

from benchmarks.common import Row
from benchmarks.summary import GOAL_HEADER, HEADER, goal_cells, lines, markdown

INTERVALS = (
    "Means over seeds with 95 % intervals (percentile bootstrap of the mean, 2,000 resamples, fixed seed). "
    "`n` is the number of measured cases behind a line. Ratios are ours over the other's: below 1 we are better."
)


def page(title: str, suites: Mapping[str, str], rows: Sequence[Row], notes: Sequence[str] = ()) -> str:
    """Markdown: command and machine, goals, misses, notes, one section a suite."""
    parts = [f"# {title}", "Written by the command below; edit the benchmark, not this page.", *_run(rows), INTERVALS]
    goals = [row for row in rows if row.metric == "goal"]
    if goals:
        parts += ["## Goals", markdown(("suite", *GOAL_HEADER), [[row.benchmark, *goal_cells(row)] for row in goals]), _missed(goals)]
    parts += notes
    for name, sentence in suites.items():
        figures = [line.cells() for line in lines(row for row in rows if row.benchmark == name)]
        if figures:
            parts += [f"## {name}", sentence, "<details><summary>All figures</summary>", markdown(HEADER, figures), "</details>"]
    return "\n\n".join(parts) + "\n"


def _run(rows: Sequence[Row]) -> list[str]:
    commands = [f"    {row.method}" for row in rows if row.metric == "command"]
    machines = [row.method for row in rows if row.metric == "machine"]
    return (["\n".join(commands)] if commands else []) + ([f"Machine: {'; '.join(sorted(set(machines)))}."] if machines else [])


def _missed(goals: Sequence[Row]) -> str:
    missed = [
        f"* {row.benchmark}, {row.case}, {row.method}: {row.value:.4g} {row.unit}, goal {row.limit:.4g}" for row in goals if not row.holds
    ]
    return "\n".join([f"Missed, {len(missed)} of {len(goals)}:", "", *missed]) if missed else f"All {len(goals)} goals hold."


def described(title: str, methods: Mapping[str, Callable[..., object]]) -> str:
    """A section that says what each method does, in the first sentences of its own documentation."""
    told = [f"* **{name}**: {' '.join((inspect.getdoc(method) or '').split())}" for name, method in methods.items()]
    return "\n".join([f"## {title}", "", *told])


def told_by(title: str, document: str | None) -> str:
    """A section with a module's own documentation; what it lays out in columns stays as it is."""
    paragraphs = [inspect.cleandoc(document or "")]
    return "\n\n".join([f"## {title}", *("```text\n" + text + "\n```" for text in paragraphs)])
