"""`hyperscale data`: what a data set holds and what to write into spec.dataset; or a generated one."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperscale.cli import exit_codes, spinner
from hyperscale.cli.exit_codes import InputError
from hyperscale.cli.files import check_writable, replaced
from hyperscale.cli.text_tables import bytes_text, pairs
from hyperscale.cli.training import dataset

if TYPE_CHECKING:
    from hyperscale.model.adjacency import TrainingGraph


def run(arguments: argparse.Namespace) -> int:
    """Read or generate, then print."""
    inspected = arguments.action == "inspect"
    graph = dataset.load(arguments) if inspected else _generate(arguments)
    answer = about(graph)
    if form := dataset.format_of(arguments) if inspected else "NPZ":
        answer["format"] = form
    if arguments.output == "json":
        print(json.dumps(answer, indent=2))
    else:
        print("\n".join(_lines(answer)))
    if not answer["train"]:
        raise InputError(
            f"{arguments.data}: nothing to train on; put edges.csv and nodes.csv (columns id, label, split and features) into one folder, "
            "or write labels and a split into the file"
        )
    return exit_codes.OK


def about(graph: TrainingGraph) -> dict[str, Any]:
    """Figures of a graph under the names of the job's fields where there are any."""
    from hyperscale.training.data import graph_digest

    degrees = np.diff(graph.indptr)
    arrays = [graph.indptr, graph.indices, graph.features, graph.labels]
    answer: dict[str, Any] = {
        "name": graph.name,
        "vertices": len(degrees),
        "edges": len(graph.indices),
        "featureSize": int(graph.features.shape[1]),
        "classes": graph.classes,
        "graphs": 1 if graph.graph_offsets is None else len(graph.graph_offsets) - 1,
        "train": int(graph.train.sum()),
        "validation": int(graph.validation.sum()),
        "test": int(graph.test.sum()),
        "isolated": int((degrees == 0).sum()),
        "largestDegree": int(degrees.max(initial=0)),
        "bytes": sum(array.nbytes for array in arrays),
        "digest": graph_digest(graph),
        "features": _features(graph),
        "notes": list(graph.notes),
    }
    homophily = _homophily(graph)
    return answer if homophily is None else {**answer, "homophily": round(homophily, 4)}


def _features(graph: TrainingGraph) -> str:
    """How training takes them."""
    if graph.features.dtype.kind != "f":
        return "categories, embedded"
    if (graph.features < 0).any():
        return "some are negative: taken as they are"
    sums = graph.features.sum(axis=1, dtype=np.float64)
    if np.allclose(sums[sums > 0], 1.0, atol=1e-3):
        return "rows sum to 1 (spec.model.hyperparameters.normalizeFeatures changes nothing)"
    return "none is negative: training scales rows to sum 1, unless spec.model.hyperparameters.normalizeFeatures is false"


def _homophily(graph: TrainingGraph) -> float | None:
    """Part of the edges between equal labels, of those between labelled vertices; None where labels are not of vertices."""
    if graph.labels.ndim != 1 or graph.graph_offsets is not None:
        return None
    rows = np.repeat(np.arange(len(graph.indptr) - 1, dtype=np.int32), np.diff(graph.indptr))
    first, second = graph.labels[rows], graph.labels[graph.indices]
    labelled = (first >= 0) & (second >= 0)
    return float((first[labelled] == second[labelled]).mean()) if labelled.any() else None


def _lines(answer: dict[str, Any]) -> list[str]:
    split = f"{answer['train']} train, {answer['validation']} validation, {answer['test']} test" if answer["train"] else "none"
    rows = [
        ("Name", answer["name"]),
        ("Graphs", str(answer["graphs"])),
        ("Split", split),
        ("Features", answer["features"]),
        ("Isolated", f"{answer['isolated']} vertices"),
        ("Largest degree", str(answer["largestDegree"])),
        ("Equal labels", f"{100 * answer['homophily']:.1f} % of the edges" if "homophily" in answer else ""),
        ("In memory", bytes_text(answer["bytes"])),
        ("Digest", answer["digest"]),
    ]
    spec = [f"    {name}: {answer[name]}" for name in ("format", "vertices", "edges", "featureSize", "classes") if name in answer]
    notes = [f"Note: {note}" for note in answer["notes"]]
    return [*pairs(rows), *notes, "", "spec:", "  dataset:", *spec]


def _generate(arguments: argparse.Namespace) -> TrainingGraph:
    from hyperscale.training.data import DataError, generate, limits
    from hyperscale.training.data.formats import archive

    if arguments.edges % 2:
        raise InputError(f"--edges: {arguments.edges} is odd; write an even number, two for each undirected edge")
    check_writable(arguments.out, "--out")
    sizes = limits.Stated(arguments.vertices, arguments.edges, arguments.feature_size, arguments.classes)
    spinner.say(f"generating {arguments.vertices:,} vertices and {arguments.edges:,} edges, then writing {arguments.out}")
    try:
        graph = generate.generate(generate.recipe(arguments.kind, sizes), arguments.seed)
    except DataError as error:
        raise InputError(str(error).replace("spec.dataset.", "--").replace("--source.generated", "KIND")) from None
    with replaced(arguments.out, "--out") as file:
        archive.write(file, graph)
    return graph
