"""What the runs in history teach the cost model, fitted again only where they have changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeVar

import msgspec

from hyperscale.evaluate.calibration.taught_run import TaughtRun
from hyperscale.model.history.corrections import UNLABELLED, Corrections, PredictedPart

if TYPE_CHECKING:
    import sqlalchemy as sql

    from hyperscale.control.history.run_store import RunStore

Text = TypeVar("Text")


class StatedRun(NamedTuple):
    """What the texts of a run's row say."""

    parts: tuple[PredictedPart, ...] = ()
    """Of the epoch that its plan predicted."""
    product_seconds: tuple[tuple[str, float], ...] = ()
    """Compute seconds of the slowest rank on each GPU product; empty where its ranks were not told apart."""


class _Predicted(msgspec.Struct):
    parts: tuple[PredictedPart, ...] = ()


class _Parted(msgspec.Struct):
    predicted: _Predicted


class _Worker(msgspec.Struct):
    rank: Annotated[int, msgspec.Meta(ge=0)]
    gpus: Annotated[int, msgspec.Meta(ge=0)]
    product: str | None = None


class _Placed(msgspec.Struct):
    workers: tuple[_Worker, ...]


class _Timed(msgspec.Struct):
    rankComputeSeconds: tuple[float, ...] = ()  # noqa: N815 - the key in JSON


class Speeds:
    """Corrections by architecture; the same object until other runs teach. Blocking: call it in a thread."""

    def __init__(self) -> None:
        self._runs: tuple[TaughtRun, ...] = ()
        self._taught: Mapping[str, Corrections] = {}

    def learn(self, history: RunStore, least: int) -> Mapping[str, Corrections]:
        """Return what the newest runs teach, by architecture, "" for others; none from fewer than `least`. Raises HistoryError."""
        from hyperscale.evaluate.calibration.speed_fit import MAX_TAUGHT, corrections_of  # numpy, see workload_curves.py

        runs = history.taught_runs(MAX_TAUGHT)
        if runs != self._runs:
            self._runs, self._taught = runs, corrections_of(runs, least)
        return self._taught


def read_taught(connection: sql.Connection, chosen: sql.Select[tuple[str]], stated: dict[str, StatedRun]) -> list[tuple[str, TaughtRun]]:
    """Return chosen runs with their uids, oldest first; `stated` by uid gains those whose texts were not read yet."""
    import sqlalchemy as sql

    from hyperscale.control.history.runs_table import RUNS, row_fault

    figures = (RUNS.c.uid, RUNS.c.namespace, RUNS.c.architecture, RUNS.c.predicted_seconds, RUNS.c.measured_seconds, RUNS.c.compute_seconds)
    rows = connection.execute(sql.select(*figures).where(RUNS.c.uid.in_(chosen)).order_by(RUNS.c.finished_at, RUNS.c.uid)).all()
    rows = [row for row in rows if not row_fault(row._mapping)]
    unread = [row.uid for row in rows if row.uid not in stated]
    if unread:
        for uid, plan, measured in connection.execute(sql.select(RUNS.c.uid, RUNS.c.plan, RUNS.c.measured).where(RUNS.c.uid.in_(unread))):
            stated[uid] = stated_of(plan, measured)
    return [
        (uid, TaughtRun(namespace, architecture, stated[uid].parts, predicted, measured, compute, stated[uid].product_seconds))
        for uid, namespace, architecture, predicted, measured, compute in rows
        if uid in stated  # another operator may have removed the run between both selects
    ]


def stated_of(plan: str, measured: str) -> StatedRun:
    """Return what the JSON of a plan and of what its run measured say; nothing of what cannot be read."""
    parted, placed, timed = _decoded(plan, _Parted), _decoded(plan, _Placed), _decoded(measured, _Timed)
    parts = parted.predicted.parts if parted is not None else ()
    return StatedRun(parts, _by_product(placed.workers, timed.rankComputeSeconds) if placed is not None and timed is not None else ())


def _decoded(text: str, kind: type[Text]) -> Text | None:
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, RecursionError):
        return None


def _by_product(workers: Sequence[_Worker], seconds: Sequence[float]) -> tuple[tuple[str, float], ...]:
    """The slowest rank's of each product, sorted; nothing unless there is one figure for each rank of the plan."""
    if sum(worker.gpus for worker in workers) != len(seconds) or any(worker.rank + worker.gpus > len(seconds) for worker in workers):
        return ()
    slowest: dict[str, float] = {}
    for worker in workers:
        product = worker.product or UNLABELLED
        for each in seconds[worker.rank : worker.rank + worker.gpus]:
            slowest[product] = max(slowest.get(product, 0.0), each)
    return tuple(sorted(slowest.items()))
