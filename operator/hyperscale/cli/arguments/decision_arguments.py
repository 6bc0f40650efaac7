"""What can be written after `approve`, `reject`, `prefer` and `preferences`; as parser.py, nothing heavy is imported."""

from __future__ import annotations

import argparse
from typing import Final

from hyperscale.cli.arguments import parser
from hyperscale.cli.arguments.parser import Parser

APPROVE_EXIT_CODES: Final = "exit codes: 0 approved, 2 no such plan waits for approval (one line says why)"
REJECT_EXIT_CODES: Final = "exit codes: 0 rejected, 2 no such plan waits for a person (one line says why)"
PREFERENCES_EXIT_CODES: Final = "exit codes: 0 done, 2 bad input (one line says what to write instead)"
PREFER_EXIT_CODES: Final = "exit codes: 0 preferred, 2 no such alternative, or no plan waits for a person (one line says why)"


def add(commands: argparse._SubParsersAction[Parser], prog: str) -> None:
    """The four commands."""
    _add_approve(commands, prog)
    _add_reject(commands, prog)
    _add_prefer(commands, prog)
    _add_preferences(commands, prog)


def _add_approve(commands: argparse._SubParsersAction[Parser], prog: str) -> None:
    example = f'{prog} approve cora -n team-a --plan 29467466b70e7b96 --because "checked with the team"'
    summary = "let the plan of a job with startPolicy: Manual start"
    command = parser._command(commands, "approve", summary, example, APPROVE_EXIT_CODES)
    _add_job(command)
    command.add_argument("--plan", metavar="ID", help="approve only this plan; without it the one that waits")
    _add_because(command)
    command.add_argument("--dry-run", action="store_true", help="write nothing: show the plan, what it changes and its alternatives")
    _add_end(command)


def _add_reject(commands: argparse._SubParsersAction[Parser], prog: str) -> None:
    example = f'{prog} reject cora -n team-a --because "the A100 are for the deadline"'
    command = parser._command(commands, "reject", "keep the plan that waits for a person from starting", example, REJECT_EXIT_CODES)
    _add_job(command)
    command.add_argument("--plan", metavar="ID", help="reject only this plan; without it the one that waits")
    _add_because(command)
    _add_end(command)


def _add_prefer(commands: argparse._SubParsersAction[Parser], prog: str) -> None:
    example = f'{prog} prefer cora 5bd07a8e5bb24a1f -n team-a --because "cost matters more this week"'
    command = parser._command(commands, "prefer", "make an alternative the plan of a job that waits", example, PREFER_EXIT_CODES)
    _add_job(command)
    command.add_argument("alternative", metavar="PLAN", help="id of the alternative, as `explain` shows it")
    _add_because(command)
    command.add_argument("--approve", action="store_true", help="approve it too: it starts where it still fits")
    command.add_argument("--dry-run", action="store_true", help="write nothing: show what it changes")
    _add_end(command)


def _add_preferences(commands: argparse._SubParsersAction[Parser], prog: str) -> None:
    example = f"{prog} preferences -n team-a\n  {prog} preferences -n team-a --set time=0.2,cost=0.6,risk=0.2"
    summary = "show or change what the people of a namespace weigh time, cost and risk by"
    command = parser._command(commands, "preferences", summary, example, PREFERENCES_EXIT_CODES)
    command.add_argument("-n", "--namespace", metavar="NAME", help="only this namespace (default: all; a change needs one)")
    command.add_argument("--url", metavar="URL", help="database of history (default: $HYPERSCALE_HISTORY_URL)")
    command.add_argument("--policy", metavar="FILE", help="PlannerPolicy whose bounds the weights keep (default: the built-in bounds)")
    command.add_argument(
        "-f", "--filename", metavar="FILE", help="jobs that wait now, as `kubectl get gnntj -A -o json` prints them: what to ask next"
    )
    change = command.add_mutually_exclusive_group()
    change.add_argument("--forget", metavar="ANSWER", help="take an answer back; it stays in history and counts no more")
    change.add_argument("--recall", metavar="ANSWER", help="let a forgotten answer count again")
    change.add_argument("--set", metavar="WEIGHTS", help="fix the weights, e.g. time=0.2,cost=0.6,risk=0.2; answers no longer move them")
    change.add_argument("--clear", action="store_true", help="let answers reveal the weights again")
    command.add_argument("--because", metavar="TEXT", help="why, for others to read")
    parser._add_output(command, ("table", "json"))


def _add_job(command: Parser) -> None:
    command.add_argument("job", metavar="JOB", help="name of the GNNTrainingJob")
    command.add_argument("-n", "--namespace", metavar="NAME", help="namespace of the job (default: that of the kubeconfig context)")


def _add_because(command: Parser) -> None:
    command.add_argument("--because", metavar="TEXT", help="why, for others to read; an annotation of the job")


def _add_end(command: Parser) -> None:
    parser._add_cluster(command, prometheus=False)
    parser._add_output(command, ("table", "json"))
