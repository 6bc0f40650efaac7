"""Asks owners about their vertices and brings the answers back in the order of the questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from hyperscale.model.adjacency import Array
from hyperscale.training.engine.timing import Spans, Timer
from hyperscale.training.runtime.comm import Comm

Tensor = torch.Tensor


@dataclass(frozen=True)
class Route:
    """Questions that are with their owners."""

    order: Array
    """Places of the questions by owner."""
    asked: list[int]
    """Of each rank."""
    received: Array
    """(n,) ids that other ranks ask this one for."""
    counts: list[int]
    """How many of them each rank asks."""


class Routes:
    """Collective calls of one rank; the time that they take is counted."""

    def __init__(self, comm: Comm) -> None:
        self.comm = comm
        self.waits = Spans(Timer(torch.device("cpu")))
        """For others' answers, on the host: what travels is in its memory."""

    def ask(self, ids: Array, owners: Array, name: str) -> Route:
        """Send each id (n,) to its owner (n,)."""
        order = np.argsort(owners, kind="stable")
        asked = np.bincount(owners, minlength=self.comm.size).tolist()
        received, counts = self._send(torch.from_numpy(ids[order].astype(np.int64)), asked, f"{name}.ids")
        return Route(order, asked, received.numpy(), counts)

    def answer(self, route: Route, rows: Tensor, name: str) -> Tensor:
        """One row for each received id; returns one row for each question, in the order of the questions."""
        back, _ = self._send(rows, route.counts, name, sum(route.asked))
        placed = torch.empty_like(back)
        placed[torch.from_numpy(route.order)] = back
        return placed

    def answer_lists(self, route: Route, sizes: Array, entries: Tensor, name: str) -> tuple[Array, Tensor]:
        """A list for each received id, of `sizes` (n,) rows of `entries`; returns sizes and entries in the order of the questions."""
        bounds = np.concatenate([[0], np.cumsum(route.counts)])
        running = np.concatenate([[0], np.cumsum(sizes)])
        sent = np.diff(running[bounds]).tolist()
        back_sizes, _ = self._send(torch.from_numpy(sizes.astype(np.int64)), route.counts, f"{name}.sizes", sum(route.asked))
        by_owner = back_sizes.numpy()
        back, _ = self._send(entries, sent, f"{name}.entries", int(by_owner.sum()))
        placed = np.empty_like(by_owner)
        placed[route.order] = by_owner
        starts = np.empty_like(by_owner)
        starts[route.order] = np.concatenate([[0], np.cumsum(by_owner)])[:-1]
        total = np.concatenate([[0], np.cumsum(placed)])
        places = np.arange(total[-1]) + np.repeat(starts - total[:-1], placed)
        return placed, back[torch.from_numpy(places)]

    def _send(self, rows: Tensor, splits: Sequence[int], name: str, expected: int = 0) -> tuple[Tensor, list[int]]:
        return self.waits.timed(lambda: self.comm.alltoall(rows, splits, name, expected))
