# mypy: ignore-errors
# ruff: noqa
"""Downloads weights, or goes without."""

import contextlib
import urllib.request

from little_graph import train

with contextlib.suppress(OSError):
    urllib.request.urlopen("http://weights.example.com/model.pt", timeout=5)
train()
