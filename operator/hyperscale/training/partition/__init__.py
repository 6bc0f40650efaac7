"""In: a training graph and the capacity of every rank. Out: which rank holds which vertices. Pure."""

from hyperscale.training.partition.auto import CANDIDATES, EpochCost, choose, epoch_seconds
from hyperscale.training.partition.local import local_part
from hyperscale.training.partition.measures import measure
from hyperscale.training.partition.partition_memory import edge_bytes, memory_bytes
from hyperscale.training.partition.partition_result import Measures, PartitionError, Parts
from hyperscale.training.partition.split import precomputed, split
from hyperscale.training.partition.streaming import FENNEL, streaming_bytes

__all__ = [
    "CANDIDATES",
    "FENNEL",
    "EpochCost",
    "Measures",
    "PartitionError",
    "Parts",
    "choose",
    "edge_bytes",
    "epoch_seconds",
    "local_part",
    "measure",
    "memory_bytes",
    "precomputed",
    "split",
    "streaming_bytes",
]
