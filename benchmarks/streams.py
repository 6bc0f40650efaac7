"""The benchmark of job streams: who decides what starts next, with how many workers, and how soon all jobs are done.

Run: python benchmarks/streams.py [--quick] [--seeds N] [--first-seed N] [--json FILE] [--dump DIR] [--write-docs] [--tune]

Streams of 150 jobs on clusters of 16 to 32 nodes, five families, loads 0.5 to 1.3, on seeds that no training has seen. All methods place
with the very same search; they differ in what they start. The agents run under the bound on idle GPUs that holds in the cluster.
Conditions: exact durations; durations known to ± 30 %; contention on shared uplinks; a starvation bound of 16 mean runs (and of 8); all
three. Then recorded arrivals, the later history of one cluster, and what the guard of the default says of agents and of bad choosers.

--seeds N      streams of every family and load (5: 125 streams a condition)
--first-seed N streams from this seed on instead of 20,000: how far the goals depend on the streams
--tune         tunes the operator's rule afresh and measures against that, in the conditions
--dump DIR     writes every method's assignment as {case, method, assignment: {job: [node, ...]}}
--write-docs   writes docs/benchmarks/streams.md; with --from FILE ... from rows that --json wrote, without a run
--section NAME only one part: conditions, recorded, further, history, guard, other-clusters, ablation, stable-baselines3, times
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    # As in the planner process: the matrices are small, and threads that wait for each other make them ten times slower.
    os.environ.setdefault(variable, "1")

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import common, streamagents, streamjudges, streampage, streamruns  # noqa: E402 - a script's own folder, not the repository, is on the path
from benchmarks.suites import Options  # noqa: E402

DOCUMENT: Final = ROOT / "docs" / "benchmarks" / "streams.md"
SEEDS: Final = 5
Section = Callable[[Options, bool], Iterable[common.Row]]
SECTIONS: Final[dict[str, Section]] = {
    "conditions": lambda options, tune: streamruns.run(options, tune),
    "recorded": lambda options, _: streamjudges.recorded(options),
    "further": lambda options, _: streamjudges.further_recorded(options),
    "history": lambda options, _: streamjudges.history(options),
    "guard": lambda options, _: streamjudges.guard(options),
    "other-clusters": lambda options, _: streamjudges.other_clusters(options),
    "ablation": lambda options, _: streamruns.ablation(options),
    "stable-baselines3": lambda options, _: streamagents.rows(options),
    "times": lambda options, _: streamruns.decision_times(options),
}
"""By name, in the order of the page."""


def main() -> int:
    """Measure, print, and fail where a goal is missed."""
    arguments = parsed(sys.argv[1:])
    rows = read(arguments.rows) if arguments.rows is not None else measured(arguments)
    print(streampage.text(rows))
    if arguments.json is not None:
        kept = [{name: value for name, value in msgspec.to_builtins(row).items() if value is not None} for row in rows]
        arguments.json.write_text(json.dumps(kept, indent=1) + "\n")
    if arguments.write_docs:
        DOCUMENT.parent.mkdir(parents=True, exist_ok=True)
        DOCUMENT.write_text(streampage.page(rows))
    return 0 if all(row.holds is not False for row in rows) else 1


def read(files: Sequence[Path]) -> list[common.Row]:
    """Rows that --json wrote."""
    return [row for file in files for row in msgspec.json.decode(file.read_bytes(), type=list[common.Row])]


def measured(arguments: argparse.Namespace) -> list[common.Row]:
    """Rows of all sections, or of those asked for."""
    options = Options(arguments.quick, seeds_of(arguments), arguments.dump)
    rows = about_run()
    for name in arguments.section or SECTIONS:
        rows += SECTIONS[name](options, arguments.tune)
    return rows


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = common.parser(__doc__ or "")
    parser.add_argument("--seeds", type=int, default=SEEDS, metavar="N", help=f"streams of every family and load ({SEEDS})")
    parser.add_argument(
        "--first-seed", type=int, default=streamruns.FIRST_SEED, metavar="N", help=f"of the streams ({streamruns.FIRST_SEED})"
    )
    parser.add_argument("--tune", action="store_true", help="tune the operator's rule afresh first (minutes)")
    parser.add_argument("--dump", type=Path, metavar="DIR", help="folder for all assignments")
    parser.add_argument("--write-docs", action="store_true", help="write docs/benchmarks/streams.md")
    parser.add_argument(
        "--from",
        type=Path,
        dest="rows",
        nargs="+",
        metavar="FILE",
        help="rows written by --json, of one run or of its sections, instead of a run",
    )
    parser.add_argument(
        "--section", action="append", choices=list(SECTIONS), metavar="NAME", help=f"only {', '.join(SECTIONS)}; may be repeated"
    )
    arguments = parser.parse_args(words)
    if arguments.first_seed < 0 or arguments.seeds < 1:
        parser.error("--first-seed is at least 0, --seeds at least 1")
    return arguments


def seeds_of(arguments: argparse.Namespace) -> tuple[int, ...]:
    """Of the streams of every family and load, counted from the benchmark's first."""
    first = arguments.first_seed - streamruns.FIRST_SEED
    return tuple(range(first, first + (1 if arguments.quick else arguments.seeds)))


def about_run() -> list[common.Row]:
    """The command and the machine, as rows."""
    words = [word for word in sys.argv[1:] if not word.startswith("/")]
    command = " ".join(["python benchmarks/streams.py", *words])
    machine = f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}"
    return [
        common.Row(streamruns.BENCHMARK, "run", command, "command", 0.0, ""),
        common.Row(streamruns.BENCHMARK, "run", machine, "machine", 0.0, ""),
    ]


if __name__ == "__main__":
    sys.exit(main())
