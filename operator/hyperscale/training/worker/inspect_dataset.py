"""The inspect Job: `python -m hyperscale.training.worker.inspect_dataset` reads the graph and reports its sizes.

Variables as for training (control/render/environment.py). Progress goes to stderr; stdout and the termination message get one line of
JSON. Exit code 2: this input or this memory will not do, and trying again changes nothing; 1: anything else.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from hyperscale.training.worker.given import read_graph
from hyperscale.training.worker.prepare import answered, read_run


def main(environment: Mapping[str, str] | None = None) -> int:
    """Report the sizes of the graph that the variables name; the exit code."""
    variables = os.environ if environment is None else environment
    return answered("hyperscale-inspect", lambda: inspect(variables), "out of memory; state the sizes in spec.dataset")


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
