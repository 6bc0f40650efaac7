"""Entry point of `hyperscale` and `kubectl gnn`: parses, hands over to one command, turns every failure into one line and an exit code."""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from collections.abc import Callable, Sequence
from typing import Final

from hyperscale.cli import errors
from hyperscale.cli.arguments import build_parser, program_name

COMMANDS: Final = {
    "plan": "hyperscale.cli.plan",
    "explain": "hyperscale.cli.explain",
    "snapshot": "hyperscale.cli.snapshot",
    "topology": "hyperscale.cli.topology",
    "doctor": "hyperscale.cli.doctor",
    "allreduce": "hyperscale.cli.allreduce",
    "analyze": "hyperscale.cli.analyze",
    "history": "hyperscale.cli.history",
    "data": "hyperscale.cli.data",
    "partition": "hyperscale.cli.partition",
    "learn": "hyperscale.cli.learn",
    "version": "hyperscale.cli.version",
}
"""Module of each command, imported only when the command is used; each has `run(arguments) -> exit code`."""

DEBUG_VARIABLE: Final = "HYPERSCALE_DEBUG"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; `argv` without the program's name, the process's own where None. Returns the exit code, never raises on input."""
    program = program_name(sys.argv[0] if sys.argv else "")
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        # As in the planner process: small matrices are ten times slower where threads wait for each other.
        os.environ.setdefault(variable, "1")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that knows no µ gets a ? instead of a failure
            stream.reconfigure(errors="replace")
    try:
        return _run(program, argv)
    except errors.InputError as error:
        _say(program, str(error))
        return errors.BAD_INPUT
    except SystemExit as leaving:  # argparse after --help
        return leaving.code if isinstance(leaving.code, int) else errors.OK
    except BrokenPipeError:
        # The reader (head, less) has gone. Point stdout elsewhere, or the interpreter complains when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return errors.OK
    except KeyboardInterrupt:
        _say(program, "interrupted")
        return errors.INTERRUPTED
    except Exception as error:
        if os.environ.get(DEBUG_VARIABLE):
            raise
        _say(program, f"internal error, please report it: {type(error).__name__}: {error} (set {DEBUG_VARIABLE}=1 for the traceback)")
        return errors.INTERNAL


def _run(program: str, argv: Sequence[str] | None) -> int:
    arguments = build_parser(program).parse_args(argv)
    if arguments.command is None:
        raise errors.InputError(f"no command; write one of {', '.join(COMMANDS)}; see `{program} --help`")
    command: Callable[[argparse.Namespace], int] = importlib.import_module(COMMANDS[arguments.command]).run
    code = command(arguments)
    sys.stdout.flush()
    return code


def _say(program: str, message: str) -> None:
    print(errors.one_line(f"{program}: {message}"), file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
