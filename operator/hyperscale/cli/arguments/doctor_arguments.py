"""What can be written after `hyperscale doctor`."""

from __future__ import annotations

import argparse
from typing import Final

from hyperscale.cli.arguments import parser
from hyperscale.cli.arguments.parser import Parser

EXIT_CODES: Final = (
    "exit codes: 0 nothing wrong (notes at most), 3 warnings, 4 errors, 2 bad input (one line says what to write instead); "
    "an API server that does not answer is an error"
)


def add(commands: argparse._SubParsersAction[Parser], prog: str) -> None:
    """The command's parser."""
    example = f"{prog} doctor\n  {prog} doctor --prometheus http://localhost:9090 -o json"
    summary = "check the installation: every finding comes with its likely cause and what fixes it"
    command = parser._command(commands, "doctor", summary, example, EXIT_CODES)
    parser._add_cluster(command)
    command.add_argument(
        "--history-url", metavar="URL", help="database of finished runs to try from here (default: the operator's, by its Service)"
    )
    command.add_argument(
        "--timeout", type=parser._positive_seconds, default=10.0, metavar="SECONDS", help="longest wait for one answer (default: 10)"
    )
    parser._add_output(command, ("table", "json"))
