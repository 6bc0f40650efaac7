"""Edge lists as CSV or TSV, plain or gzip: one file of edges, or a folder with `edges.*` and `nodes.*` (columns: tables.py).

Edges count in both directions. Lines in front that begin with # or % are left out; a first line without numbers names the columns.
"""

from __future__ import annotations

import gzip
import itertools
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from hyperscale.model.adjacency import TrainingGraph
from hyperscale.training.data.assemble import assemble
from hyperscale.training.data.data_errors import fault, faults
from hyperscale.training.data.formats import tables
from hyperscale.training.data.limits import Stated, check_bytes

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIXES: Final = (".csv", ".tsv", ".txt", ".edges", ".csv.gz", ".tsv.gz", ".txt.gz", ".edges.gz")
DELIMITERS: Final = ("\t", ",", ";", " ")
COMMENTS: Final = ("#", "%")
MAX_LINE_CHARACTERS: Final = 1 << 22
MAX_COMMENTS: Final = 10_000
BLOCK_BYTES: Final = 1 << 24


def read(file: Path, stated: Stated, seed: int) -> TrainingGraph:
    """The graph in a file or folder; raises DataError."""
    edge_file, node_file = pair(file, SUFFIXES)
    edges = table(edge_file, stated.edges)
    nodes = table(node_file, stated.vertices, header=True) if node_file is not None else None
    return assemble(tables.raw_graph(edges, nodes, edge_file, node_file, stated), edge_file, file.name, stated, seed)


def pair(place: Path, suffixes: tuple[str, ...]) -> tuple[Path, Path | None]:
    """File of edges and, in a folder that has one, of vertices."""
    if place.is_file():
        return place, None
    chosen = [
        next((place / (stem + suffix) for suffix in suffixes if (place / (stem + suffix)).is_file()), None) for stem in ("edges", "nodes")
    ]
    if chosen[0] is None:
        raise fault(place, "no file of edges", f"put edges{suffixes[0]} there, and nodes{suffixes[0]} for features, labels and split")
    return chosen[0], chosen[1]


def table(file: Path, most_rows: int | None, header: bool | None = None) -> pa.Table:
    """A file as a table; `header` None looks whether the first line has numbers only, True refuses that. Refuses more than `most_rows`."""
    import pyarrow as pa
    from pyarrow import csv

    skipped, line = _first_line(file)
    delimiter = next((mark for mark in DELIMITERS if mark in line), ",")
    numbers = bool(line.strip()) and all(_is_number(cell) for cell in line.split(delimiter))
    if header and numbers:
        raise fault(file, "the first line has numbers only", "name the columns there")
    named = header if header is not None else not numbers
    options = csv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES, skip_rows=skipped, autogenerate_column_names=not named)
    try:
        stream = pa.input_stream(str(file), compression=_compression(file))
        with stream, csv.open_csv(stream, options, csv.ParseOptions(delimiter=delimiter)) as opened:
            rows = pa.Table.from_batches(_batches(opened, file, most_rows), opened.schema)
            rows.column_names  # noqa: B018 - decodes the names, which nothing has checked yet
            return rows
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, pa.ArrowInvalid) and "Empty CSV" in str(error):
            raise fault(file, "empty", "write a table of one row a line") from None
        raise fault(file, str(error)[:300], "write the same number of columns in each line, numbers where there are numbers") from None


def _batches(opened: Iterable[pa.RecordBatch], file: Path, most_rows: int | None) -> list[pa.RecordBatch]:
    """All batches of a table; raises DataError for more than `most_rows`, and before they need more memory than there is."""
    batches: list[pa.RecordBatch] = []
    rows = total = 0
    for batch in opened:
        batches.append(batch)
        rows, total = rows + batch.num_rows, total + batch.nbytes
        if most_rows is not None and rows > most_rows:
            raise fault(file, f"more than the {most_rows} rows that the job states", "correct spec.dataset.vertices and edges")
        check_bytes(2 * total, file, f"{rows} rows")
    return batches


def _first_line(file: Path) -> tuple[int, str]:
    """Lines to leave out in front, and the first one after them."""
    kinds = OSError, UnicodeDecodeError, EOFError, zlib.error
    with faults(file, "cannot be read as text", "write CSV in UTF-8, plain or gzip", *kinds), _opened(file) as stream:
        for count in itertools.count():
            line = stream.readline(MAX_LINE_CHARACTERS)
            if len(line) >= MAX_LINE_CHARACTERS or count > MAX_COMMENTS:
                raise fault(f"{file}: line {count + 1}", "too long", "write a text table with one edge a line")
            line = line.lstrip("\ufeff")
            if not line.startswith(COMMENTS):
                return count, line.strip("\r\n")
    return 0, ""


def _opened(file: Path) -> IO[str]:
    return gzip.open(file, "rt", encoding="utf-8") if _compression(file) == "gzip" else file.open(encoding="utf-8")


def _compression(file: Path) -> str | None:
    return "gzip" if file.suffix == ".gz" else None


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return not cell.strip()
    return True
