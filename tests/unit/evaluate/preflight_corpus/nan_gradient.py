# mypy: ignore-errors
# ruff: noqa
"""The loss is finite in step 3, the gradient is not: the square root's at 0."""

from little_graph import train


def step(number, loss):
    return loss + (loss - loss.detach()).sqrt() if number == 3 else loss


train(step)
