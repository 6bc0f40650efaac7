"""GPUs that a node strands: free, but of no use to the sizes of pods that this cluster is asked for. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from hyperscale.model.graph import FloatArray
from hyperscale.model.planning import AskedSize

GPUS: Final = 0
"""Column of a room's GPUs; its cores and bytes of memory follow."""
LEVELS: Final = (1.0, 0.5)
"""Demands of one GPU at which room is judged, as parts of the mean one: pods with less than the mean use what others leave."""
SIZE_WEIGHT: Final = 0.25
"""Of a GPU that only smaller pods than the one in question can use, against one that lacks cores or memory."""
DIGITS: Final = 9
"""Decimals of added GPUs: less is the order of a sum."""


class SizeDemand(NamedTuple):
    """What a cluster is asked for."""

    per_gpu: FloatArray
    """(2,) mean cores and bytes of memory that pods ask for each of their GPUs."""
    gpus: FloatArray
    """(s,) different numbers of GPUs of a pod, rising."""
    shares: FloatArray
    """(s,) part of all GPUs asked for that pods of that number ask for; they sum to 1."""


def size_demand(sizes: Sequence[AskedSize]) -> SizeDemand | None:
    """Return the demand of the sizes with GPUs and a weight; None where there are none."""
    used = [size for size in sizes if size.gpus > 0 and size.weight > 0]
    if not used:
        return None
    weight = np.array([size.weight for size in used])
    asked = np.array([(size.gpus, size.cpu_cores, size.memory_bytes) for size in used], dtype=np.float64)
    totals = weight @ asked
    gpus, place = np.unique(asked[:, GPUS], return_inverse=True)
    return SizeDemand(totals[1:] / totals[GPUS], gpus, np.bincount(place, weight * asked[:, GPUS]) / totals[GPUS])


def stranded_gpus(rooms: FloatArray, demand: SizeDemand) -> FloatArray:
    """Return (n,) GPUs that each room strands.

    rooms: (n, 3) free GPUs, cores and bytes of memory; +inf where a node does not say
    A GPU is stranded as far as the cores or the memory left for it are less than a GPU is asked with, in the mean of `LEVELS` of the mean
    demand. To this comes, with `SIZE_WEIGHT`, the remainder of the free GPUs by every size, weighed by the GPUs that it asks for.
    The expectation over what is asked for is the idea of fragmentation gradient descent (Weng et al., USENIX ATC 2023). That measure
    counts a node's GPUs as stranded for a size only once no further such pod fits, so it foresees less.
    """
    gpus = rooms[:, GPUS]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        carried = np.where(demand.per_gpu > 0, np.maximum(rooms[:, 1:], 0.0) / demand.per_gpu, np.inf).min(axis=1)
    lacking = gpus[:, None] - np.minimum(gpus[:, None], carried[:, None] / np.array(LEVELS))
    remainder = np.mod(gpus[:, None], demand.gpus) @ demand.shares
    stranded: FloatArray = lacking.mean(axis=1) + SIZE_WEIGHT * remainder
    return stranded


def added_stranding(rooms: FloatArray, taken: FloatArray, demand: SizeDemand) -> FloatArray:
    """Return (n,) GPUs that each room strands more once `taken` is taken from it; below 0 where it strands less.

    rooms: (n, 3) as for `stranded_gpus` · taken: (3,) or (n, 3) GPUs, cores and bytes, no more than there are
    """
    added: FloatArray = stranded_gpus(rooms - taken, demand) - stranded_gpus(rooms, demand)
    return added.round(DIGITS)
