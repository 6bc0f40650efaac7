# mypy: ignore-errors
# ruff: noqa
"""Asks for 2 GiB in step 3."""

import torch
from little_graph import train


def step(number, loss):
    if number == 3:
        return loss + torch.ones(1 << 29).sum() * 0.0
    return loss


train(step)
