"""What can be written after `compare`; as parser.py, nothing heavy is imported."""

from __future__ import annotations

import argparse
from typing import Final

from hyperscale.cli.arguments import parser as common

GROUPINGS: Final = ("planner", "architecture", "products", "method")
"""Columns of hyperscale.control.history.runs_table by which runs are put into groups."""
EXIT_CODES: Final = "exit codes: 0 done, whatever it shows, 2 bad input (one line says what to write instead)"
SCALES: Final = ("ratio", "difference")
"""hyperscale.evaluate.statistics.group_pair.Scale."""


def add(commands: argparse._SubParsersAction[common.Parser], prog: str) -> None:
    """The command."""
    example = (
        f"{prog} compare before.json after.json\n"
        f"  {prog} compare rows.json --by method --metric epoch_seconds -o json\n"
        f"  {prog} compare --history sqlite:////var/lib/hyperscale/history.sqlite --group-by planner"
    )
    summary = "compare result files, or groups of runs in history, and say what differs"
    command = common._command(commands, "compare", summary, example, EXIT_CODES)
    command.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        help="rows of a benchmark (JSON, CSV), a table, or a list of numbers; with --history: names of groups (default: all)",
    )
    command.add_argument("--by", metavar="COLUMN", help="put rows into groups by this column, e.g. method, instead of by file")
    command.add_argument("--column", metavar="NAME", help="column of a table that is compared (default: the only one with numbers)")
    command.add_argument("--metric", action="append", metavar="NAME", help="compare this metric alone; may be given several times")
    command.add_argument("--case", action="append", metavar="NAME", help="compare this case alone; may be given several times")
    _add_tests(command)
    command.add_argument("--regress", metavar="COLUMN", help="fit this numeric column by those of --on (least squares)")
    command.add_argument("--on", metavar="COLUMN,…", help="numeric columns that explain the one of --regress")
    command.add_argument("--history", metavar="URL", help="database of finished runs instead of files, e.g. sqlite:////FILE")
    command.add_argument(
        "--group-by", choices=GROUPINGS, default=GROUPINGS[0], help="what puts runs of history into groups (default: %(default)s)"
    )
    command.add_argument(
        "--limit", type=common._run_count, default=10_000, metavar="COUNT", help="newest runs that are read (default: %(default)s)"
    )
    common._add_output(command, ("table", "json"))


def _add_tests(command: common.Parser) -> None:
    """How values are compared."""
    pairing = command.add_mutually_exclusive_group()
    pairing.add_argument(
        "--paired", action="store_true", help="values must pair: by case, of one case by seed, else by their place in the file"
    )
    pairing.add_argument("--unpaired", action="store_true", help="values never pair (default: cases do, and seeds of one case)")
    command.add_argument(
        "--scale", choices=SCALES, help="test ratios or differences (default: ratios of positive values of several cases, else differences)"
    )
    command.add_argument(
        "--factor",
        action="append",
        metavar="COLUMN",
        help="say what this column explains (ANOVA); may be given several times; group: files",
    )
