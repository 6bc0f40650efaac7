"""What can be written after `evaluate`; as parser.py, nothing heavy is imported."""

from __future__ import annotations

import argparse
import math
from typing import Final

from hyperscale.cli.arguments import parser
from hyperscale.cli.arguments.parser import Parser

STAGES: Final = ("proof", "forecast", "twin", "preflight")
"""hyperscale.evaluate.pipeline.run_stages.STAGES, and the one that must be named."""
SANDBOXES: Final = ("auto", "bubblewrap", "gvisor", "none")
MAX_FUTURES: Final = 1_000_000
MAX_RATE: Final = 1e6
MAX_SECONDS: Final = 10 * 365 * 86_400
EXIT_CODES: Final = (
    "exit codes: 0 every stage passed or warned, 1 the plan must not be carried out or none exists, 2 bad input (one line says what to "
    "write instead)"
)


def add(commands: argparse._SubParsersAction[Parser], prog: str) -> None:
    """The command."""
    _add_evaluate(commands, prog)


class _Once(argparse.Action):
    """Stores a value, and refuses another one instead of forgetting the first."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: object, option: str | None = None) -> None:
        """Store it."""
        if getattr(namespace, self.dest) is not None:
            raise argparse.ArgumentError(self, "was given twice; write one, and evaluate the others by calls of their own")
        setattr(namespace, self.dest, values)


def _add_evaluate(commands: argparse._SubParsersAction[Parser], prog: str) -> None:
    example = (
        f"{prog} evaluate -f job.yaml --snapshot cluster.json --deadline-seconds 86400\n"
        f"  {prog} evaluate -f job.yaml --plan plan.json --failures events.csv --report report.html"
    )
    summary = "prove a plan, forecast its end with its risks, and score it, before a GPU is spent"
    command = parser._command(commands, "evaluate", summary, example, EXIT_CODES)
    command.add_argument(
        "-f", "--filename", required=True, action=_Once, metavar="JOB.yaml", help="GNNTrainingJob as YAML or JSON; - reads standard input"
    )
    command.add_argument("--plan", metavar="PLAN.json", help="plan as `plan -o json` prints it; without it the job is planned first")
    command.add_argument(
        "--stage",
        action="append",
        choices=STAGES,
        help="only this stage; may be given several times (default: all but preflight, which runs the job's code)",
    )
    command.add_argument(
        "--deadline-seconds",
        type=_Number(1.0, MAX_SECONDS, "86400"),
        metavar="SECONDS",
        help="from the job's first epoch to when it must have ended (default: spec.runPolicy.activeDeadlineSeconds, less one restart)",
    )
    command.add_argument(
        "--model", metavar="FILE.py:NAME", help="the job's own torch module, to be tried; built-in networks are tried with --stage proof"
    )
    _add_failures(command)
    command.add_argument(
        "--futures", type=parser._Whole(100, MAX_FUTURES), default=10_000, metavar="N", help="futures played (default: %(default)s)"
    )
    _add_preflight(command)
    command.add_argument("--report", metavar="FILE", help="write one HTML page without scripts: plan, chances over time, stages")
    command.add_argument("--rewrite", metavar="FILE", help="write the job as it should be, and show the changes with their reasons")
    command.add_argument("--certificate", metavar="FILE", help="write a proof of the plan: FILE.v for Coq, FILE.lean for Lean 4")
    _add_planning(command)


def _add_failures(command: Parser) -> None:
    """What is assumed of nodes, and what finished runs teach."""
    rate = command.add_mutually_exclusive_group()
    rate.add_argument("--failures", metavar="FILE", help="CSV with location, insert, remove and cause: how nodes have failed")
    rate.add_argument(
        "--failure-rate",
        type=_Number(0.0, MAX_RATE, "6.5"),
        metavar="NUMBER",
        help="failures per 1,000 node-days (default: the policy's, else 6.50, as published for 16,000 A100)",
    )
    command.add_argument("--history", metavar="URL", help="database of finished runs (default: $HYPERSCALE_HISTORY_URL)")
    command.add_argument(
        "--restart-seconds",
        type=_Number(0.0, MAX_SECONDS, "120"),
        metavar="SECONDS",
        help="to create the pods again and load the graph (default: the policy's, 120)",
    )
    command.add_argument(
        "--repair-seconds",
        type=_Number(0.0, MAX_SECONDS, "14400"),
        metavar="SECONDS",
        help="until a failed node can take part again (default: the policy's, 14400)",
    )
    command.add_argument(
        "--write-seconds", type=_Number(0.0, MAX_SECONDS, "2"), metavar="SECONDS", help="of one checkpoint (default: the policy's, 2)"
    )


def _add_preflight(command: Parser) -> None:
    """How `--stage preflight` runs the job's own code on this machine."""
    command.add_argument(
        "--preflight-seconds",
        type=_Number(1.0, MAX_SECONDS, "45"),
        default=45.0,
        metavar="SECONDS",
        help="for all trials of the preflight together (default: 45)",
    )
    command.add_argument("--script-dir", default=".", metavar="DIR", help="folder that spec.model.script is relative to (default: .)")
    command.add_argument("--data", metavar="DIR", help="folder that stands for the dataset's volume; without it a generated graph does")
    command.add_argument(
        "--sandbox", choices=SANDBOXES, default="auto", help="what surrounds the job's code (default: auto: bubblewrap where it works)"
    )


def _add_planning(command: Parser) -> None:
    """As after `plan`."""
    command.add_argument(
        "--policy", metavar="FILE", help="PlannerPolicy as YAML or JSON; without it the cluster's, or built-in figures offline"
    )
    command.add_argument("--planner", metavar="NAME", help="planner to ask instead of the job's spec.planner, or Auto")
    command.add_argument(
        "--seed", type=parser._Whole(0, parser.MAX_SEED), metavar="N", help="seed of planners and futures (default: the job's, 0)"
    )
    command.add_argument("--workers", type=parser._Whole(1, parser.MAX_WORKERS), metavar="N", help="plan exactly N workers")
    command.add_argument(
        "--deadline", type=parser._positive_seconds, metavar="SECONDS", help="longest time to plan (default: the policy's, 5)"
    )
    command.add_argument("-n", "--namespace", metavar="NAME", help="namespace of the job where the file names none (default: default)")
    parser._add_snapshot_source(command)
    parser._add_output(command, ("table", "json", "yaml"))


class _Number:
    """A number within bounds, as an argparse type."""

    def __init__(self, least: float, most: float, example: str) -> None:
        self.least, self.most, self.example = least, most, example

    def __call__(self, text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not self.least <= number <= self.most:
            raise argparse.ArgumentTypeError(
                f"{text[:40]!r} is no number from {self.least:g} to {self.most:g}; write for example {self.example}"
            )
        return number
