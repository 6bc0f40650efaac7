# mypy: ignore-errors
# ruff: noqa
"""Ends without a word in step 3, as if all were well."""

import os

from little_graph import train


def step(number, loss):
    if number == 3:
        os._exit(0)
    return loss


train(step)
