# mypy: ignore-errors
# ruff: noqa
"""A layer that is made, given to the optimizer and never used."""

from little_graph import SmallNetwork, train
from torch import nn


class Forgetful(SmallNetwork):
    def __init__(self):
        super().__init__()
        self.forgotten = nn.Linear(8, 8)


train(model=Forgetful())
