"""Pure: who holds which vertices, by what each GPU and link can carry."""

from hyperscale.partition.auto import CANDIDATES, EpochCost, choose, epoch_seconds
from hyperscale.partition.independent import independent_set
from hyperscale.partition.local import local_part
from hyperscale.partition.measures import measure
from hyperscale.partition.memory import edge_bytes, memory_bytes
from hyperscale.partition.split import precomputed, split
from hyperscale.partition.types import Measures, PartitionError, Parts

__all__ = [
    "CANDIDATES",
    "EpochCost",
    "Measures",
    "PartitionError",
    "Parts",
    "choose",
    "edge_bytes",
    "epoch_seconds",
    "independent_set",
    "local_part",
    "measure",
    "memory_bytes",
    "precomputed",
    "split",
]
