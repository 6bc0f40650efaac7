"""`hyperscale analyze`: a model's operations with their weights and what fuses, or who calls whom in a training script."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import warnings
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hyperscale.cli import exit_codes, spinner
from hyperscale.cli.exit_codes import InputError
from hyperscale.cli.files import read_bounded
from hyperscale.cli.text_tables import bytes_text, data_text, pairs, table
from hyperscale.util.extras import install

if TYPE_CHECKING:
    from hyperscale.training.modelgraph.analyze import ModelGraph
    from hyperscale.training.modelgraph.calls import CallGraph
    from hyperscale.training.modelgraph.fusion_rules import Fusion
    from hyperscale.training.modelgraph.load_model import Network

MOST_SCRIPT_BYTES: Final = 4 * 2**20
NETWORKS: Final = {"gcn": "GCN", "graphsage": "GraphSAGE", "sage": "GraphSAGE", "gat": "GAT"}
WEIGHT_BYTES: Final = 16
"""Of one weight: itself, its gradient, and what fusion copies."""
MOST_CALLEES: Final = 6
"""In a cell of the table; -o json has all."""


def run(arguments: argparse.Namespace) -> int:
    """Read or run what is named, analyze, print."""
    target: str = arguments.target
    if target.lower() not in NETWORKS and ":" not in target:
        print(_script(target, arguments.output))
        return exit_codes.OK
    os.environ.setdefault("DGLBACKEND", "pytorch")  # or DGL asks on its first start
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of DGL's own source and of torch.fx: nothing that a user could change
        try:
            with contextlib.redirect_stdout(sys.stderr):  # what a user's file prints is no part of the answer
                answer = _model(arguments)
            print(answer)
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("hyperscale"):
                raise
            raise InputError(f"analyzing a model needs {error.name}; {install('worker')}") from None
        except SystemExit as leaving:
            raise InputError(
                f"{arguments.target}: the model ends the process when it runs ({leaving}); let forward return a tensor"
            ) from None
    return exit_codes.OK


def _script(target: str, form: str) -> str:
    from hyperscale.training.modelgraph.calls import call_graph

    path = Path(target)
    try:
        graph = call_graph(_text(path))
    except SyntaxError as error:
        line = f"line {error.lineno}: " if error.lineno else ""
        raise InputError(f"{target}: {line}{error.msg}; write a Python 3.11 script") from None
    except (ValueError, RecursionError, MemoryError) as error:  # CPython's parser has MemoryError for what is nested too deep
        raise InputError(f"{target}: cannot be read as Python: {str(error) or 'nested too deep'}; write a Python 3.11 script") from None
    if form == "svg":
        from hyperscale.training.modelgraph.draw_graph import calls_svg

        return calls_svg(graph, path.name)
    if form == "graphml":
        return _graphml(graph.networkx())
    if form == "json":
        functions = [{"name": one.name, "line": one.line, "roles": one.roles, "callees": one.callees} for one in graph.functions]
        return data_text({"script": path.name, "functions": functions})
    return "\n".join(_calls_table(graph))


def _calls_table(graph: CallGraph) -> list[str]:
    rows = []
    for one in graph.functions:
        shown = ", ".join(one.callees[:MOST_CALLEES])
        more = f", {len(one.callees) - MOST_CALLEES} more" if len(one.callees) > MOST_CALLEES else ""
        rows.append((one.name, str(one.line or ""), ", ".join(one.roles), shown + more))
    return table(("FUNCTION", "LINE", "ROLES", "CALLS"), rows, right=frozenset({1}))


def _model(arguments: argparse.Namespace) -> str:
    spinner.say("loading torch and DGL")
    from hyperscale.training.modelgraph.analyze import AnalysisError, analyze
    from hyperscale.training.modelgraph.fuse import fuse
    from hyperscale.training.modelgraph.fusion_rules import GraphStatistics

    if arguments.edges < arguments.vertices and arguments.target.lower() in NETWORKS:
        raise InputError(f"--edges: {arguments.edges} are fewer than one a vertex; count the edges of vertices to themselves as well")
    statistics = GraphStatistics(arguments.vertices, arguments.edges, constant_input=True)
    try:
        model, name = _built(arguments)
        spinner.say(f"running {name} once on a small graph")
        graph = analyze(model, arguments.features, statistics, name)
    except AnalysisError as error:
        raise InputError(f"{arguments.target}: {error}") from None
    if arguments.output == "svg":
        from hyperscale.training.modelgraph.draw_graph import svg

        return svg(graph)
    if arguments.output == "graphml":
        return _graphml(graph.networkx())
    fusion = fuse(model, statistics)
    return data_text(_document(graph, fusion)) if arguments.output == "json" else "\n".join(_model_table(graph, fusion))


def _built(arguments: argparse.Namespace) -> tuple[Network, str]:
    """The model that is named, and its name."""
    from hyperscale.training.modelgraph.load_model import load
    from hyperscale.training.modelgraph.stock import stack

    if (network := NETWORKS.get(arguments.target.lower())) is not None:
        _check_size(arguments)
        try:
            return stack(network, arguments.features, arguments.hidden, arguments.classes, arguments.layers, arguments.heads), network
        except ValueError as error:
            raise InputError(str(error)) from None
    file, _, name = arguments.target.rpartition(":")
    _text(Path(file))
    return load(file, name), name


def _check_size(arguments: argparse.Namespace) -> None:
    """InputError where the weights of a network by name cannot fit this machine."""
    from hyperscale.training.data.available_memory import limit_bytes

    widths = [arguments.features, *[arguments.hidden] * (arguments.layers - 1), arguments.classes]
    needed, most = WEIGHT_BYTES * sum(wide * deep for wide, deep in pairwise(widths)), limit_bytes()
    if needed > most:
        raise InputError(
            f"--hidden: the weights need {bytes_text(needed)}, this machine has {bytes_text(most)}; write smaller --features or --hidden"
        )


def _text(path: Path) -> str:
    try:
        raw = read_bounded(path, MOST_SCRIPT_BYTES)
        if len(raw) > MOST_SCRIPT_BYTES:
            raise InputError(f"{path}: is larger than {MOST_SCRIPT_BYTES // 2**20} MiB; write the name of a script")
        return raw.decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; write GCN, GraphSAGE, GAT, file.py or file.py:NAME") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: is no text in UTF-8; write the name of a Python script") from None


def _model_table(graph: ModelGraph, fusion: Fusion) -> list[str]:
    whole = graph.weight or 1.0
    sent = {one.name: sum(passed for source, _, passed in graph.edges if source == one.name) for one in graph.operations}
    rows = [
        (
            one.name,
            one.kind,
            "x".join(map(str, one.shape)),
            f"{one.weight:.4g}",
            f"{100 * one.weight / whole:.1f} %",
            bytes_text(sent[one.name]) if sent[one.name] else "",
            bytes_text(one.parameter_bytes) if one.parameter_bytes else "",
            _largest_part(one),
        )
        for one in graph.operations
    ]
    header = ("NODE", "OPERATION", "RESULT", "WEIGHT", "SHARE", "SENDS", "GRADIENTS", "MOSTLY")
    same = "the same" if graph.dense_flops == graph.counted_flops else f"{graph.counted_flops:.6g}"
    summary = [
        ("Model", graph.name),
        ("Graph", f"{graph.statistics.vertices:,} vertices, {graph.statistics.edges:,} edges"),
        ("Operations", f"{graph.weight:.4g} in one forward pass"),
        ("Check", f"{graph.dense_flops:.6g} dense ones on the sample graph, torch counts {same}"),
    ]
    applied = [(one.rule, one.where, bytes_text(one.saved_bytes), f"{one.expected_gain:.2f}") for one in fusion.applied]
    lines = [*pairs(summary), "", *table(header, rows, right=frozenset({3, 4, 5, 6}))]
    if applied:
        lines += ["", *table(("FUSES", "WHERE", "SAVES A STEP", "EXPECTED GAIN"), applied, right=frozenset({2, 3}))]
    return lines + [f"not fused: {sentence}" for sentence in fusion.kept]


def _parts(one: Any) -> dict[str, float]:  # noqa: ANN401 - an Operation, whose module takes torch along
    """Operations of one node by kind of tensor operation."""
    parts: dict[str, float] = {}
    for part in one.parts:
        parts[part.operation] = parts.get(part.operation, 0.0) + part.flops
    return parts


def _largest_part(one: Any) -> str:  # noqa: ANN401 - an Operation
    shares = _parts(one)
    if not shares or not one.weight:
        return ""
    name = max(sorted(shares), key=lambda key: shares[key])
    return f"{name} {100 * shares[name] / one.weight:.0f} %"


def _document(graph: ModelGraph, fusion: Fusion) -> dict[str, Any]:
    """What `-o json` prints of a model; weight: W_i, operations of one forward pass."""
    applied = [
        {"rule": one.rule, "where": one.where, "savedBytes": one.saved_bytes, "expectedGain": one.expected_gain} for one in fusion.applied
    ]
    return {
        "name": graph.name,
        "vertices": graph.statistics.vertices,
        "graphEdges": graph.statistics.edges,
        "weight": graph.weight,
        "denseFlopsOnSample": graph.dense_flops,  # of a forward pass on the small graph that the model ran on
        "torchFlopsOnSample": graph.counted_flops,  # the same by torch.utils.flop_counter
        "operations": [
            {
                "name": one.name,
                "op": one.kind,
                "module": one.module,
                "shape": one.shape,
                "weight": one.weight,
                "outputBytes": one.output_bytes,
                "parameterBytes": one.parameter_bytes,
                "parts": _parts(one),
            }
            for one in graph.operations
        ],
        "edges": [{"source": source, "target": target, "bytes": passed} for source, target, passed in graph.edges],
        "fusion": applied,
        "kept": fusion.kept,
    }


def _graphml(graph: Any) -> str:  # noqa: ANN401 - a networkx graph
    import networkx as nx

    return "\n".join(nx.generate_graphml(graph))
