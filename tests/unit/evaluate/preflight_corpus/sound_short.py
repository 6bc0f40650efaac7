# mypy: ignore-errors
# ruff: noqa
"""Ends by itself after three steps, fewer than are asked for."""

from little_graph import train

train(steps=3)
