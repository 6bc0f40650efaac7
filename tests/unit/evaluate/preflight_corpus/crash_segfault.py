# mypy: ignore-errors
# ruff: noqa
"""Reads address 0 in step 2."""

import ctypes

from little_graph import train


def step(number, loss):
    if number == 2:
        ctypes.string_at(0)
    return loss


train(step)
