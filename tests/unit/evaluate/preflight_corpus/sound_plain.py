"""Nothing special."""

from little_graph import train

train()
