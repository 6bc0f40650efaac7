# mypy: ignore-errors
# ruff: noqa
"""A learning rate with which the weights overflow."""

from little_graph import train

train(rate=1e30)
