"""Which data set a command line names, read; errors in the words of the command line."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hyperscale.cli import spinner
from hyperscale.cli.arguments.training_arguments import BUILTIN
from hyperscale.cli.exit_codes import InputError
from hyperscale.cli.text_tables import bytes_text
from hyperscale.util.extras import install

if TYPE_CHECKING:
    from hyperscale.model.adjacency import TrainingGraph

ENDINGS: Final = {
    ".npz": "NPZ",
    ".csv": "CSV",
    ".tsv": "CSV",
    ".txt": "CSV",
    ".edges": "CSV",
    ".parquet": "Parquet",
    ".pq": "Parquet",
    ".graphml": "GraphML",
    ".bin": "DGL",
    ".dgl": "DGL",
    ".smi": "SMILES",
}


def load(arguments: argparse.Namespace) -> TrainingGraph:
    """The graph of `arguments.data`; raises InputError."""
    from hyperscale.training import data

    cache = os.environ.get("HYPERSCALE_CACHE")
    place = _place(arguments)
    size = f", {bytes_text(os.path.getsize(place[1]))}" if os.path.isfile(place[1]) else ""
    spinner.say(f"reading {place[1]}{size}")
    try:
        return data.read(
            *place, cache=Path(cache) if cache else None, seed=arguments.seed, endpoint=arguments.endpoint
        )  # fmt: skip
    except data.DataError as error:
        raise InputError(str(error)) from None
    except ImportError as error:
        raise InputError(f"reading this needs {error.name}; {install('worker')}") from None


def format_of(arguments: argparse.Namespace) -> str:
    """What spec.dataset.format has to say for it; empty for a builtin graph, whose format is not read."""
    return _place(arguments)[2]


def _place(arguments: argparse.Namespace) -> tuple[str, str, str]:
    """Source, path and format as `hyperscale.training.data.read` takes them."""
    name: str = arguments.data
    if not name:
        raise InputError(f"DATA: is empty; name a file or folder, or one of {', '.join(BUILTIN)}")
    if name in BUILTIN and not os.path.exists(name):
        return "builtin", name, ""
    remote = name.startswith(("s3://", "http://", "https://"))
    if not remote and not os.path.exists(name):
        raise InputError(f"{name}: no such file or folder; name one, or one of {', '.join(BUILTIN)}")
    return "s3" if remote else "persistentVolumeClaim", name, arguments.format or _guess(name)


def _guess(name: str) -> str:
    plain = name.removesuffix(".gz")
    form_by_ending = next((form for ending, form in ENDINGS.items() if plain.endswith(ending)), None)
    if form_by_ending is not None:
        return form_by_ending
    folder = Path(name)
    if (folder / "raw").is_dir():
        return "OGB"
    for stem in ("edges.csv", "edges.csv.gz", "edges.tsv", "edges.tsv.gz", "edges.parquet"):
        if (folder / stem).is_file():
            return "Parquet" if stem.endswith("parquet") else "CSV"
    raise InputError(f"{name}: nothing says which form it has; add --format, e.g. --format CSV")
