"""Readers of training graphs, generators, and the store of partitions.

`read` is the one way in: it finds the file, reads it within bounds, checks it against what the job states, and gives a `TrainingGraph`.
"""

from hyperscale.data.adjacency import symmetric
from hyperscale.data.digest import graph_digest
from hyperscale.data.errors import DataError
from hyperscale.data.limits import Stated
from hyperscale.data.many import known_many
from hyperscale.data.reading import read

__all__ = ["DataError", "Stated", "graph_digest", "known_many", "read", "symmetric"]
