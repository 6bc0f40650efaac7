"""What can be written after `data`, `partition` and `analyze`; as parser.py, nothing heavy is imported."""

from __future__ import annotations

import argparse
from typing import Final

from hyperscale.cli.arguments import parser as common

FORMATS: Final = ("NPZ", "CSV", "Parquet", "GraphML", "SMILES", "OGB", "DGL")
KINDS: Final = ("SBM", "RMAT")
METHODS: Final = ("Auto", "METIS", "IndependentSetSpectral", "MtKaHyPar", "Random", "Degree", "None", "Fennel")
MAX_COUNT: Final = 10**11
BUILTIN: Final = ("Cora", "CiteSeer", "PubMed")
MODEL_FORMS: Final = ("table", "json", "svg", "graphml")
MAX_LAYERS: Final = 64
MODEL_FIGURES: Final = {
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
    """The three commands."""
    _add_data(commands, prog)
    _add_partition(commands, prog)
    _add_analyze(commands, prog)


def _add_data(commands: argparse._SubParsersAction[common.Parser], prog: str) -> None:
    inspecting = f"{prog} data inspect graphs/cora.npz\n  {prog} data inspect Cora -o json"
    generating = f"{prog} data generate SBM --vertices 10000 --edges 100000 --out graph.npz"
    summary = "read a training graph and say what it holds, or generate one"
    command = common._command(commands, "data", summary, f"{inspecting}\n  {generating}")
    actions = command.add_subparsers(dest="action", metavar="ACTION", required=True)
    inspect = common._command(actions, "inspect", "say what a data set holds, and what to write into spec.dataset", inspecting)
    _add_dataset(inspect)
    common._add_output(inspect, ("table", "json"))
    generate = common._command(actions, "generate", "generate a graph with features, labels and a split, as NPZ", generating)
    generate.add_argument("kind", choices=KINDS, metavar="KIND", help=f"{' or '.join(KINDS)}: communities that training finds, or hubs")
    generate.add_argument("--out", required=True, metavar="FILE.npz", help="file to write")
    sizes = {
        "vertices": ("vertices", MAX_COUNT),
        "edges": ("directed edges, two for each undirected one", MAX_COUNT),
        "feature-size": ("features of a vertex (default: 64)", common.MAX_WIDTH),
        "classes": ("classes (default: 8, or one a vertex)", common.MAX_WIDTH),
    }
    for name, (meaning, most) in sizes.items():
        required = name in ("vertices", "edges")
        generate.add_argument(f"--{name}", type=common._Whole(1, most), required=required, metavar="N", help=meaning)
    generate.add_argument("--seed", type=common._Whole(0, common.MAX_SEED), default=0, metavar="N", help="seed (default: %(default)s)")
    common._add_output(generate, ("table", "json"))


def _add_partition(commands: argparse._SubParsersAction[common.Parser], prog: str) -> None:
    example = (
        f"{prog} partition graphs/cora.npz --partitions 3 --shares 0.5,0.25,0.25\n  {prog} partition Cora --partitions 4 --out p.parquet"
    )
    command = common._command(commands, "partition", "cut a training graph into parts by capacity, and measure them", example)
    _add_dataset(command)
    command.add_argument(
        "--partitions", type=common._Whole(1, common.MAX_WORKERS), metavar="K", help="number of parts (default: one a share)"
    )
    command.add_argument("--shares", metavar="S,S,…", help="capacity of each part, any positive numbers (default: equal)")
    command.add_argument("--method", choices=METHODS, default="Auto", help="partitioner (default: %(default)s)")
    command.add_argument("--out", metavar="FILE", help="write `vertex, part` of every vertex there as Parquet; needed for -o parquet")
    common._add_output(command, ("table", "json", "parquet"))


def _add_analyze(commands: argparse._SubParsersAction[common.Parser], prog: str) -> None:
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
    for name, (meaning, default, most) in MODEL_FIGURES.items():
        command.add_argument(
            f"--{name}", type=common._Whole(1, most), default=default, metavar="N", help=f"{meaning} (default: %(default)s)"
        )
    common._add_output(command, MODEL_FORMS)


def _add_dataset(command: common.Parser) -> None:
    command.add_argument("data", metavar="DATA", help=f"file or folder, s3:// address, or one of {', '.join(BUILTIN)}")
    command.add_argument("--format", choices=FORMATS, help="form of the data set (default: by the name's ending)")
    command.add_argument("--endpoint", metavar="URL", help="S3-compatible store other than AWS")
    command.add_argument("--seed", type=common._Whole(0, common.MAX_SEED), default=0, metavar="N", help="seed (default: %(default)s)")
