"""In: files of training graphs, or a generator. Out: a checked `TrainingGraph`, and its stored parts.

`read` is the one way in: it finds the file, reads it within bounds, checks it against what the job states, and gives a `TrainingGraph`.
"""

from hyperscale.training.data.content_digest import graph_digest
from hyperscale.training.data.data_errors import DataError
from hyperscale.training.data.edges_to_csr import symmetric
from hyperscale.training.data.is_graph_collection import known_many
from hyperscale.training.data.limits import Stated
from hyperscale.training.data.reading import read

__all__ = ["DataError", "Stated", "graph_digest", "known_many", "read", "symmetric"]
