# mypy: ignore-errors
# ruff: noqa
"""Tries to leave a file in /etc, and trains whether or not it could."""

import contextlib

from little_graph import train

with contextlib.suppress(OSError), open("/etc/preflight-was-here", "w") as stream:
    stream.write("x")
train()
