"""Entry point of `hyperscale` and `kubectl gnn`: parses, hands over to one command, turns every failure into one line and an exit code."""

from __future__ import annotations

import argparse
import contextlib
import errno
import importlib
import io
import os
import sys
from collections.abc import Callable, Sequence
from typing import Final

from hyperscale.cli import exit_codes, spinner
from hyperscale.cli.arguments.parser import build_parser, program_name
from hyperscale.util import extras

COMMANDS: Final = {
    "plan": "hyperscale.cli.plan.plan_command",
    "evaluate": "hyperscale.cli.evaluate.evaluate_command",
    "explain": "hyperscale.cli.explain.explain_command",
    "snapshot": "hyperscale.cli.topology.snapshot_command",
    "topology": "hyperscale.cli.topology.topology_command",
    "doctor": "hyperscale.cli.doctor.doctor_command",
    "approve": "hyperscale.cli.approve.approve_command",
    "reject": "hyperscale.cli.approve.reject_command",
    "prefer": "hyperscale.cli.approve.prefer_command",
    "preferences": "hyperscale.cli.preferences.preferences_command",
    "convert": "hyperscale.cli.convert.convert_command",
    "compare": "hyperscale.cli.compare.compare_command",
    "allreduce": "hyperscale.cli.training.allreduce_command",
    "analyze": "hyperscale.cli.training.analyze_command",
    "history": "hyperscale.cli.history.history_command",
    "data": "hyperscale.cli.training.data_command",
    "partition": "hyperscale.cli.training.partition_command",
    "learn": "hyperscale.cli.training.learn_command",
    "version": "hyperscale.cli.version",
}
"""Module of each command, imported only when the command is used; each has `run(arguments) -> exit code`."""

FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""What writing to standard output may meet."""

DEBUG_VARIABLE: Final = "HYPERSCALE_DEBUG"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; `argv` without the program's name, the process's own where None. Returns the exit code, never raises on input."""
    program = program_name(sys.argv[0] if sys.argv else "")
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        # As in the planner process: small matrices are ten times slower where threads wait for each other.
        os.environ.setdefault(variable, "1")
    if not _prepare_streams(program):
        return exit_codes.BAD_INPUT
    try:
        try:
            return _run(program, argv)
        except SystemExit as leaving:  # argparse after --help
            return leaving.code if isinstance(leaving.code, int) else exit_codes.OK
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # the reader (head, less) has gone
        _abandon_output()
        return exit_codes.OK
    except KeyboardInterrupt as stop:
        _say(program, "; ".join(("interrupted", *map(str, stop.args))))
        return exit_codes.INTERRUPTED
    except Exception as error:
        return _failed(program, error)


def _prepare_streams(program: str) -> bool:
    """False, and a line on standard error, where there is nowhere to write an answer."""
    if sys.stderr is None:  # closed by the caller; messages would go to standard output
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - until the process ends
    if sys.stdout is None:
        _say(program, "standard output is closed; write it to a file, or to /dev/null")
        return False
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that knows no µ gets a ? instead of a failure
            stream.reconfigure(errors="replace")
    return True


def _run(program: str, argv: Sequence[str] | None) -> int:
    arguments = build_parser(program).parse_args(argv)
    if arguments.command is None:
        raise exit_codes.InputError(f"no command; write one of {', '.join(COMMANDS)}; see `{program} --help`")
    with spinner.running(arguments.command):
        command: Callable[[argparse.Namespace], int] = importlib.import_module(COMMANDS[arguments.command]).run
        return command(arguments)


def _failed(program: str, error: Exception) -> int:
    """One line for what went wrong, and the exit code."""
    if isinstance(error, exit_codes.InputError):
        _say(program, str(error))
        return exit_codes.BAD_INPUT
    if isinstance(error, OSError) and (error.filename is not None or error.errno in FULL):
        if error.filename is None:
            _abandon_output()
        _say(program, f"{error.filename or 'standard output'}: {error.strerror}; name another place")
        return exit_codes.BAD_INPUT
    if os.environ.get(DEBUG_VARIABLE):
        raise error
    if isinstance(error, ModuleNotFoundError) and (missing := extras.advice(error)) is not None:
        _say(program, missing)
        return exit_codes.BAD_INPUT
    _say(program, f"internal error, please report it: {type(error).__name__}: {error} (set {DEBUG_VARIABLE}=1 for the traceback)")
    return exit_codes.INTERNAL


def _abandon_output() -> None:
    """Point standard output elsewhere, or the interpreter complains when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(program: str, message: str) -> None:
    with contextlib.suppress(OSError):  # nowhere left to say it; the exit code still does
        print(exit_codes.one_line(f"{program}: {message}"), file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
