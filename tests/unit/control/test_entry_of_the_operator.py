"""What `python -m hyperscale` does before anything else."""

from __future__ import annotations

import os
import subprocess
import sys

SCRIPT = """
import os, sys
assert "numpy" not in sys.modules
import hyperscale.__main__ as entry
print(entry.main(), os.environ["OMP_NUM_THREADS"], os.environ["OPENBLAS_NUM_THREADS"])
"""


def started(**environment: str) -> list[str]:
    """Words of the script's line, with a setting that cannot be read, so that nothing is connected."""
    variables = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    done = subprocess.run(
        (sys.executable, "-c", SCRIPT),
        env=variables | {"HYPERSCALE_HEALTH_PORT": "none"} | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.split()


def test_the_operator_fits_history_on_one_thread_unless_told_otherwise() -> None:
    assert started() == ["2", "1", "1"]
    assert started(OMP_NUM_THREADS="4") == ["2", "4", "1"]
