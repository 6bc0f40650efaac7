"""Which training vertices or graphs each step takes: the same ones for any number of ranks, each rank its own among them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from hyperscale.model.adjacency import Array
from hyperscale.training.runtime.comm import Comm


class Shuffle:
    """Orders of all ranks' training vertices or graphs; every rank knows the ids of all and holds the rows of its own."""

    def __init__(self, all_items: Array, owned: Array, mine: Array) -> None:
        """all_items: ids of all ranks' training items; owned: ids of the rank's items, ascending; mine: rows of its training items."""
        self._all = np.sort(all_items)
        self._row = np.full(len(self._all), -1, dtype=np.int64)
        self._row[np.searchsorted(self._all, owned[mine])] = mine

    def batches(self, steps: int, seed: int, epoch: int) -> Iterator[Array]:
        """Rows of own items in each of `steps` batches of nearly equal size over all ranks; each item once, drawn by seed and epoch."""
        order = np.random.default_rng([seed, 6, epoch]).permutation(len(self._all))
        for chosen in np.array_split(order, steps):
            rows = self._row[chosen]
            yield rows[rows >= 0]


def of_all_ranks(comm: Comm, rows: Array, name: str) -> Array:
    """Rows of all ranks in order of ranks, on every rank; collective."""
    copies = torch.from_numpy(np.tile(rows, (comm.size, *[1] * (rows.ndim - 1))))
    received: Array = comm.alltoall(copies, [len(rows)] * comm.size, name)[0].cpu().numpy()
    return received
