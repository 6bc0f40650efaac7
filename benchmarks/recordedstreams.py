"""Streams with recorded arrivals: Gavel's max_min_fairness trace and Pollux's workloads 1 to 4, which no training has used. Sealed.

A replicate has a trace's arrivals in their order and their ratios, its jobs' GPU counts and its work. Everything else is drawn as in the
shipped families: the cluster, communication, latency. One recorded GPU is one worker. A job may run with its recorded count (at most 12
and half of the nodes) down to a quarter of it. Gaps are scaled to the load. All weights are 1.

Work: Gavel's steps over the measured speed on V100s. Pollux's workloads name no work: GPU hours are drawn log-uniformly in the class of
the application (Pollux, OSDI 2021, table 1): small 0.1 to 1, medium 1 to 10, large 10 to 100, extra large 100 to 1,000.
30 replicates a trace: five families, loads 0.7, 0.9 and 1.1, two seeds.

The sums in SEALS are those of these streams. They were committed before the design that is judged on them.

The two seeds of a Pollux trace are two draws of its work: each stands in 15 of the 30 replicates. A few jobs of the class extra large
hold most of the work of a trace, so two draws say little of work drawn in its class. `further` has 105 replicates: a cluster for each, and
of a Pollux trace a draw of its work.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from benchmarks import replay
from hyperscale.learn.streams.scenario import COUNTS, FAMILIES, REFERENCE, Conditions, Drawn, RecordedJobs, draw
from hyperscale.model.graph import FloatArray

DATA: Final = Path(__file__).resolve().parents[2] / "shared" / "data"
GAVEL: Final = "Gavel, max_min_fairness"
TRACES: Final = (GAVEL, *(f"Pollux, workload {number}" for number in range(1, 5)))
LOADS: Final = (0.7, 0.9, 1.1)
SEEDS: Final = (30_000, 30_001)
FURTHER_SEED: Final = 40_000
FURTHER_ROUNDS: Final = 7
"""Replicates of each family and load among the further ones."""
FLEXIBLE: Final = 4
"""A job may run on its recorded GPUs over this."""
HOUR: Final = 3600.0
GPU_HOURS: Final = {
    "cifar10": (0.1, 1.0),
    "ncf": (0.1, 1.0),
    "bert": (1.0, 10.0),
    "deepspeech2": (1.0, 10.0),
    "yolov3": (10.0, 100.0),
    "imagenet": (100.0, 1000.0),
}
"""Range of the application's class."""
SEALS: Final = {
    "Gavel, max_min_fairness": "417b9afc02a2c9c893bc36618c170df1169b7a1337a35610013b8a73eea26377",
    "Pollux, workload 1": "664fba040b3d93dbaf1cf86868ac5afabcc141a6de5ece90ad3dcabde9de5cb1",
    "Pollux, workload 2": "6a41b560f8c41ae10389dfecc2df0a21c6481e1dd43e3062488369cd0e816d44",
    "Pollux, workload 3": "277293bb59faaab2f6e3718b07c893d515c4290e66d5b1c72e3493673251c0f5",
    "Pollux, workload 4": "d292ab8cf3cd26dda2c4e96e9648656f0be0bf56d209840a17e29fbbe8ab232d",
}


class Replicate(NamedTuple):
    """One stream to be judged."""

    seed: int
    conditions: Conditions
    jobs: RecordedJobs


def there() -> bool:
    """Whether the traces lie beside the repository."""
    return (DATA / "gavel" / "throughputs.json").is_file() and (DATA / "pollux" / "workload-4.csv").is_file()


def replicates(trace: str) -> Iterator[Replicate]:
    """All of one trace. Raises KeyError for an application without a class."""
    for family in FAMILIES:
        for load in LOADS:
            for seed in SEEDS:
                jobs = _jobs(trace, seed)
                yield Replicate(seed, Conditions(family, load, len(jobs.gaps)), jobs)


def further(trace: str) -> Iterator[Replicate]:
    """Replicates beside the sealed ones, each with its own cluster, and with its own draw of the work that no trace records."""
    cells = [(family, load) for _ in range(FURTHER_ROUNDS) for family in FAMILIES for load in LOADS]
    for seed, (family, load) in enumerate(cells, FURTHER_SEED):
        jobs = _jobs(trace, seed)
        yield Replicate(seed, Conditions(family, load, len(jobs.gaps)), jobs)


def seal(trace: str) -> str:
    """SHA-256 of all figures of a trace's replicates, to six digits: the same on every machine."""
    whole = hashlib.sha256()
    for one in replicates(trace):
        drawn = draw(one.conditions, one.seed, one.jobs)
        whole.update(f"{one.conditions.family} {one.conditions.load} {one.seed}\n".encode())
        for name in Drawn.__dataclass_fields__:
            whole.update("".join(f"{value:.6g}\n" for value in np.asarray(getattr(drawn, name), dtype=np.float64).ravel()).encode())
    return whole.hexdigest()


def _jobs(trace: str, seed: int) -> RecordedJobs:
    return _gavel() if trace == GAVEL else _pollux(int(trace[-1]), seed)


def _gavel() -> RecordedJobs:
    jobs = sorted(replay.read_trace(DATA / "gavel", "max_min_fairness"), key=lambda job: (job.arrival, job.number))
    v100 = replay.TYPES.index("v100")
    work = np.array([job.steps / job.packed[v100] * job.gpus for job in jobs])
    return _recorded(np.array([job.arrival for job in jobs]), np.array([job.gpus for job in jobs], dtype=np.float64), work)


def _pollux(number: int, seed: int) -> RecordedJobs:
    with (DATA / "pollux" / f"workload-{number}.csv").open(newline="") as stream:
        rows = sorted(csv.DictReader(stream), key=lambda row: float(row["time"]))
    ranges = np.log([GPU_HOURS[row["application"]] for row in rows])
    rng = np.random.default_rng([seed, number, 37])
    work = np.exp(rng.uniform(ranges[:, 0], ranges[:, 1])) * HOUR
    return _recorded(np.array([float(row["time"]) for row in rows]), np.array([float(row["num_replicas"]) for row in rows]), work)


def _recorded(arrivals: FloatArray, gpus: FloatArray, gpu_seconds: FloatArray) -> RecordedJobs:
    high = np.minimum(gpus, max(COUNTS)).astype(np.int64)
    fitting = np.array([max(count for count in COUNTS if count <= most) for most in high], dtype=np.int64)
    low = np.maximum(1, fitting // FLEXIBLE)
    return RecordedJobs(np.diff(arrivals, prepend=arrivals[0]), gpu_seconds / REFERENCE, low, fitting, np.ones(len(gpus)))
