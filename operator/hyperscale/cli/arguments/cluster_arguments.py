"""What can be written after `doctor` and `convert`; as parser.py, nothing heavy is imported."""

from __future__ import annotations

import argparse
from typing import Final

from hyperscale.cli.arguments import parser
from hyperscale.cli.arguments.parser import Parser

DOCTOR_EXIT_CODES: Final = (
    "exit codes: 0 nothing wrong (notes at most), 3 warnings, 4 errors, 2 bad input (one line says what to write instead); "
    "an API server that does not answer is an error"
)
CONVERT_EXIT_CODES: Final = (
    "exit codes: 0 done, 1 --check found objects with former fields, 2 bad input (one line says which field, and what to write instead)"
)


def add(commands: argparse._SubParsersAction[Parser], prog: str) -> None:
    """The two commands."""
    _add_doctor(commands, prog)
    _add_convert(commands, prog)


def _add_doctor(commands: argparse._SubParsersAction[Parser], prog: str) -> None:
    example = f"{prog} doctor\n  {prog} doctor --prometheus http://localhost:9090 -o json"
    summary = "check the installation: every finding comes with its likely cause and what fixes it"
    command = parser._command(commands, "doctor", summary, example, DOCTOR_EXIT_CODES)
    parser._add_cluster(command)
    command.add_argument(
        "--history-url", metavar="URL", help="database of finished runs to try from here (default: the operator's, by its Service)"
    )
    command.add_argument(
        "--timeout", type=parser._positive_seconds, default=10.0, metavar="SECONDS", help="longest wait for one answer (default: 10)"
    )
    parser._add_output(command, ("table", "json"))


def _add_convert(commands: argparse._SubParsersAction[Parser], prog: str) -> None:
    example = (
        f"{prog} convert -f jobs.yaml --out converted.yaml\n  {prog} convert --check\n  {prog} convert --live --backup hyperscale-backup"
    )
    summary = "give jobs and policies the field names of this version, in files or in a cluster"
    command = parser._command(commands, "convert", summary, example, CONVERT_EXIT_CODES)
    where = command.add_mutually_exclusive_group(required=True)
    where.add_argument("-f", "--file", metavar="FILE", help="YAML or JSON with any number of objects; - reads standard input")
    where.add_argument("--live", action="store_true", help="convert the objects of a cluster whose operator is scaled to 0; needs --backup")
    where.add_argument("--check", action="store_true", help="change nothing; list the objects of a cluster that have former fields")
    command.add_argument(
        "--backup", metavar="DIR", help="with --live: folder for every object as it was, one file each, made before any write"
    )
    command.add_argument("--out", metavar="FILE", default="-", help="with -f: file to write (default: standard output)")
    parser._add_cluster(command, prometheus=False)
    parser._add_output(command, ("table", "json"))
