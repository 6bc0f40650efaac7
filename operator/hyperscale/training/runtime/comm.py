"""How ranks talk: one interface, over Horovod between processes, or alone.

Every call is collective: all ranks make the same calls in the same order with the same name. Names must not be in use twice at a time.
"""

from __future__ import annotations

import abc
import math
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import torch

from hyperscale.training.runtime.refusals import ContractError

Tensor = torch.Tensor
Wait = Callable[[], Any]
MAX_COUNT = 2**31 - 1
"""Numbers of one message: MPI, and Horovod's operations over it, count them with 32 bits."""
_FIRST_PAUSE_SECONDS: Final = 2e-5
_LONGEST_PAUSE_SECONDS: Final = 1e-3
_LONGER: Final = 1.25
"""Each pause than the one before: what a wait ends too late is a small part of the wait."""


class Comm(abc.ABC):
    """Ranks 0..size-1 and what they do together."""

    rank: int
    size: int

    def __init__(self, rank: int, size: int) -> None:
        self.rank = rank
        self.size = size
        self.sent_bytes = np.zeros(size, dtype=np.int64)
        """Payload that this rank sent to each rank by alltoall so far; nothing counts to itself."""

    def alltoall(self, tensor: Tensor, splits: Sequence[int], name: str, expected: int = 0) -> tuple[Tensor, list[int]]:
        """Send consecutive rows: splits[p] of them to rank p. Returns the received rows in order of ranks, and how many came from each.

        All ranks pass the same dtype and the same trailing shape; their numbers of rows may differ and may be 0.
        """
        return self.start_alltoall(tensor, splits, name, expected)()

    def start_alltoall(self, tensor: Tensor, splits: Sequence[int], name: str, expected: int = 0) -> Callable[[], tuple[Tensor, list[int]]]:
        """Begin an alltoall; the returned function waits for it and gives what `alltoall` gives.

        expected: rows that this rank will receive, where it knows. Raises ContractError where either way has more numbers than MAX_COUNT.
        """
        if len(splits) != self.size or sum(splits) != tensor.shape[0]:
            raise ValueError(f"splits {list(splits)} of {self.size} ranks do not sum to the {tensor.shape[0]} rows of {name}")
        width = math.prod(tensor.shape[1:])
        self._check_count("send", tensor.shape[0] * width, name)
        self._check_count("receive", expected * width, name)
        sent = np.asarray(splits, dtype=np.int64) * (tensor.element_size() * width)
        sent[self.rank] = 0
        self.sent_bytes += sent
        return self._start_alltoall(tensor.detach().contiguous(), list(splits), name)

    def allreduce(self, tensor: Tensor, name: str) -> Tensor:
        """The sum over all ranks, in a new tensor."""
        result = tensor.detach().clone()
        self.start_allreduce_([result], name)()
        return result

    def broadcast_bytes(self, data: bytes, name: str, root: int = 0) -> bytes:
        """Root's bytes, on every rank."""
        length = self.broadcast(torch.tensor([len(data)], dtype=torch.int64), f"{name}.length", root)
        buffer = torch.zeros(int(length.item()), dtype=torch.uint8)
        if self.rank == root and data:
            buffer = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        pieces = [self.broadcast(piece, name, root) for piece in torch.split(buffer, MAX_COUNT)]
        return b"".join(piece.numpy().tobytes() for piece in pieces)

    def gather(self, row: Tensor, name: str) -> Tensor:
        """Rows (n,) of all ranks as (size, n), on every rank."""
        table = torch.zeros((self.size, *row.shape), dtype=row.dtype, device=row.device)
        table[self.rank] = row
        return self.allreduce(table, name)

    def barrier(self) -> None:
        """Wait for all ranks."""
        self.allreduce(torch.zeros(1), "barrier")

    def start_allreduce_(self, tensors: Sequence[Tensor], name: str) -> Wait:
        """Begin to sum these tensors over all ranks, in place, in one message; the returned function waits for it.

        Raises ContractError where they have more numbers than MAX_COUNT.
        """
        self._check_count("send", sum(tensor.numel() for tensor in tensors), name)
        return self._start_allreduce_(tensors, name)

    def _check_count(self, what: str, numbers: int, name: str) -> None:
        if numbers > MAX_COUNT:
            raise ContractError(
                f"spec.workers: rank {self.rank} would {what} {numbers} numbers in one message ({name}), MPI counts up to {MAX_COUNT}; "
                "write more workers, or a smaller spec.model.hiddenSize"
            )

    @abc.abstractmethod
    def _start_allreduce_(self, tensors: Sequence[Tensor], name: str) -> Wait: ...

    @abc.abstractmethod
    def broadcast(self, tensor: Tensor, name: str, root: int = 0) -> Tensor:
        """Root's tensor, in a new one on every rank; all pass the same shape and dtype."""

    @abc.abstractmethod
    def _start_alltoall(self, tensor: Tensor, splits: list[int], name: str) -> Callable[[], tuple[Tensor, list[int]]]: ...

    def close(self) -> None:  # noqa: B027 - most have nothing to end
        """End the connection, at the end of a run that went well."""


class HorovodComm(Comm):
    """Over horovod.torch; one process a rank, started by mpirun."""

    def __init__(self) -> None:
        # Not at the top: programs that run alone, and tests, need no Horovod.
        import horovod.torch as hvd

        hvd.init()
        self._hvd = hvd
        self._cuda = bool(hvd.cuda_built())
        super().__init__(hvd.rank(), hvd.size())

    def _start_allreduce_(self, tensors: Sequence[Tensor], name: str) -> Wait:
        """One tensor is left to Horovod's own fusion; several are fused as one group."""
        hvd = self._hvd
        sent = [self._host(tensor) for tensor in tensors]
        if len(sent) == 1:
            handle = hvd.allreduce_async_(sent[0], name=name, op=hvd.Sum)
        else:
            handle = hvd.grouped_allreduce_async_(sent, name=name, op=hvd.Sum)

        def wait() -> None:
            self._ended(handle)
            for tensor, summed in zip(tensors, sent, strict=True):
                if summed is not tensor:
                    tensor.detach().copy_(summed)

        return wait

    def _host(self, tensor: Tensor) -> Tensor:
        """The tensor where this Horovod can send it from: its build for processors knows no other memory."""
        return tensor.detach().cpu() if tensor.is_cuda and not self._cuda else tensor

    def broadcast(self, tensor: Tensor, name: str, root: int = 0) -> Tensor:
        """By MPI_Bcast."""
        if tensor.numel() == 0:
            return tensor.clone()
        result: Tensor = self._hvd.broadcast(self._host(tensor.detach()), root, name=name)
        return result.to(tensor.device)

    def _ended(self, handle: Any) -> Any:  # noqa: ANN401 - whatever the operation gives
        """The result of an operation, once it is there.

        horovod.torch.synchronize looks every 100 ns: a rank that waits for a slower one spends the processor time that its pod's limit, or
        its neighbour, has for computing. GPUs compute elsewhere, and there every microsecond counts.
        """
        pause = _FIRST_PAUSE_SECONDS
        while not self._cuda and not self._hvd.poll(handle):
            time.sleep(pause)
            pause = min(pause * _LONGER, _LONGEST_PAUSE_SECONDS)
        return self._hvd.synchronize(handle)

    def _start_alltoall(self, tensor: Tensor, splits: list[int], name: str) -> Callable[[], tuple[Tensor, list[int]]]:
        hvd = self._hvd
        handle = hvd.alltoall_async(self._host(tensor), splits=torch.tensor(splits, dtype=torch.int32), name=name)

        def wait() -> tuple[Tensor, list[int]]:
            received, counts = self._ended(handle)
            return received.to(tensor.device), [int(count) for count in counts]

        return wait

    def close(self) -> None:
        """Leave together, so that mpirun sees no rank go missing."""
        self._hvd.shutdown()


class SoloComm(Comm):
    """One rank alone."""

    def __init__(self) -> None:
        super().__init__(0, 1)

    def _start_allreduce_(self, tensors: Sequence[Tensor], name: str) -> Wait:
        return lambda: None

    def broadcast(self, tensor: Tensor, name: str, root: int = 0) -> Tensor:
        """A copy."""
        return tensor.detach().clone()

    def _start_alltoall(self, tensor: Tensor, splits: list[int], name: str) -> Callable[[], tuple[Tensor, list[int]]]:
        received = tensor.clone(), splits
        return lambda: received


def connect(size: int) -> Comm:
    """Horovod's ranks, or one alone where mpirun started nothing; raises ContractError where Horovod disagrees about the size."""
    if size == 1:
        return SoloComm()
    comm = HorovodComm()
    if comm.size != size:
        raise ContractError(
            f"OMPI_COMM_WORLD_SIZE: mpirun started {size} processes but Horovod sees {comm.size}; build Horovod for this Open MPI"
        )
    return comm
