"""What a running job says of itself: progress while it runs, the result at its end."""

from __future__ import annotations

import msgspec

RESULT_PREFIX = "hyperscale-result: "
"""Rank 0 prints one line that begins so at its end; the launcher keeps its JSON as termination message."""


class Measured(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
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
    communication_seconds: float | None = None
    """Of an epoch: boundary, fetches and exposed allreduce of the slowest rank."""
    samples_per_second: float | None = None
    peer_bytes: float | None = None
    """Bytes that all ranks sent each other in one epoch."""
    resumed_epoch: int | None = None
    """Epoch of the checkpoint that the run went on from."""
    finished: bool = False
    generated: bool = False
    """The builtin graph was not found and a generated one of its size was trained on: accuracy says nothing of the builtin one."""
