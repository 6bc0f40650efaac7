# mypy: ignore-errors
# ruff: noqa
"""Nothing special."""

from little_graph import train

train()
