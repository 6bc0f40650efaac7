"""The table of finished runs: one row a run, keyed by its job's uid, which rows can be read, and which teach predictions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, TypeAlias, get_args

import msgspec
import sqlalchemy as sql
from msgspec.structs import FieldInfo, fields

from hyperscale.model.api.measured import LONGEST_SECONDS, SHORTEST_SECONDS
from hyperscale.model.history.corrections import COST_MODEL
from hyperscale.model.history.step_curves import ABSURD_RATIO, Workload

SUCCEEDED: Final = "Succeeded"
SHARES: Final = 4
"""Where several namespaces have runs, one has a claim to the number of runs that count over this: none replaces what others teach."""


class FinishedRun(msgspec.Struct, frozen=True, rename="camel"):
    """One finished run."""

    uid: str
    """Of the GNNTrainingJob."""
    namespace: str
    name: str
    finished_at: float
    """Unix seconds."""
    phase: str
    """Succeeded or Failed. The name of the column in databases that earlier versions wrote."""
    architecture: str
    layers: int
    hidden_size: int
    batch_size: int | None
    vertices: int
    edges: int
    feature_size: int
    method: str
    workers: int
    gpus: int
    products: str
    """Of its GPUs, as in `Calibration.products`."""
    planner: str
    plan_id: str
    replans: int
    predicted_seconds: float
    """Of one epoch, uncorrected."""
    correction: float
    """What the prediction that was shown had been multiplied with."""
    measured_seconds: float | None
    compute_seconds: float | None
    communication_seconds: float | None
    accuracy: float | None
    epochs: int
    plan: str
    """JSON of the plan in force at the end."""
    measured: str
    """JSON of `status.measured`."""
    hosts: int | None = None
    """Nodes of the plan. This figure and those below are absent in rows of earlier versions."""
    low_seconds: float | None = None
    """95 % range of an epoch, as the plan stated it."""
    high_seconds: float | None = None
    evaluation: str | None = None
    """JSON of `status.evaluation` as it was before the run; absent where the plan was not evaluated."""
    run_seconds: float | None = None
    """From the start of the run to its end; absent where a time is unknown."""
    deadline_seconds: float | None = None
    """For `run_seconds`; absent without a deadline."""
    restarts: int | None = None
    """Times that the run began again after a failure."""
    preemptions: int | None = None
    """Times that it was stopped for others."""
    created_at: float | None = None
    """Unix seconds, when the job was created: the arrival that `hyperscale learn queue` learns from."""

    @property
    def ended_in_time(self) -> bool | None:
        """Whether it succeeded by its deadline; None without a deadline, or without the times to say so."""
        if self.deadline_seconds is None:
            return None
        if self.phase != SUCCEEDED:
            return False
        return None if self.run_seconds is None else self.run_seconds <= self.deadline_seconds

    @property
    def ratio(self) -> float | None:
        """Measured / uncorrected prediction; None where either is missing or can be no time of an epoch."""
        seconds = (self.measured_seconds or 0.0, self.predicted_seconds)
        return seconds[0] / seconds[1] if all(SHORTEST_SECONDS <= each <= LONGEST_SECONDS for each in seconds) else None


Texts: TypeAlias = sql.ColumnElement[Any]
_KINDS: Final[dict[type, Any]] = {str: sql.Text, int: sql.BigInteger, float: sql.Double}
METADATA: Final = sql.MetaData()


def _column(field: FieldInfo) -> sql.Column[Any]:
    members = get_args(field.type) or (field.type,)
    kind = next(_KINDS[member] for member in members if member in _KINDS)
    return sql.Column(field.name, kind, primary_key=field.name == "uid", nullable=type(None) in members)


RUNS: Final = sql.Table("hyperscale_runs", METADATA, *map(_column, fields(FinishedRun)))
sql.Index("hyperscale_runs_taught", RUNS.c.architecture, RUNS.c.finished_at)
sql.Index("hyperscale_runs_newest", RUNS.c.finished_at.desc(), RUNS.c.uid)
sql.Index(  # with all figures that choose the runs that teach: the rows, with their texts, are read of these only
    "hyperscale_runs_figures",
    *(RUNS.c[name] for name in Workload._fields),
    RUNS.c.finished_at,
    RUNS.c.uid,
    *(RUNS.c[name] for name in ("namespace", "phase", "replans", "measured_seconds", "predicted_seconds")),
)
TEACHING_FIGURES: Final = (
    RUNS.c.phase == SUCCEEDED,
    RUNS.c.replans == 0,
    RUNS.c.measured_seconds.between(SHORTEST_SECONDS, LONGEST_SECONDS),
    RUNS.c.predicted_seconds.between(SHORTEST_SECONDS, LONGEST_SECONDS),
)
"""Read without the texts of a row, which are its largest part."""
PLAUSIBLE_FIGURES: Final = (
    *TEACHING_FIGURES,
    RUNS.c.measured_seconds.between(RUNS.c.predicted_seconds / ABSURD_RATIO, RUNS.c.predicted_seconds * ABSURD_RATIO),
)
"""Of runs that correct predictions. Others are still scored: a prediction that was far off was one."""


def predicted_now(plan: Texts) -> sql.ColumnElement[bool]:
    """Whether today's cost model predicted a run. The text is msgspec's, without spaces."""
    return sql.or_(*(plan.like(f'%"costModel":{COST_MODEL}{end}%') for end in ",}"))


def teaching_texts(plan: Texts, measured: Texts) -> tuple[sql.ColumnElement[bool], ...]:
    """What the texts of a run that teaches say."""
    return (
        # A stand-in has the size of the graph that was predicted for, not its cut.
        measured.not_like('%"generated":true%'),
        # What is predicted is the way between GPUs; copies through host memory say nothing about that way.
        measured.not_like('%"hostStaging":true%'),
        predicted_now(plan),
    )


def with_texts(searched: Any, *, parts: bool = False) -> sql.ColumnElement[bool]:  # noqa: ANN401 - a select of uids
    """The runs among `searched` whose texts teach; parts: whose plan states its parts too.

    The OFFSET keeps PostgreSQL from reading the texts of all runs first: it does not move conditions into a subquery that has one.
    """
    few = sql.select(RUNS.c.uid, RUNS.c.plan, RUNS.c.measured).where(RUNS.c.uid.in_(searched)).offset(0).subquery()
    conditions = (*teaching_texts(few.c.plan, few.c.measured), *((few.c.plan.like('%"parts":[%'),) if parts else ()))
    return RUNS.c.uid.in_(sql.select(few.c.uid).where(*conditions))


TEACHES: Final = (*TEACHING_FIGURES, *teaching_texts(RUNS.c.plan, RUNS.c.measured))
NEWEST_FIRST: Final = (RUNS.c.finished_at.desc(), RUNS.c.uid)


def newest(limit: int, *conditions: sql.ColumnElement[bool]) -> sql.Select[tuple[str]]:
    """Uids of the newest runs that fit; the newest quarter of `limit` of each namespace goes before what others have beyond theirs."""
    own_place = sql.func.row_number().over(partition_by=RUNS.c.namespace, order_by=NEWEST_FIRST).label("own_place")
    placed_runs = sql.select(RUNS.c.uid, RUNS.c.finished_at, own_place).where(*conditions).subquery()
    beyond = sql.case((placed_runs.c.own_place > max(1, limit // SHARES), 1), else_=0)
    return sql.select(placed_runs.c.uid).order_by(beyond, placed_runs.c.finished_at.desc(), placed_runs.c.uid).limit(limit)


def newest_of_mixes(limit: int, *conditions: sql.ColumnElement[bool]) -> sql.Select[Any]:
    """The newest runs that fit, `limit` of each architecture and mix of products, with their namespace and their place among them.

    A namespace has at most the quarter of them, unless it is the only one.
    """
    mix = (RUNS.c.architecture, RUNS.c.products)
    own_place = sql.func.row_number().over(partition_by=(*mix, RUNS.c.namespace), order_by=NEWEST_FIRST)
    first, last = (end(RUNS.c.namespace).over(partition_by=mix) for end in (sql.func.min, sql.func.max))
    figures = (RUNS.c.namespace, RUNS.c.measured_seconds, RUNS.c.predicted_seconds, RUNS.c.finished_at, RUNS.c.uid)
    labels = (own_place.label("own_place"), first.label("first_namespace"), last.label("last_namespace"))
    shared = sql.select(*mix, *figures, *labels).where(*conditions).subquery()
    among = (shared.c.architecture, shared.c.products)
    place = sql.func.row_number().over(partition_by=among, order_by=(shared.c.finished_at.desc(), shared.c.uid)).label("place")
    counted = sql.or_(shared.c.own_place <= limit // SHARES, shared.c.first_namespace == shared.c.last_namespace)
    chosen = (shared.c.uid, shared.c.namespace, shared.c.measured_seconds, shared.c.predicted_seconds)
    placed_runs = sql.select(*among, *chosen, place).where(counted).subquery()
    return sql.select(placed_runs).where(placed_runs.c.place <= limit)


def latest_workloads(limit: int, least: int, *conditions: sql.ColumnElement[bool]) -> sql.Select[Any]:
    """Workloads with at least `least` runs that fit: of each namespace the one that ran last, then of each the next one, and so on."""
    names = Workload._fields
    columns = [RUNS.c[name] for name in names]
    counted = sql.select(
        *columns, RUNS.c.namespace, sql.func.count().label("runs"), sql.func.max(RUNS.c.finished_at).label("latest")
    ).where(*conditions)
    each = counted.group_by(*columns, RUNS.c.namespace).subquery()
    whole = sql.select(each, sql.func.sum(each.c.runs).over(partition_by=[each.c[name] for name in names]).label("all_runs")).subquery()
    workload = [whole.c[name] for name in names]
    own_place = sql.func.row_number().over(partition_by=whole.c.namespace, order_by=(whole.c.latest.desc(), *workload))
    ranked = sql.select(*workload, whole.c.latest, own_place.label("own_place")).where(whole.c.all_runs >= least).subquery()
    asked = [ranked.c[name] for name in names]
    order = (sql.func.min(ranked.c.own_place), sql.func.max(ranked.c.latest).desc(), *asked)
    return sql.select(*asked).group_by(*asked).order_by(*order).limit(limit)


_ROW_KINDS: Final[dict[str, tuple[type, ...]]] = {field.name: get_args(field.type) or (field.type,) for field in fields(FinishedRun)}
_SMALLEST: Final = {"batch_size": 1, "vertices": 0, "edges": 0, "workers": 0, "gpus": 0}
_NAMES: Final[dict[type, str]] = {str: "text", int: "whole number", float: "finite number"}


def row_fault(row: Mapping[Any, object]) -> str:
    """Return what is wrong with the first bad column of a row, without its value; "" where all can be read. Other columns are ignored."""
    for name, value in row.items():
        kinds = _ROW_KINDS.get(name)
        if kinds is not None and not _fits(value, kinds):
            kind = next(_NAMES[each] for each in kinds if each in _NAMES)
            return f"its {name} is no {kind}"
        if isinstance(value, int) and value < _SMALLEST.get(name, value):
            return f"its {name} is below {_SMALLEST[name]}"
    return ""


def _fits(value: object, kinds: tuple[type, ...]) -> bool:
    if isinstance(value, float):
        return float in kinds and math.isfinite(value)
    if isinstance(value, int):
        return int in kinds or float in kinds
    return isinstance(value, kinds)
