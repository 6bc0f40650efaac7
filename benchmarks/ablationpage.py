"""Tables of the ablation, for a terminal and for docs/benchmarks/ablation.md, from its rows."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks import common


def table(rows: Sequence[common.Row], kinds: dict[str, str]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Header and lines: one for each module and group of cases, the mean loss of each kind; bold above noise."""
    figures = {(row.method, row.case, row.metric): row.value for row in rows if row.metric.endswith((", mean loss", ", noise"))}
    lines = []
    for method, group in dict.fromkeys((method, group) for method, group, _ in figures):
        cells = []
        for kind in kinds:
            mean, noise = figures[method, group, f"{kind}, mean loss"], figures[method, group, f"{kind}, noise"]
            cells.append(f"**{mean:+.3g}**" if mean > noise else f"{mean:+.3g}")
        lines.append((method, group, *cells))
    return ("search", "cases", *(f"{kind}, {unit}" for kind, unit in kinds.items())), lines


def page(rows: Sequence[common.Row], kinds: dict[str, str], command: str) -> str:
    """The page docs/benchmarks/ablation.md; kinds: unit of each kind of loss."""
    header, lines = table(rows, kinds)
    goals = [row for row in rows if row.metric == "goal"]
    return "\n".join(
        [
            "# Ablation of the placement search",
            "",
            f"Printed by `{command}`.",
            "Each line compares the search without one module with the search with all of them: mean losses, positive is worse.",
            "Bold losses are above noise.",
            "Noise is the larger of three standard errors and the upper end of the same loss for another seed.",
            "Times are processor time; differences below 5 % count as noise.",
            "",
            *_markdown(header, lines),
            "",
            "## Goals",
            "A module pays where its least noise / loss is at most 1.",
            "A miss means that these cases do not show it: where few cases lose, noise is large.",
            "",
            *_markdown(
                ("module", "noise / loss", "pays"), [(row.method, f"{row.value:.3g}", "yes" if row.holds else "**NO**") for row in goals]
            ),
            "",
        ]
    )


def _markdown(header: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (header, ["---"] * len(header), *lines)]
