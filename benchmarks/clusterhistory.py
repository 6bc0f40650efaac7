"""The history of one simulated cluster, unlike the streams that the shipped agent was trained on: a trial of `hyperscale learn queue`.

Run: python -m benchmarks.clusterhistory FILE.csv FAMILY SNAPSHOT.json

The same runs on three clusters, one of each of CLUSTERS with 24 machines: what is learned, and from what, differs by the links.
A working day and a quiet night; three kinds of jobs: sweeps of many small alike jobs that come at once, middling jobs, and a few large
ones of hours. 1,500 runs on about 24 workers at a load of about 0.9.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Final

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.families import snapshot_of
from hyperscale.learn.lesson import PastRun
from hyperscale.learn.topologies import generate
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.observe.files.snapshot_files import write_snapshot

RUNS: Final = 1500
SEED: Final = 7
WORKERS: Final = 24
LOAD: Final = 0.9
DAY_SECONDS: Final = 86_400.0
SWEEP_PART: Final = 0.3
"""Of the submissions; a sweep is 4 to 16 jobs."""
LARGE_PART: Final = 0.1
CLUSTERS: Final = ("fattree", "geo", "zones")


def runs(seed: int = SEED) -> tuple[PastRun, ...]:
    """In order of arrival. The same seed gives the same runs."""
    rng = np.random.default_rng([seed, 43])
    rows: list[tuple[float, float, int]] = []
    phase = 0.0
    while len(rows) < RUNS:
        phase += rng.exponential(1.0)
        kind = rng.random()
        if kind < SWEEP_PART:
            seconds, workers = float(rng.lognormal(6.2, 0.4)), int(rng.choice((1, 2)))
            rows += [(phase, seconds * float(rng.uniform(0.9, 1.1)), workers) for _ in range(int(rng.integers(4, 17)))]
        elif kind < SWEEP_PART + LARGE_PART:
            rows.append((phase, float(rng.lognormal(9.0, 0.5)), int(rng.choice((8, 12)))))
        else:
            rows.append((phase, float(rng.lognormal(7.2, 0.8)), int(rng.choice((2, 4)))))
    rows = rows[:RUNS]
    work = sum(seconds * workers for _, seconds, workers in rows)
    scale = work / (WORKERS * LOAD) / rows[-1][0]
    return tuple(PastRun(_by_day(phase * scale), seconds, workers) for phase, seconds, workers in rows)


def _by_day(seconds: float) -> float:
    """Move an even time towards the working hours of its day; the order stays."""
    day, at = divmod(seconds, DAY_SECONDS)
    part = at / DAY_SECONDS
    return (day + part + 0.12 * float(np.sin(2.0 * np.pi * part))) * DAY_SECONDS


def cluster(family: str) -> ClusterSnapshot:
    """The machines of one of CLUSTERS; each holds one worker of GPUS_PER_WORKER GPUs, some of zones two."""
    return snapshot_of(generate(family, WORKERS, SEED))


def main() -> int:
    """Write the runs and the cluster as `hyperscale learn queue --history FILE --snapshot FILE` reads them."""
    write_snapshot(Path(sys.argv[3]), cluster(sys.argv[2]))
    with Path(sys.argv[1]).open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(("arrival_seconds", "run_seconds", "workers"))
        writer.writerows((f"{run.arrival_seconds:.3f}", f"{run.run_seconds:.3f}", run.workers) for run in runs())
    return 0


if __name__ == "__main__":
    sys.exit(main())
