"""`hyperscale snapshot`: the live cluster as the planner sees it, to a file that `plan` and `topology` read."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hyperscale.cli import exit_codes
from hyperscale.cli.documents import STDIN
from hyperscale.cli.exit_codes import InputError
from hyperscale.cli.files import check_writable
from hyperscale.cli.plan import inputs, known_inputs


def run(arguments: argparse.Namespace) -> int:
    """Read the cluster, write the file."""
    from hyperscale.observe.files.bounded import SnapshotError
    from hyperscale.observe.files.snapshot_files import encode_snapshot, write_snapshot

    if arguments.output != STDIN:
        check_writable(arguments.output, "-o")
    sources = known_inputs.find(arguments)
    snapshot = sources.snapshot
    inputs.note(f"figures: {sources.shown}")
    if arguments.output == STDIN:
        sys.stdout.write(encode_snapshot(snapshot).decode())
        return exit_codes.OK
    try:
        write_snapshot(Path(arguments.output), snapshot)
    except SnapshotError as error:
        raise InputError(f"-o: {error}") from None
    inputs.note(f"wrote {len(snapshot.nodes)} GPU nodes and {len(snapshot.links)} links to {arguments.output}")
    return exit_codes.OK
