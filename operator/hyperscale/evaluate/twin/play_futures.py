"""Thousands of futures of one job, by the compiled module or by its Python twin."""

from __future__ import annotations

import warnings
from typing import Final

import numpy as np

from hyperscale.evaluate.twin import futures_python
from hyperscale.evaluate.twin.job_arrays import horizon_seconds, job_arrays
from hyperscale.evaluate.twin.twin_types import Futures, JobRisk
from hyperscale.util.splitmix import WORD

try:
    from hyperscale.evaluate.twin import _futures
except ImportError:
    _futures = None  # type: ignore[assignment] # the Python twin answers
    warnings.warn("hyperscale.evaluate.twin._futures is not compiled: futures take about 100 times as long", RuntimeWarning, stacklevel=1)

MAX_FUTURES: Final = 10_000_000
"""Of one call: their arrays take about 80 bytes each."""


def play(job: JobRisk, futures: int, seed: int, *, start: int = 0, compiled: bool = True) -> Futures:
    """Return futures start .. start + futures - 1 of a job.

    Future i follows from `job`, `seed` (its lowest 64 bits) and i: the number of futures and their order change nothing.
    Node chances follow from node names: jobs that differ in an interval or a spare share them (common random numbers).
    Raises ValueError with the field and what to write instead.
    """
    if not 1 <= futures <= MAX_FUTURES:
        raise ValueError(f"futures: {futures} is outside 1 to {MAX_FUTURES}; write 10000 for an ordinary answer")
    if not 0 <= start < 2**63:
        raise ValueError(f"start: {start} is no number of a future; write 0 or more")
    arrays = job_arrays(job)
    parts = np.zeros((futures, futures_python.PARTS))
    events = np.zeros((futures, 2), dtype=np.int32)
    delay = np.zeros(len(arrays.key))
    if compiled and _futures is not None:
        _futures.simulate(*arrays, seed & WORD, start, parts, events, delay)
    else:
        futures_python.simulate(arrays, seed & WORD, start, parts, events, delay)
    columns = np.ascontiguousarray(parts.T)
    return Futures(
        horizon_seconds=horizon_seconds(job),
        names=tuple(node.name for node in (*job.nodes, *job.spares)),
        end_seconds=columns[futures_python.END],
        failures=np.ascontiguousarray(events[:, 0]),
        preemptions=np.ascontiguousarray(events[:, 1]),
        useful_seconds=columns[futures_python.USEFUL],
        checkpoint_seconds=columns[futures_python.CHECKPOINT],
        lost_seconds=columns[futures_python.LOST],
        restart_seconds=columns[futures_python.RESTART],
        waiting_seconds=columns[futures_python.WAITING],
        slow_seconds=columns[futures_python.SLOW],
        node_delay_seconds=delay / futures,
    )
