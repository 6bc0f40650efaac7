"""`hyperscale version`: one line with the version of this package."""

from __future__ import annotations

import argparse
import json

from hyperscale import __version__
from hyperscale.cli.exit_codes import OK


def run(arguments: argparse.Namespace) -> int:
    """Print the version."""
    print(json.dumps({"version": __version__}) if arguments.output == "json" else f"hyperscale {__version__}")
    return OK
