# mypy: ignore-errors
# ruff: noqa
"""A batch of another size in step 3."""

import torch
from little_graph import train


def step(number, loss):
    return loss + (torch.ones(3, 4) @ torch.ones(5, 2)).sum() if number == 3 else loss


train(step)
