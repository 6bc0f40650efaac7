"""Our rounds (hyperscale.planner.rounds) behind the interface of the simulator of Sia.

What is known of a job is what the simulator gives Sia: goodput functions as learnt so far, one-GPU profiles by type, age, restarts, and
that a restart is under way. Progress, epochs and the true work left are not read.
The seconds of a restart are Sia's own figure (`get_restart_penalty`). Work done is the predicted goodput summed over the rounds.
Unlike Sia, a job also profits from earlier jobs with the same one-GPU profiles: from the speeds that they have measured (`sia_speeds`)
and from the work that they had done when they ended (`planner/rounds/round_history`).
Shapes are Sia's: 1, 2, 4, 8 GPUs in a node, then whole nodes.

A job whose kind never ran is offered up to `FIRST_GPUS` GPUs of one node, with a speed that grows as GPUs^0.9.
"""

# ruff: noqa: ANN401 - the simulator has no types

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import msgspec
import numpy as np

from benchmarks.peers.sia_speeds import Kind, Shape, Shapes, Speeds, kind_of
from hyperscale.planner.rounds.round_check import unsound_round
from hyperscale.planner.rounds.round_history import expected_left
from hyperscale.planner.rounds.round_policy import next_round
from hyperscale.planner.rounds.round_types import GpuOption, GpuPool, RoundGrant, RoundJob, RoundSettings

ROUND_SECONDS: Final = 60.0
FIRST_GPUS: Final = 8
FIRST_SCALING: Final = 0.9
GPU: Final = "nvidia.com/gpu"
NO_RATE: Final = 1e-9
"""Of what a job holds where its model says that it cannot run."""


@dataclass
class _Record:
    """What the policy remembers of a job from round to round."""

    kind: Kind = ()
    work: float = 0.0
    """Work done, in useful examples."""
    goodput: float = 0.0
    """Useful examples a second in the last round."""
    lost_seconds: float = 0.0
    """Of the round that begins: a restart."""
    unchanged_seconds: float = 0.0
    ran: set[Shape] = field(default_factory=set)
    """Shapes that it has run on."""
    model: object = None
    rates: dict[Shape, float] | None = None


def policy_class(settings: Mapping[str, Any]) -> Any:
    """A subclass of the simulator's SiaPolicy that decides by our rounds."""
    sia = importlib.import_module("sia")
    chosen = msgspec.convert(settings, RoundSettings)

    class Rounds(sia.SiaPolicy):  # type: ignore[misc, name-defined] # the simulator is loaded at run time and has no types
        """See the module."""

        records: dict[str, _Record]
        speeds: Speeds
        ended: dict[Kind, list[float]]
        """Work of ended jobs by kind, in useful examples."""

        def optimize(self, jobs: Mapping[str, Any], nodes: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
            """As the simulator calls it: `{job: (type, node of each GPU)}`."""
            self._keep_records(jobs)
            names = list(nodes)
            pools = [GpuPool(name, sum(node.resources[GPU] for node in nodes[name].values())) for name in names]
            question = [
                _job(
                    name,
                    info,
                    _shape(before.get(name), names),
                    self.records[name],
                    shapes_of(self),
                    sia.get_restart_penalty(name),
                    self.speeds,
                    partial(_left, self.ended.get(kind_of(info), ()), chosen),
                )
                for name, info in jobs.items()
            ]
            grants = next_round(question, pools, chosen)
            if wrong := unsound_round(grants, question, pools, chosen):
                raise AssertionError(wrong)
            return _placed(_given(grants, question, self.records), names, nodes)

        def _keep_records(self, jobs: Mapping[str, Any]) -> None:
            """Records of the jobs that are left; the work of those that ended goes to the history of their kind."""
            earlier: dict[str, _Record] = self.__dict__.setdefault("records", {})
            self.ended = self.__dict__.get("ended", {})
            self.speeds = self.__dict__.get("speeds") or Speeds()
            for name, record in earlier.items():
                if name not in jobs and record.work > 0.0:
                    self.ended.setdefault(record.kind, []).append(record.work + record.goodput * ROUND_SECONDS / 2)
            self.records = {name: earlier.get(name) or _Record(kind=kind_of(info)) for name, info in jobs.items()}

    return Rounds


def shapes_of(policy: Any) -> Shapes:
    """Sia's shapes: type, its GPUs a node, nodes, GPUs."""
    return [
        (name, policy.cluster_ngpus_per_node[name], int(count), int(gpus))
        for name in policy.cluster_ordering
        for count, gpus in zip(*policy.configs[name], strict=True)
    ]


def _shape(given: tuple[str | None, Sequence[int]] | None, names: Sequence[str]) -> Shape | None:
    return None if given is None or given[0] is None else (names.index(given[0]), len(given[1]))


def _job(
    name: str,
    info: Any,
    held: Shape | None,
    record: _Record,
    shapes: Shapes,
    restart: float,
    speeds: Speeds | None = None,
    left: Callable[[float, float], float] | None = None,
) -> RoundJob:
    """The job as the rounds ask for it; its record counts the round that has passed."""
    rates = _known_rates(info, held, record, shapes, speeds or Speeds())
    single = max((rate for (_, gpus), rate in rates.items() if gpus == 1), default=0.0)
    if single <= 0.0:
        single = max((rate / gpus for (_, gpus), rate in rates.items()), default=1.0)
    scale = 1.0
    if held is not None:
        seconds = ROUND_SECONDS - min(record.lost_seconds, ROUND_SECONDS)
        record.goodput = _goodput(info, held, shapes, rates[held])
        record.work += seconds * record.goodput
        record.lost_seconds = max(record.lost_seconds - ROUND_SECONDS, 0.0)
        scale = rates[held] / record.goodput
    record.unchanged_seconds += ROUND_SECONDS
    options = tuple(GpuOption(pool, gpus, rate) for (pool, gpus), rate in sorted(rates.items()))
    current = None if held is None else sorted(rates).index(held)
    return RoundJob(
        name,
        options,
        current,
        attained=record.work * scale,
        remaining=None if left is None else left(record.work, single / scale) * scale,
        restart_seconds=float(restart),
        unchanged_seconds=record.unchanged_seconds,
        movable=not info.scaling_underway,
    )


def _known_rates(info: Any, held: Shape | None, record: _Record, shapes: Shapes, speeds: Speeds) -> dict[Shape, float]:
    """Rate of each shape, computed again where the job or one of its kind has measured something new."""
    if held is not None and not info.scaling_underway:
        name, per_node = _type_of(held, shapes)
        if info.speedup_fn[name] is not None:
            record.ran.add(held)
        speeds.measured(info, name, held, per_node, record.ran)
    model = (_model(info), speeds.versions.get(record.kind, 0))
    if record.rates is None or model != record.model:
        record.model, record.rates = model, speeds.shared(info, _rates(info, shapes), record.ran, shapes)
    return record.rates if held is None else {held: NO_RATE} | record.rates


def _type_of(held: Shape, shapes: Shapes) -> tuple[str, int]:
    """Type of a shape and its GPUs a node."""
    return list({name: size for name, size, *_ in shapes}.items())[held[0]]


def _goodput(info: Any, held: Shape, shapes: Shapes, rate: float) -> float:
    """Useful examples a second of what the job holds, by its present statistics; `rate` where nothing is learnt there."""
    name, per_node = _type_of(held, shapes)
    if info.speedup_fn[name] is None:
        return rate
    goodput = float(_learned(info, name, name, np.array([-(-held[1] // per_node)]), np.array([held[1]]))[0])
    return goodput if 0.0 < goodput < np.inf else rate


def _left(ended: Sequence[float], settings: RoundSettings, work: float, rate: float) -> float:
    """Work left of a job that has done `work`; `rate`: its speed on the fastest single GPU."""
    return expected_left(ended, work, settings.prior_seconds * rate, settings.growth)


def _model(info: Any) -> object:
    """What the speeds of a job come from, for comparison: with a fixed batch only its speed parameters change their ratios."""
    models = [(name, fn) for name, fn in info.speedup_fn.items() if fn is not None]
    return [(name, fn._goodput_fn._perf_params, fn._goodput_fn._grad_params if fn.tune_bsz else None) for name, fn in models]


def _rates(info: Any, shapes: Shapes) -> dict[Shape, float]:
    """Goodput of each shape; of a type where the job never ran, projected as Sia does."""
    per_node = {name: size for name, size, *_ in shapes}
    names = list(per_node)
    learned = [name for name in names if info.speedup_fn[name] is not None]
    rates: dict[Shape, float] = {}
    for pool, name in enumerate(names):
        gpus = np.array([count for kind, _, _, count in shapes if kind == name])
        if learned:
            source = name if name in learned else learned[0]
            goodput = _learned(info, name, source, np.ceil(gpus / per_node[source]), gpus)
        else:
            goodput = _first(info.cluster_throughputs[name], gpus, min(FIRST_GPUS, per_node[name]))
        rates |= dict(zip(((pool, int(count)) for count in gpus), goodput.tolist(), strict=True))
    return {shape: rate for shape, rate in rates.items() if 0.0 < rate < np.inf}


def _first(profile: float, gpus: Any, most: int) -> Any:
    """Expected goodput of a job that never ran; 0 for more GPUs than it may start on."""
    return np.where(gpus <= most, profile * gpus**FIRST_SCALING, 0.0)


def _learned(info: Any, name: str, source: str, nodes: Any, gpus: Any) -> Any:
    """Goodput on `name` by what the job has learnt on `source`."""
    goodput = info.speedup_fn[source].get_goodput(nodes.astype(np.float32), gpus.astype(np.float32))
    return np.asarray(goodput, dtype=np.float64) * (1.0 if source == name else info.cluster_throughput_ratios[name][source])


def _given(grants: Sequence[RoundGrant], question: Sequence[RoundJob], records: Mapping[str, _Record]) -> dict[str, Shape]:
    """Shape of each job that is given GPUs; records of those that change start again."""
    jobs = {job.key: job for job in question}
    given = {}
    for grant in grants:
        job = jobs[grant.key]
        if grant.changes:
            records[grant.key].unchanged_seconds = 0.0
            records[grant.key].lost_seconds = job.restart_seconds
        if grant.option is not None:
            given[grant.key] = (job.options[grant.option].pool, job.options[grant.option].gpus)
    return given


def _placed(given: Mapping[str, Shape], names: Sequence[str], nodes: Mapping[str, Any]) -> dict[str, Any]:
    """Nodes of each job, the largest first, each on the fullest node that holds it. The same shape on other nodes costs nothing here."""
    free = [{index: node.resources[GPU] for index, node in sorted(nodes[name].items())} for name in names]
    placed = {}
    for key, (pool, gpus) in sorted(given.items(), key=lambda item: (-item[1][1], item[0])):
        room = free[pool]
        largest = min(gpus, max(node.resources[GPU] for node in nodes[names[pool]].values()))
        ids: list[int] = []
        while len(ids) < gpus:
            node = min((index for index in room if room[index] >= largest), key=lambda index: (room[index], index))
            room[node] -= largest
            ids += [node] * largest
        placed[key] = (names[pool], ids)
    return placed
