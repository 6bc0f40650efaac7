"""Boundary exchange: every rank sends rows of its own vertices to the ranks that hold copies of them, and gets the copies' gradients back.

Who needs what is agreed once. In between `start` and `wait` a layer adds up its own rows, and autograd does the same backwards: it begins
to send the copies' gradients first, then walks back through the sums over own rows, then takes in what came.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from hyperscale.model.adjacency import LocalPart
from hyperscale.training.engine.timing import Spans, Timer
from hyperscale.training.runtime.comm import Comm

Tensor = torch.Tensor


class Exchange:
    """The boundary of one part: rows of (n, f) own vertices in, rows of (h, f) halo copies out."""

    def __init__(self, comm: Comm, part: LocalPart, device: torch.device) -> None:
        """Collective. Raises ValueError where ranks hold parts that do not fit together."""
        self.comm = comm
        self.waits = Spans(Timer(device))
        """For copies and their gradients."""
        wanted = np.bincount(part.halo_owner, minlength=comm.size).tolist()
        asked, counts = comm.alltoall(torch.from_numpy(part.halo.astype(np.int64)), wanted, "halo.ids")
        ids = asked.numpy()
        local = np.searchsorted(part.owned, ids)
        own = local < len(part.owned)
        if not own.all() or (part.owned[local] != ids).any():
            raise ValueError(f"part {part.part}: other ranks ask it for vertices that it does not hold; partition again")
        self.receive, self.send = wanted, counts
        self.rows = torch.from_numpy(local).to(device)
        self.owned = len(part.owned)
        self.copies = len(part.halo)
        comm.sent_bytes[:] = 0

    def start(self, x: Tensor, name: str) -> Callable[[], Tensor]:
        """Begin to exchange rows of x (n, f); the returned function waits and gives the copies (h, f). Differentiable."""
        flight = _Flight(self, name)
        token: Tensor = _Start.apply(x, flight)

        def wait() -> Tensor:
            copies: Tensor = _Wait.apply(token, flight)
            return copies

        return wait


class _Flight:
    """One exchange on its way, and then its gradients on theirs."""

    def __init__(self, exchange: Exchange, name: str) -> None:
        self.exchange, self.name = exchange, name
        self.arrival: Callable[[], tuple[Tensor, list[int]]] | None = None
        self.width: tuple[int, ...] = ()

    def land(self) -> Tensor:
        """Wait for what is under way."""
        if self.arrival is None:
            raise RuntimeError(f"exchange {self.name}: nothing is under way")
        rows, _ = self.exchange.waits.timed(self.arrival)
        self.arrival = None
        return rows.view(-1, *self.width)


class _Start(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor, flight: _Flight) -> Tensor:  # noqa: ANN401 - torch's own signature
        exchange = flight.exchange
        context.flight = flight
        flight.width = tuple(x.shape[1:])
        flight.arrival = exchange.comm.start_alltoall(x[exchange.rows], exchange.send, f"halo.{flight.name}", exchange.copies)
        return x.new_zeros(0)

    @staticmethod
    def backward(context: Any, _: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401 - torch's own signature
        flight = context.flight
        returned = flight.land()
        gradient = returned.new_zeros((flight.exchange.owned, *flight.width))
        return gradient.index_add_(0, flight.exchange.rows, returned), None


class _Wait(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, token: Tensor, flight: _Flight) -> Tensor:  # noqa: ANN401 - torch's own signature
        context.flight = flight
        return flight.land()

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401 - torch's own signature
        flight = context.flight
        exchange = flight.exchange
        flight.arrival = exchange.comm.start_alltoall(gradient, exchange.receive, f"halo.{flight.name}.back", len(exchange.rows))
        return gradient.new_zeros(0), None
