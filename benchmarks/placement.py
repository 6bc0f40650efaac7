"""The placement benchmark: how good plans are, how fast, and against whom.

Run: python benchmarks/placement.py [--quick] [--suite NAME ...] [--seeds N] [--json FILE] [--topology FILE] [--dump DIR] [--write-docs]

--topology FILE  runs every method on a cluster never seen: a snapshot JSON, a folder with Hulk's two files, or a matrix file
--keep FOLDER    keeps outcomes of the suite together there, question by question: a run that was cut off continues
--placements FILE  judges predicted step times (suite pollux) on another table: placement, local_bsz, step_time_s, sync_time_s
--dump DIR       writes every method's assignment as {case, method, assignment: {task: [node, ...]}}
--write-docs     writes the suites' pages in docs/benchmarks/placement; with --from FILE from rows that --json wrote, without a run
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import inspect
import json
import os
import platform
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    # As in the planner process: the matrices are small, and threads that wait for each other make them ten times slower.
    os.environ.setdefault(variable, "1")

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import clusters, common, documents, families, placementpages, summary  # noqa: E402 - a script's own folder is on the path, not this
from benchmarks.peers.placement import proofs  # noqa: E402
from benchmarks.peers.placement.schedulers import SCHEDULERS  # noqa: E402
from benchmarks.peers.placement.search import GREEDY, TIMED, long_search  # noqa: E402
from benchmarks.peers.placement.wide import wide_search  # noqa: E402
from benchmarks.suites import Options  # noqa: E402
from hyperscale.learn import topologies, workloads  # noqa: E402

SUITES: Final[dict[str, str]] = {
    "exact": "Small problems proven optimal: 12 to 16 nodes, and 32 nodes with 8 workers; checked by CP-SAT and by trying everything.",
    "machines": "8 nodes of 8 H100, one card or eight: ranks share a node's inside and its cards; every placement by a model of its own.",
    "middle": "64 and 128 nodes: how far from the best known within 50 ms; equal-time annealing, FAQ and a genetic algorithm beside it.",
    "racks": "Racks with shared uplinks: equal counts of racks, nodes and GPUs, the rule of launch scripts, against our plans.",
    "hulk": "Hulk's 47 machines, four and six tasks at once: sum of latency against the published assignment.",
    "together": "4 to 12 pending jobs at once: the sum of their objectives, placed together against one after the other.",
    "systems": "Hulk's four and six models: predicted step time against data parallel, GPipe and tensor parallel on all machines.",
    "dtfm": "DT-FM's topologies and cost against its own genetic algorithm.",
    "large": "Production-size clusters: 1,213 and 847 machines and generated ones up to 5,000, against label tiers and a long search.",
    "constructor": "The learned constructor, one pass, on held-out clusters against greedy.",
    "openb_stranding": "openb filled until every size of pod is refused: GPUs left stranded by best fit, dot product, FGD and the planner.",
    "constructor_portfolio": "Search with and without the learned constructor at equal processor time, 32 to 5,000 nodes.",
    "hulk_classes": "Hulk's own set-up: machines classified to tasks; accuracy per step and the cost of the assignment.",
    "counts": "The chosen worker and partition count for one job alone against every count searched long.",
    "removed": "A node is lost: time of the new plan and workers moved.",
    "cold": "`hyperscale plan` from a cold start, and a warm planner process.",
    "pollux": "Predicted step time against measured placements.",
    "gavel": "Replay of Gavel's trace on 64 GPUs of three types.",
    "topology": "Every method on a cluster given by --topology.",
}
DOCUMENTS: Final = ROOT / "docs" / "benchmarks" / "placement"


def main() -> int:
    """Measure, print, and fail where a goal is missed."""
    arguments = parsed(sys.argv[1:])
    if arguments.rows is not None:
        rows = msgspec.convert(json.loads(arguments.rows.read_text()), list[common.Row])  # json, because a figure may be Infinity
        print(summary.text(rows))
    else:
        rows = measured(arguments)
    if arguments.json is not None:
        kept = [{name: value for name, value in msgspec.to_builtins(row).items() if value is not None} for row in rows]
        arguments.json.write_text(json.dumps(kept, indent=1) + "\n")
    if arguments.write_docs:
        placementpages.write(DOCUMENTS, SUITES, rows, notes())
    return 0 if all(row.holds is not False for row in rows) else 1


def notes() -> list[str]:
    """What the page says about methods and clusters, in the code's own words."""
    return [
        documents.told_by("Clusters", "\n\n".join(inspect.getdoc(module) or "" for module in (families, topologies, workloads, clusters))),
        documents.described("Methods", {**SCHEDULERS, **GREEDY, **TIMED, "long search": long_search, "long search, large": wide_search}),
        documents.described("Independent proofs", {"trying everything": proofs.by_trial, "CP-SAT": proofs.by_cp_sat}),
    ]


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = common.parser(__doc__ or "")
    parser.add_argument(
        "--suite", action="append", choices=sorted(SUITES), metavar="NAME", help=f"one of {', '.join(SUITES)}; may be repeated"
    )
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="seeds of each case (3)")
    parser.add_argument("--topology", type=Path, metavar="FILE", help="a cluster never seen")
    parser.add_argument("--placements", type=Path, metavar="FILE", help="measured step times for the suite pollux, columns as there")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="outcomes of the suite together, kept and read again")
    parser.add_argument("--dump", type=Path, metavar="DIR", help="folder for all assignments")
    parser.add_argument("--write-docs", action="store_true", help="write the suites' pages in docs/benchmarks/placement")
    parser.add_argument("--from", dest="rows", type=Path, metavar="FILE", help="rows of an earlier run instead of a new one")
    return parser.parse_args(words)


def measured(arguments: argparse.Namespace) -> list[common.Row]:
    """Run the suites one after the other, printing each as it ends."""
    options = Options(
        quick=arguments.quick,
        seeds=tuple(range(max(1, arguments.seeds))),
        dump=arguments.dump,
        topology=arguments.topology,
        placements=arguments.placements,
        keep=arguments.keep,
    )
    names = arguments.suite or (["topology"] if options.topology else [name for name in SUITES if name != "topology"])
    rows = [
        common.Row(placementpages.RUN, "run", command(sys.argv[1:]), "command", float(len(names)), "suites"),
        common.Row(placementpages.RUN, "run", machine(), "machine", float(os.cpu_count() or 0), "cores"),
    ]
    for name in names:
        print(f"\n{name}: {SUITES[name]}", flush=True)
        started = time.perf_counter()
        found = run_suite(name, options)
        found.append(common.Row(name, "whole suite", "", "wall time", time.perf_counter() - started, "s"))
        print(summary.text(found), flush=True)
        rows += found
    print(f"\n{verdict(rows)}")
    return rows


def command(words: Sequence[str]) -> str:
    """The command line as the public page shows it: of a path only its name."""
    return " ".join(["python", "benchmarks/placement.py", *(Path(word).name if "/" in word else word for word in words)])


def verdict(rows: Sequence[common.Row]) -> str:
    """How many goals there are, and a line for each that is missed."""
    missed = [f"\n  {row.case}: {row.method}" for row in rows if row.holds is False]
    return f"{sum(row.metric == 'goal' for row in rows)} goals, {len(missed)} missed" + "".join(missed)


def run_suite(name: str, options: Options) -> list[common.Row]:
    """Rows of one suite; one that says so where it does not exist or lacks its data."""
    module = f"benchmarks.suites.{name}"
    if importlib.util.find_spec(module) is None:
        return [common.Row(name, "whole suite", "not written yet", "missing", 1.0, "")]
    try:
        rows: list[common.Row] = importlib.import_module(module).run(options)
    except Exception as error:  # one suite's failure must not lose the rows of the others; it counts as a missed goal
        traceback.print_exc()
        return [common.goal(name, "runs to its end", type(error).__name__, 1.0, 0.0, "errors")]
    return rows


def machine() -> str:
    """Class of the machine: processor and cores."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        named = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
        model = named[0] if named else model
    # Another's load lengthens every wall time: who reads the page must know it.
    return f"{model}, {os.cpu_count()} cores, Python {platform.python_version()}, load average {os.getloadavg()[0]:.1f} at the start"


if __name__ == "__main__":
    sys.exit(main())
