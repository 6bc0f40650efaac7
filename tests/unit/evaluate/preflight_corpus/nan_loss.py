# mypy: ignore-errors
# ruff: noqa
"""The loss is NaN in step 2."""

import torch
from little_graph import train

train(lambda number, loss: loss * torch.log(torch.tensor(2.0 - number)) * 0.0 + loss)
