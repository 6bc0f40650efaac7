"""What a running job says of itself: progress while it runs, the result at its end."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

RESULT_PREFIX = "hyperscale-result: "
"""Rank 0 prints one line that begins so at its end; the launcher keeps its JSON as termination message."""

MOST_PHASES: Final = 12
MOST_PAIRS: Final = 16
"""The result has to fit a termination message, 4096 bytes, whatever the number of ranks."""
MOST_TIMED_RANKS: Final = 64
"""Likewise. Of more ranks only the slowest one's figures are kept."""
MOST_RANKS: Final = 10**6
SHORTEST_SECONDS: Final = 1e-9
LONGEST_SECONDS: Final = 1e8
"""A nanosecond or three years for an epoch are no measurement."""
MOST_BYTES: Final = 1e18
"""In an epoch; also of samples in a second."""


class PhaseSeconds(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A phase of an epoch, as `hyperscale_training_phase_seconds` names it."""

    phase: Annotated[str, Meta(min_length=1, max_length=24)]
    seconds: Annotated[float, Meta(ge=0.0)]


class PairBytes(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What one rank sends another in an epoch."""

    sender: Annotated[int, Meta(ge=0, le=MOST_RANKS)]
    receiver: Annotated[int, Meta(ge=0, le=MOST_RANKS)]
    bytes: Annotated[float, Meta(ge=0.0)]


class Measured(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Progress of one run; `GNNTrainingJob.status.measured`."""

    epoch: int
    """Finished epochs."""
    epochs: int
    """Asked for."""
    loss: float | None = None
    """Of the last epoch, over all training vertices."""
    accuracy: float | None = None
    """On the test vertices, 0..1, at the epoch that was best on the validation vertices; ROC-AUC for graphs with one yes-or-no task."""
    validation_accuracy: float | None = None
    epoch_seconds: float | None = None
    """Median of the epochs after the first."""
    compute_seconds: float | None = None
    """Of an epoch, the slowest rank's."""
    rank_compute_seconds: Annotated[tuple[Annotated[float, Meta(ge=0.0)], ...], Meta(max_length=MOST_TIMED_RANKS)] = ()
    """Of an epoch by MPI rank: who waits for whom. Empty with one rank, or more than 64."""
    communication_seconds: float | None = None
    """Of an epoch: halo, fetches and exposed allreduce of the slowest rank."""
    samples_per_second: float | None = None
    peer_bytes: float | None = None
    """Bytes that all ranks sent each other in one epoch."""
    phases: Annotated[tuple[PhaseSeconds, ...], Meta(max_length=MOST_PHASES)] = ()
    """Mean of the epochs after the first, of the rank that computes longest."""
    busiest_pairs: Annotated[tuple[PairBytes, ...], Meta(max_length=MOST_PAIRS)] = ()
    """Mean of the epochs after the first, most bytes first; pairs that send less than these are left out."""
    resumed_epoch: int | None = None
    """Epoch of the checkpoint that the run went on from."""
    finished: bool = False
    generated: bool = False
    """The builtin graph was not found and a generated one of its size was trained on: accuracy says nothing of the builtin one."""

    host_staging: bool = False
    """Ranks on GPUs sent everything through host memory, since the image's Horovod knows no GPU."""

    def without_pace(self) -> Measured:
        """How far the run is, without what depends on its workers and their nodes."""
        return msgspec.structs.replace(
            self,
            epoch_seconds=None,
            compute_seconds=None,
            rank_compute_seconds=(),
            communication_seconds=None,
            samples_per_second=None,
            peer_bytes=None,
            phases=(),
            busiest_pairs=(),
        )
