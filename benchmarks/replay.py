"""A replay of job traces over GPUs of several types, in rounds: the same for every policy.

A round lasts 360 s as in Gavel (OSDI 2020). A job that arrives or ends inside one is seen at the next; its GPUs stay its own until then.
A job that starts, or starts again elsewhere, loses `restart_seconds`. Hosts have 4 GPUs: a job inside one host runs at the packed speed,
else at the spread one. Where a job would be spread, a policy that packs has the jobs of that type packed again (they restart); the jobs of
the others stay where they are until they are stopped.
"""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

HOST_GPUS: Final = 4
TYPES: Final = ("k80", "p100", "v100")
LARGEST_ROUNDS: Final = 20_000
"""A replay this long has a policy that starves a job for ever."""


@dataclass(frozen=True)
class Job:
    """One job of a trace."""

    number: int
    arrival: float
    """Seconds."""
    gpus: int
    steps: float
    weight: float
    packed: tuple[float, ...]
    """Steps a second by type, all GPUs on one host; 0: does not run there."""
    spread: tuple[float, ...]
    """The same over several hosts."""

    @property
    def best_seconds(self) -> float:
        """The whole run alone on the fastest type."""
        return self.steps / max(self.packed)


@dataclass(frozen=True)
class Cluster:
    """GPUs of each type, a multiple of `HOST_GPUS`."""

    gpus: tuple[int, ...]
    round_seconds: float = 360.0
    restart_seconds: float = 30.0


@dataclass(frozen=True)
class Running:
    """Where a job ran in the last round."""

    kind: int
    gpus: int
    hosts: tuple[int, ...]
    """One entry a GPU."""

    @property
    def is_spread(self) -> bool:
        """On more than one host."""
        return len(set(self.hosts)) > 1

    def speed(self, job: Job) -> float:
        """Steps a second."""
        return (job.spread if self.is_spread else job.packed)[self.kind]


class Policy(Protocol):
    """Who decides."""

    name: str

    @property
    def packs(self) -> bool:
        """Whether running jobs are packed again where one would be spread."""
        ...

    def decide(
        self, now: float, jobs: Sequence[Job], left: Mapping[int, float], running: dict[int, Running], cluster: Cluster
    ) -> dict[int, int]:
        """Type of GPU of every job that shall run from `now`, by number; `left` are steps, `running` what ran in the last round.

        A job that is taken out of `running` has been stopped: it restarts, wherever it starts.
        """
        ...


@dataclass
class Outcome:
    """What a replay measured."""

    finished: dict[int, float] = field(default_factory=dict)
    """Seconds since the trace began."""
    decision_seconds: list[float] = field(default_factory=list)
    restarts: int = 0
    spread_rounds: int = 0

    def completion(self, jobs: Sequence[Job]) -> list[float]:
        """Seconds from arrival to end, in the order of `jobs`."""
        return [self.finished[job.number] - job.arrival for job in jobs]


def read_trace(folder: Path, name: str) -> list[Job]:
    """Jobs of `trace_<name>.csv` with the speeds of throughputs.json. FileNotFoundError, ValueError: a job that runs nowhere."""
    speeds = json.loads((folder / "throughputs.json").read_text())
    jobs = []
    with (folder / f"trace_{name}.csv").open(newline="") as stream:
        for row in csv.DictReader(stream):
            key = f"('{row['job_type']}', {row['scale_factor']})"
            packed = tuple(float(speeds[kind].get(key, {}).get("null", 0.0)) for kind in TYPES)
            spread = tuple(float(speeds[f"{kind}_unconsolidated"].get(key, {}).get("null", 0.0)) for kind in TYPES)
            if max(packed) <= 0.0:
                raise ValueError(f"{key} of trace {name} has no speed on any type")
            number, gpus = int(row["job"]), int(row["scale_factor"])
            steps, weight = float(row["total_steps"]), float(row["priority_weight"])
            jobs.append(Job(number, float(row["arrival_time_s"]), gpus, steps, weight, packed, spread if gpus > 1 else packed))
    return jobs


def replay(jobs: Sequence[Job], cluster: Cluster, policy: Policy) -> Outcome:
    """Run a trace to its end. RuntimeError: a job never ends."""
    outcome = Outcome()
    left = {job.number: job.steps for job in jobs}
    by_number = {job.number: job for job in jobs}
    running: dict[int, Running] = {}
    number = 0
    for _ in range(LARGEST_ROUNDS):
        now = number * cluster.round_seconds
        unfinished = [job for job in jobs if job.number in left]
        if not unfinished:
            return outcome
        active = [job for job in unfinished if job.arrival <= now]
        if not active:
            number = max(number + 1, int(min(job.arrival for job in unfinished) // cluster.round_seconds))
            running = {}
            continue
        began = time.perf_counter()
        chosen = policy.decide(now, active, dict(left), running, cluster)
        placed = place(chosen, by_number, running, cluster, may_move=policy.packs)
        outcome.decision_seconds.append(time.perf_counter() - began)
        running = _advance(now, placed, running, by_number, left, outcome, cluster)
        number += 1
    raise RuntimeError(f"{policy.name}: {len(left)} jobs are not done after {LARGEST_ROUNDS} rounds")


def _advance(
    now: float,
    placed: Mapping[int, Running],
    before: Mapping[int, Running],
    jobs: Mapping[int, Job],
    left: dict[int, float],
    outcome: Outcome,
    cluster: Cluster,
) -> dict[int, Running]:
    """Let the placed jobs run for a round; those that have not ended."""
    for key, run in placed.items():
        stays = before.get(key) == run
        outcome.restarts += not stays
        outcome.spread_rounds += run.is_spread
        lost = 0.0 if stays else cluster.restart_seconds
        speed = run.speed(jobs[key])
        if left[key] <= speed * (cluster.round_seconds - lost):
            outcome.finished[key] = now + lost + left.pop(key) / speed
        else:
            left[key] -= speed * (cluster.round_seconds - lost)
    return {key: run for key, run in placed.items() if key in left}


def place(
    chosen: Mapping[int, int], jobs: Mapping[int, Job], running: Mapping[int, Running], cluster: Cluster, *, may_move: bool
) -> dict[int, Running]:
    """Hosts for the jobs of a round. ValueError: more GPUs than there are, or a job on a type where it does not run."""
    placed: dict[int, Running] = {}
    for kind, gpus in enumerate(cluster.gpus):
        numbers = sorted(number for number, type_ in chosen.items() if type_ == kind)
        _check_room(kind, gpus, [jobs[number] for number in numbers])
        here = {number: run for number, run in running.items() if run.kind == kind}
        found = _fill(kind, numbers, {number: here[number] for number in numbers if number in here}, jobs, gpus)
        if may_move and any(run.is_spread for run in found.values()):
            found = _fill(kind, numbers, {}, jobs, gpus)
        _check_speeds(kind, found, jobs)
        placed.update(found)
    return placed


def _check_room(kind: int, gpus: int, jobs: Sequence[Job]) -> None:
    """ValueError where the jobs need more GPUs of a type than there are."""
    if sum(job.gpus for job in jobs) > gpus:
        raise ValueError(f"a policy gave away more GPUs of type {kind} than there are")


def _check_speeds(kind: int, found: Mapping[int, Running], jobs: Mapping[int, Job]) -> None:
    """ValueError where a job does not run on the type, placed as it is."""
    if any(run.speed(jobs[number]) <= 0.0 for number, run in found.items()):
        raise ValueError(f"a policy chose type {kind} for a job that does not run there")


def _fill(kind: int, numbers: Sequence[int], kept: Mapping[int, Running], jobs: Mapping[int, Job], gpus: int) -> dict[int, Running]:
    """Largest jobs first, each on the host with the least room that holds it, else over the emptiest hosts."""
    free = [HOST_GPUS] * (gpus // HOST_GPUS)
    for run in kept.values():
        for host in run.hosts:
            free[host] -= 1
    found = dict(kept)
    for number in sorted(set(numbers) - set(kept), key=lambda number: (-jobs[number].gpus, number)):
        hosts = hosts_for(jobs[number].gpus, free)
        for host in hosts:
            free[host] -= 1
        found[number] = Running(kind, jobs[number].gpus, hosts)
    return found


def hosts_for(gpus: int, free: Sequence[int]) -> tuple[int, ...]:
    """Best fit inside one host, else the emptiest hosts one after the other; there must be room."""
    fitting = [host for host, room in enumerate(free) if room >= gpus]
    if fitting:
        return (min(fitting, key=lambda host: (free[host], host)),) * gpus
    hosts: list[int] = []
    for host in sorted(range(len(free)), key=lambda host: (-free[host], host)):
        hosts += [host] * min(free[host], gpus - len(hosts))
    return tuple(hosts)
