"""`hyperscale version`: one line with the version of this package."""

from __future__ import annotations

import argparse

from hyperscale import __version__
from hyperscale.cli.errors import OK


def run(_: argparse.Namespace) -> int:
    """Print the version."""
    print(f"hyperscale {__version__}")
    return OK
