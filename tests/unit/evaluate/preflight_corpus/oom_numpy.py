# mypy: ignore-errors
# ruff: noqa
"""Asks numpy for 3 GiB before the first step."""

import numpy as np
from little_graph import train

table = np.ones(3 << 27)
train()
