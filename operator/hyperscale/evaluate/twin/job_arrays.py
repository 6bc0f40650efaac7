"""A job at risk as the arrays that its futures are played from, and what is wrong with one that makes no sense."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from hyperscale.evaluate.twin.life_laws import NEVER_SECONDS, TABLED, check_law, hazard_table, tail_mean_seconds
from hyperscale.evaluate.twin.twin_types import SMALL_INTERVAL_SECONDS, JobRisk, LawFamily, LifeLaw, NodeRisk
from hyperscale.model.graph import FloatArray

Int32Array = npt.NDArray[np.int32]

MAX_STRETCH: Final = 20.0
"""Horizon where a job states none, in times without failures."""
MAX_FAILURES: Final = 100_000
"""Of one future: a job that fails more often is played no further and counts as past the horizon."""
FIXED, WEIBULL, TABLE = 0, 1, 2
"""Kinds of laws: a stated time, a closed form, a table of the cumulative hazard."""
MIN_READY_SECONDS: Final = 1e-300
"""When a repaired node is ready at the earliest; 0 marks a spare that has not joined yet and keeps its age."""
PREEMPTION_KEY: Final = "preemption/"
"""No node has this name: a slash is in no Kubernetes name."""
SEGMENT_SLACK: Final = 1e-9
"""Of an interval: work that ends so near to a checkpoint ends with it."""


class JobArrays(NamedTuple):
    """What `simulate` of `_futures` and `futures_python` takes, in this order."""

    kind: Int32Array
    """(laws,)"""
    law: FloatArray
    """(2, laws) scale in seconds (of a table: mean beyond its last row), shape."""
    table: Int32Array
    """(laws + 1,) first row of each law's table."""
    rows: FloatArray
    """(2, rows) ages in seconds, cumulative hazards."""
    first: Int32Array
    """(members + 1,) first entry of each node in `law_of`."""
    law_of: Int32Array
    """(entries,)"""
    repair: Int32Array
    """(members,) law."""
    member: FloatArray
    """(2, members) age in seconds, lemon factor."""
    key: npt.NDArray[np.uint64]
    """(members + 1,) from the names; the last is preemption's."""
    period_node: Int32Array
    """(periods,) at least one, which `counts` may leave out."""
    period: FloatArray
    """(periods, 3) start, end in seconds, factor."""
    figures: FloatArray
    """(7,) segments, interval, work of the last segment, write, restart, horizon, mean seconds to a preemption."""
    counts: Int32Array
    """(4,) nodes, periods, most failures, law of preemption or -1."""


def horizon_seconds(job: JobRisk) -> float:
    """Return the time that futures are followed for."""
    if job.horizon_seconds is not None:
        return job.horizon_seconds
    slowest = max((period.factor for node in (*job.nodes, *job.spares) for period in node.slowdowns), default=1.0)
    return MAX_STRETCH * (job.work_seconds * slowest + _segments(job)[0] * job.write_seconds)


def _segments(job: JobRisk) -> tuple[float, float, float]:
    """Number of segments, work of each but the last, work of the last, in seconds. A checkpoint follows each."""
    interval = min(job.checkpoint_interval_seconds, job.work_seconds)
    count = max(1.0, math.ceil(job.work_seconds / interval - SEGMENT_SLACK))
    return count, interval, job.work_seconds - (count - 1.0) * interval


def name_key(name: str) -> int:
    """Return 64 bits that follow from a name alone: the stream of a node's random numbers."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")


def job_arrays(job: JobRisk) -> JobArrays:
    """Return `job` as arrays. Raises ValueError as `check_job` does."""
    check_job(job)
    members = (*job.nodes, *job.spares)
    laws = _Laws()
    lists = [[laws.index(law) for _, law in sorted(node.laws.items()) if not math.isinf(law.scale_seconds)] for node in members]
    repair = [laws.index(node.repair) for node in members]
    preempt_law, preempt_mean = _preemption(job, laws)
    period_node, period = _periods(members)
    kind, law, table, rows = laws.arrays()
    return JobArrays(
        kind=kind,
        law=law,
        table=table,
        rows=rows,
        first=np.cumsum([0, *map(len, lists)], dtype=np.int32),
        law_of=np.array([*itertools.chain.from_iterable(lists), 0], dtype=np.int32),
        repair=np.array(repair, dtype=np.int32),
        member=np.array([[node.age_seconds for node in members], [node.lemon_factor for node in members]]),
        key=np.array([name_key(name) for name in (*(node.name for node in members), PREEMPTION_KEY)], dtype=np.uint64),
        period_node=period_node,
        period=period,
        figures=np.array([*_segments(job), job.write_seconds, job.restart_seconds, horizon_seconds(job), preempt_mean]),
        counts=np.array([len(job.nodes), len(period) - 1, MAX_FAILURES, preempt_law], dtype=np.int32),
    )


def _preemption(job: JobRisk, laws: _Laws) -> tuple[int, float]:
    """Law of the length of preemptions, -1 where there is none, and mean seconds to the next."""
    if job.preemption is None or job.preemption.per_second <= 0.0:
        return -1, math.inf
    return laws.index(job.preemption.length), 1.0 / job.preemption.per_second


def _periods(members: Sequence[NodeRisk]) -> tuple[Int32Array, FloatArray]:
    """(periods + 1,) nodes and (periods + 1, 3) start, end, factor of periods in which a node is slow; the last row stands for none."""
    rows = [(at, period) for at, node in enumerate(members) for period in node.slowdowns if period.factor > 1.0]
    figures = [(period.start_seconds, period.end_seconds, period.factor) for _, period in rows]
    return np.array([*(at for at, _ in rows), 0], dtype=np.int32), np.array([*figures, (0.0, 0.0, 1.0)])


class _Laws:
    """Distinct laws in the order of their first use."""

    def __init__(self) -> None:
        self._laws: dict[LifeLaw, int] = {}

    def index(self, law: LifeLaw) -> int:
        return self._laws.setdefault(law, len(self._laws))

    def arrays(self) -> tuple[Int32Array, FloatArray, Int32Array, FloatArray]:
        kinds, scales, shapes, starts = [], [], [], [0]
        rows = [np.zeros((2, 0))]
        for law in self._laws:
            tabled = law.family in TABLED
            kinds.append(TABLE if tabled else FIXED if law.family == LawFamily.FIXED else WEIBULL)
            scales.append(tail_mean_seconds(law) if tabled else min(law.scale_seconds, NEVER_SECONDS))
            shapes.append(law.shape if law.family == LawFamily.WEIBULL else 1.0)
            if tabled:
                rows.append(np.stack(hazard_table(law)))
            starts.append(starts[-1] + (rows[-1].shape[1] if tabled else 0))
        table = np.concatenate([*rows, np.zeros((2, 1))], axis=1)
        return np.array(kinds, dtype=np.int32), np.array([scales, shapes]), np.array(starts, dtype=np.int32), np.ascontiguousarray(table)


def check_job(job: JobRisk) -> None:
    """Raise ValueError with the field and what to write instead, where a job's figures make no sense."""
    if not job.nodes:
        raise ValueError("nodes: a job needs at least one node")
    positive = {"work_seconds": job.work_seconds, "checkpoint_interval_seconds": job.checkpoint_interval_seconds}
    if job.epoch_seconds is not None:
        positive["epoch_seconds"] = job.epoch_seconds
    for field, value in positive.items():
        _check_figure(field, value, SMALL_INTERVAL_SECONDS)
    if job.horizon_seconds is not None:
        _check_figure("horizon_seconds", job.horizon_seconds, SMALL_INTERVAL_SECONDS)
    _check_figure("write_seconds", job.write_seconds, 0.0)
    _check_figure("restart_seconds", job.restart_seconds, 0.0)
    if job.preemption is not None:
        _check_figure("preemption.per_second", job.preemption.per_second, 0.0)
        check_law(job.preemption.length, "preemption.length")
    _check_nodes("nodes", job.nodes)
    _check_nodes("spares", job.spares)
    names = [node.name for node in (*job.nodes, *job.spares)]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f'nodes: "{twice}" is there twice; give every node and spare a name of its own')


def _check_nodes(field: str, nodes: Sequence[NodeRisk]) -> None:
    for at, node in enumerate(nodes):
        path = f"{field}[{at}]"
        if not node.name or "/" in node.name:
            raise ValueError(f'{path}.name: "{node.name}" is no node name; write one without a slash')
        _check_figure(f"{path}.age_seconds", node.age_seconds, 0.0)
        if not 0.0 < node.lemon_factor < math.inf:
            raise ValueError(f"{path}.lemon_factor: {node.lemon_factor} is not above 0; write 1 for an ordinary node")
        check_law(node.repair, f"{path}.repair")
        for cause, law in node.laws.items():
            check_law(law, f"{path}.laws.{cause}")
        for number, period in enumerate(node.slowdowns):
            if not 1.0 <= period.factor < math.inf or not 0.0 <= period.start_seconds <= period.end_seconds:
                raise ValueError(f"{path}.slowdowns[{number}]: write a factor of at least 1, and a start that is not after the end")


def _check_figure(field: str, value: float, least: float) -> None:
    if not value >= least or (math.isinf(value) and field != "checkpoint_interval_seconds"):
        raise ValueError(f"{field}: {value} is not a finite number of at least {least:g}; write it in seconds, a rate per second")
