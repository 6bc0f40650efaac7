"""`hyperscale snapshot`: the live cluster as the planner sees it, to a file that `plan` and `topology` read."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hyperscale.cli import errors, inputs, known
from hyperscale.cli.documents import STDIN
from hyperscale.cli.errors import InputError


def run(arguments: argparse.Namespace) -> int:
    """Read the cluster, write the file."""
    from hyperscale.observe.files import encode_snapshot
    from hyperscale.observe.snapshot import SnapshotError, write_snapshot

    if arguments.output != STDIN:
        check_writable(arguments.output, "-o")
    found = known.find(arguments)
    snapshot = found.snapshot
    inputs.note(f"figures: {found.shown}")
    if arguments.output == STDIN:
        sys.stdout.write(encode_snapshot(snapshot).decode())
        return errors.OK
    try:
        write_snapshot(Path(arguments.output), snapshot)
    except SnapshotError as error:
        raise InputError(f"-o: {error}") from None
    inputs.note(f"wrote {len(snapshot.nodes)} GPU nodes and {len(snapshot.links)} links to {arguments.output}")
    return errors.OK


def check_writable(path: str, option: str) -> None:
    """InputError where a file could not be written there, before any time is spent on its content."""
    file = Path(path)
    if path in ("", STDIN) or "\0" in path or file.is_dir():
        raise InputError(f"{option}: {path!r} is no file name; name a file to write")
    if not file.parent.is_dir():
        raise InputError(f"{option}: folder {str(file.parent)!r} does not exist; create it or name another")
