# mypy: ignore-errors
# ruff: noqa
"""Makes a folder at the root in step 2."""

import contextlib
import os

from little_graph import train


def step(number, loss):
    if number == 2:
        with contextlib.suppress(OSError):
            os.mkdir("/preflight-was-here")
    return loss


train(step)
