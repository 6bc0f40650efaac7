"""What can be written after `analyze`; as parser.py, nothing heavy is imported."""

from __future__ import annotations

import argparse
from typing import Final

from hyperscale.cli.arguments import parser as common

FORMS: Final = ("table", "json", "svg", "graphml")
MAX_COUNT: Final = 10**11
MAX_LAYERS: Final = 64
FIGURES: Final = {
    "vertices": ("vertices of the graph", 2708, MAX_COUNT),
    "edges": ("directed edges of the graph, those of a vertex to itself included", 13264, MAX_COUNT),
    "features": ("features of a vertex", 1433, common.MAX_WIDTH),
    "hidden": ("width between layers, of all heads together; for the networks by name", 16, common.MAX_WIDTH),
    "classes": ("width of the output; for the networks by name", 7, common.MAX_WIDTH),
    "layers": ("layers; for the networks by name", 2, MAX_LAYERS),
    "heads": ("heads of GAT; for the network by name", 8, MAX_LAYERS),
}
"""Defaults are those of Cora with Kipf and Welling's network."""


def add(commands: argparse._SubParsersAction[common.Parser], prog: str) -> None:
    """The command."""
    example = (
        f"{prog} analyze GCN --vertices 2449029 --edges 126167309 --features 100 --hidden 256 --classes 47\n"
        f"  {prog} analyze train.py:Net -o svg > net.svg\n  {prog} analyze train.py -o json"
    )
    summary = "show a model as a graph of weighted operations and what fuses in it, or the call graph of a script"
    command = common._command(commands, "analyze", summary, example)
    command.add_argument(
        "target",
        metavar="MODEL|SCRIPT",
        help="GCN, GraphSAGE or GAT; file.py:NAME, a torch module, its class or a function that makes one (the file is run); "
        "file.py alone: its call graph (the file is only read)",
    )
    for name, (meaning, default, most) in FIGURES.items():
        command.add_argument(
            f"--{name}", type=common._Whole(1, most), default=default, metavar="N", help=f"{meaning} (default: %(default)s)"
        )
    common._add_output(command, FORMS)
