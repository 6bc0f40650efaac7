# mypy: ignore-errors
# ruff: noqa
"""Waits for something that does not come, before the first step."""

from little_graph import train

while True:
    pass
train()
