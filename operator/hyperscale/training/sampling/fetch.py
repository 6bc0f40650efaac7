"""Features of vertices that others own, each asked for once a batch at most; the most wanted ones are kept here from the start.

The cache is static: halo vertices by falling out-degree (how often they come up as a neighbour) as far as the budget goes. What it holds
are copies, so that it changes what is sent and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from hyperscale.model.adjacency import Array, LocalPart
from hyperscale.training.sampling.sampling_routes import Routes

Tensor = torch.Tensor


@dataclass
class Counts:
    """Of remote vertices, since the start."""

    hits: int = 0
    misses: int = 0


class Features:
    """Rows (n, f) and degrees of any vertices; every call is collective."""

    def __init__(self, routes: Routes, part: LocalPart, rows: Tensor, budget_bytes: int) -> None:
        """rows: (own vertices, f) as the model gets them, on the CPU. Collective: fills the cache."""
        self._routes, self._part, self._rows = routes, part, rows
        own = len(part.owned)
        self._degrees = torch.from_numpy(np.stack([part.in_degree[:own], part.out_degree[:own]], axis=1).astype(np.int64))
        self.counts = Counts()
        row_bytes = max(rows.element_size() * int(rows.shape[1]), 1)
        wanted = np.argsort(-part.out_degree[own:].astype(np.int64), kind="stable")[: budget_bytes // row_bytes]
        wanted = np.sort(wanted)
        order = np.argsort(part.halo[wanted])
        wanted = wanted[order]
        self._cached = part.halo[wanted]
        route = routes.ask(self._cached, part.halo_owner[wanted], "cache")
        self._cache = routes.answer(route, rows[self._local(route.received)], "cache.rows")
        self._cache_degrees = torch.from_numpy(
            np.stack([part.in_degree[own + wanted], part.out_degree[own + wanted]], axis=1).astype(np.int64)
        )

    @property
    def cached(self) -> int:
        """Vertices in the cache."""
        return len(self._cached)

    def of(self, ids: Array, owners: Array) -> tuple[Tensor, Tensor]:
        """Features (n, f) and degrees (n, 2), in and out, of different vertices `ids` (n,) with their owners (n,)."""
        rows = self._rows.new_empty((len(ids), self._rows.shape[1]))
        degrees = torch.empty((len(ids), 2), dtype=torch.int64)
        own = np.flatnonzero(owners == self._part.part)
        local = self._local(ids[own])
        rows[torch.from_numpy(own)], degrees[torch.from_numpy(own)] = self._rows[local], self._degrees[local]
        remote = np.flatnonzero(owners != self._part.part)
        place = np.searchsorted(self._cached, ids[remote])
        hit = np.zeros(len(remote), dtype=bool)
        inside = place < len(self._cached)
        hit[inside] = self._cached[place[inside]] == ids[remote][inside]
        kept, taken = torch.from_numpy(remote[hit]), torch.from_numpy(place[hit])
        rows[kept], degrees[kept] = self._cache[taken], self._cache_degrees[taken]
        missing = remote[~hit]
        route = self._routes.ask(ids[missing], owners[missing], "fetch")
        asked, lacking = self._local(route.received), torch.from_numpy(missing)
        rows[lacking] = self._routes.answer(route, self._rows[asked], "fetch.rows")
        degrees[lacking] = self._routes.answer(route, self._degrees[asked], "fetch.degrees")
        self.counts.hits += int(hit.sum())
        self.counts.misses += len(missing)
        return rows, degrees

    def _local(self, ids: Array) -> Tensor:
        return torch.from_numpy(np.searchsorted(self._part.owned, ids))
