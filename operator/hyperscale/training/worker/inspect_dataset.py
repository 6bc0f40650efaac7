"""The inspect Job: `python -m hyperscale.training.worker.inspect_dataset` reads the graph and reports its sizes.

Variables as for training (control/render/environment.py). Progress goes to stderr; stdout and the termination message get one line of
JSON. Exit code 2: this input or this memory will not do, and trying again changes nothing; 1: anything else.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping

from hyperscale.training import data
from hyperscale.training.runtime import contract
from hyperscale.training.runtime.contract import ContractError
from hyperscale.training.runtime.termination import leave
from hyperscale.training.worker.prepare import read_graph, read_run


def main(environment: Mapping[str, str] | None = None) -> int:
    """Report the sizes of the graph that the variables name; the exit code."""
    try:
        report = inspect(os.environ if environment is None else environment)
    except (ContractError, data.DataError, MemoryError) as error:
        line = " ".join((str(error) or "out of memory; state the sizes in spec.dataset").split())
        sys.stderr.write(f"hyperscale-inspect: {line}\n")
        leave(line.encode())
        return contract.EXIT_WRONG_INPUT
    text = json.dumps(report, sort_keys=True)
    sys.stdout.write(text + "\n")
    leave(text.encode())
    return 0


def inspect(environment: Mapping[str, str]) -> dict[str, int]:
    """Vertices, directed edges, feature width, classes and training vertices of the graph. Raises ContractError or DataError."""
    run = read_run(environment)
    sys.stderr.write(f"hyperscale-inspect: reading {run.dataset.source} {run.dataset.path}\n")
    graph = read_graph(run)
    for note in graph.notes:
        sys.stderr.write(f"hyperscale-inspect: {graph.name}: {note}\n")
    return {
        "vertices": len(graph.indptr) - 1,
        "edges": len(graph.indices),
        "featureSize": graph.features.shape[1],
        "classes": graph.classes,
        "trainVertices": int(graph.train.sum()),
    }


if __name__ == "__main__":
    sys.exit(main())
