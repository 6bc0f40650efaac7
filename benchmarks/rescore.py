"""Score assignments that `benchmarks/placement.py --dump DIR` wrote, again and one by one, with the reference arithmetic.

Run: python benchmarks/rescore.py DIR

A case is a file in DIR/cases: snapshot, job, workload and worker count; other files hold a method's nodes in rank order. The figure is the
objective of `hyperscale.planner.cost.objective.predict`, without any repair of the ring; +inf says why. Cases of several tasks at once
have no file there and are left out.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.common import table  # noqa: E402 - a script's own folder, not the repository, is on the path
from benchmarks.dumps import Case  # noqa: E402
from benchmarks.families import JOB_KEY, POLICY  # noqa: E402
from benchmarks.suites import CASES, file_name  # noqa: E402
from hyperscale.model.planning import PlanRequest  # noqa: E402
from hyperscale.planner.cost.objective import predict  # noqa: E402
from hyperscale.planner.graph.cluster_graph import build  # noqa: E402
from hyperscale.planner.problem.placement_problem import Problem, pose  # noqa: E402


def scores(folder: Path) -> Iterator[tuple[str, str, float, str]]:
    """Case, method, objective and reason of every assignment whose case is there, by file name."""
    problems: dict[str, Problem] = {}
    for file in sorted(folder.glob("*.json")):
        document: dict[str, Any] = json.loads(file.read_text())
        source = folder / CASES / f"{file_name(document['case'])}.json"
        if not source.is_file():
            continue
        if document["case"] not in problems:
            problems = {document["case"]: _problem(msgspec.json.decode(source.read_bytes(), type=Case))}
        yield (document["case"], document["method"], *_score(problems[document["case"]], document["assignment"]["job"]))


def _problem(case: Case) -> Problem:
    request = PlanRequest(job_key=JOB_KEY, job=case.job, workers_fixed=case.workers)
    return pose(request, build(case.snapshot, POLICY), case.workload, POLICY)


def _score(problem: Problem, nodes: list[str]) -> tuple[float, str]:
    place = {name: position for position, name in enumerate(problem.names)}
    if missing := sorted(set(nodes) - set(place)):
        return float("inf"), f"{missing[0]} is no candidate"
    members, positions = np.unique([place[node] for node in nodes], return_inverse=True)
    if (np.bincount(positions) > problem.slots[members]).any():
        return float("inf"), "more workers than slots"
    figures = predict(problem.costs(members), positions)
    return figures.objective, figures.reason


def main() -> int:
    """Print every score."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="DIR", help="what --dump wrote")
    lines = [(case, method, f"{objective:.9g}", reason) for case, method, objective, reason in scores(parser.parse_args().folder)]
    print(table(("case", "method", "objective, s", "reason"), lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
