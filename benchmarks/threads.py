"""Ranks as threads of one process, for tests and benchmarks: the same results as over processes, sums taken in order of ranks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

from hyperscale.training.runtime.comm import Comm, Wait

Tensor = torch.Tensor


class Hub:
    """Where the threads of LocalComm meet."""

    def __init__(self, size: int, timeout_seconds: float = 120.0) -> None:
        self.size = size
        self.slots: list[Any] = [None] * size
        self.gate = threading.Barrier(size, timeout=timeout_seconds)

    def swap(self, rank: int, value: Any) -> list[Any]:  # noqa: ANN401 - whatever the operation hands over
        """The values of all ranks, once each has given one."""
        self.slots[rank] = value
        self.gate.wait()
        values = list(self.slots)
        self.gate.wait()
        return values


class LocalComm(Comm):
    """One thread a rank: the same results as over processes, sums taken in order of ranks."""

    def __init__(self, rank: int, hub: Hub) -> None:
        super().__init__(rank, hub.size)
        self._hub = hub

    def _start_allreduce_(self, tensors: Sequence[Tensor], name: str) -> Wait:
        """Done at once."""
        everybody = self._hub.swap(self.rank, (name, [tensor.detach().clone() for tensor in tensors]))
        self._agree(name, everybody)
        for index, tensor in enumerate(tensors):
            tensor.detach().copy_(sum(values[index] for _, values in everybody))
        return lambda: None

    def broadcast(self, tensor: Tensor, name: str, root: int = 0) -> Tensor:
        """A copy of root's."""
        everybody = self._hub.swap(self.rank, (name, tensor.detach().clone()))
        self._agree(name, everybody)
        result: Tensor = everybody[root][1].clone()
        return result

    def _start_alltoall(self, tensor: Tensor, splits: list[int], name: str) -> Callable[[], tuple[Tensor, list[int]]]:
        everybody = self._hub.swap(self.rank, (name, torch.split(tensor.clone(), splits)))
        self._agree(name, everybody)
        pieces = [parts[self.rank] for _, parts in everybody]
        received = torch.cat(pieces), [len(piece) for piece in pieces]
        return lambda: received

    @staticmethod
    def _agree(name: str, everybody: list[Any]) -> None:
        names = [entry[0] for entry in everybody]
        if names != [name] * len(names):
            raise RuntimeError(f"ranks are at different operations: {names}")


def solo() -> Comm:
    """One rank alone, which checks names as several do."""
    return LocalComm(0, Hub(1))


def run_threads(size: int, work: Callable[[Comm], Any], timeout_seconds: float = 120.0) -> list[Any]:
    """`work(comm)` on `size` threads; their results in order of ranks. Raises what the first failing rank raised."""
    hub = Hub(size, timeout_seconds)
    results: list[Any] = [None] * size
    errors: list[BaseException | None] = [None] * size

    def body(rank: int) -> None:
        try:
            results[rank] = work(LocalComm(rank, hub))
        except BaseException as error:  # handed to the caller below
            errors[rank] = error
            hub.gate.abort()

    threads = [threading.Thread(target=body, args=(rank,), daemon=True) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    raised = [error for error in errors if error is not None]
    if raised:
        raise next((error for error in raised if not isinstance(error, threading.BrokenBarrierError)), raised[0])
    return results
