"""Name the extra to install where a package is missing: one line instead of a traceback."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

EXIT_MISSING: Final = 2

EXTRA_OF: Final = {
    "aiohttp": "cluster",
    "dgl": "worker",
    "fsspec": "worker",
    "gymnasium": "learn",
    "kopf": "operator",
    "kubernetes": "cluster",
    "networkx": "planner",
    "prometheus_api_client": "cluster",
    "prometheus_client": "operator",
    "psutil": "worker",
    "psycopg": "history",
    "pyarrow": "worker",
    "pymetis": "worker",
    "pynvml": "agent",
    "rdkit": "worker",
    "requests": "cluster",
    "s3fs": "worker",
    "sb3_contrib": "learn",
    "scipy": "planner",
    "sqlalchemy": "history",
    "stable_baselines3": "learn",
    "tensorboard": "learn",
    "torch": "worker",
    "urllib3": "cluster",
    "z3": "evaluate",
}
"""Top-level module -> the smallest extra of pyproject.toml that brings it."""

LAST_PYTHON: Final = {"dgl": (3, 11)}
"""Modules without a release for a later Python."""


def advice(error: ModuleNotFoundError, extra: str | None = None) -> str | None:
    """Return what is missing and what to install; None where no extra brings the module.

    extra: the one that the caller needs as a whole, the smallest one that has the module where None.
    """
    module = (error.name or "").partition(".")[0]
    if module not in EXTRA_OF:
        return None
    named = extra or EXTRA_OF[module]
    last = LAST_PYTHON.get(module)
    where = f" on Python {last[0]}.{last[1]}" if last is not None and sys.version_info[:2] > last else ""
    return f"the package {module} is missing; {install(named, where)}"


def install(extra: str, where: str = "") -> str:
    """Return how to install an extra. Not by this project's name: the package index has another project of that name."""
    return f"install the extra{where}, in a copy of the repository: pip install '.[{extra}]'"


@contextmanager
def required(extra: str, program: str) -> Iterator[None]:
    """Around a program's imports: end the process with one line and exit code 2 where a package of `extra` is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        text = advice(error, extra)
        if text is None:
            raise
        sys.stderr.write(f"{program}: {text}\n")
        sys.exit(EXIT_MISSING)
