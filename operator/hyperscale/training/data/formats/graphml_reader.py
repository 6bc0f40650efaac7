"""GraphML: one graph; vertex data `label`, `split`, and numbers as features in the order of their names (f2 before f10).

`edgedefault` says whether edges are directed.

Read as a stream with expat, not with networkx, which would hold a dictionary for every vertex. Declarations of document types are
refused, and with them every entity: no expansion, no external files.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Final
from xml.parsers import expat  # document types are refused below

import numpy as np

from hyperscale.model.adjacency import TrainingGraph
from hyperscale.training.data.assemble import NO_LABEL, RawGraph, assemble
from hyperscale.training.data.data_errors import DataError, fault, shown
from hyperscale.training.data.formats.tables import parts_of
from hyperscale.training.data.limits import Stated, check_bytes

LABEL, SPLIT = "label", "split"
MAX_TEXT: Final = 4096
MAX_KEYS: Final = 100_000
MAX_DEPTH: Final = 64
BLOCK_BYTES: Final = 1 << 20
LARGEST: Final = float(np.finfo(np.float32).max)


def read(file: Path, stated: Stated, seed: int) -> TrainingGraph:
    """The graph in `file`; raises DataError with its line."""
    document = _Document(file, stated)
    parser = expat.ParserCreate(namespace_separator=" ")
    document.attach(parser)
    try:
        with file.open("rb") as opened:
            while block := opened.read(BLOCK_BYTES):
                parser.Parse(block, False)
            parser.Parse(b"", True)
    except LookupError as error:  # Python's own codecs, by the name in the declaration
        raise fault(file, str(error), "write it in UTF-8") from None
    except expat.ExpatError as error:
        raise fault(f"{file}: line {error.lineno}", f"no well-formed XML ({error})", "write it with networkx.write_graphml") from None
    except OSError as error:
        raise fault(file, f"cannot be read ({error.strerror})", "name a GraphML file") from None
    return assemble(document.raw_graph(), file, file.stem, stated, seed)


class _Document:
    """What has been met so far."""

    def __init__(self, file: Path, stated: Stated) -> None:
        self.file, self.stated = file, stated
        self.ids: dict[str, int] = {}
        self.ends: list[int] = []
        self.names: dict[str, str] = {}
        """Name of each vertex key."""
        self.columns: set[str] = set()
        self.defaults: dict[str, str] = {}
        """Of the vertex keys that have one."""
        self.values: list[dict[str, str]] = []
        self.directed = False
        self.graphs = self.depth = 0
        self.vertex = -1
        self.key = self.declared = ""
        """Whose value, and whose declaration, is being read."""
        self.text: list[str] = []
        self.length = 0
        self.parser: expat.XMLParserType | None = None

    def attach(self, parser: expat.XMLParserType) -> None:
        self.parser = parser
        parser.StartDoctypeDeclHandler = self._refuse
        parser.EntityDeclHandler = self._refuse
        parser.StartElementHandler = self.start
        parser.EndElementHandler = self.end
        parser.CharacterDataHandler = self.characters
        parser.buffer_text = True

    def fault(self, what: str, fix: str) -> DataError:
        line = self.parser.CurrentLineNumber if self.parser is not None else 0
        return fault(f"{self.file}: line {line}", what, fix)

    def _refuse(self, *_: object) -> None:
        raise self.fault("a document type or entity", "write plain GraphML without DOCTYPE")

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """One opening tag."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.fault("nested too deep", "write one graph without graphs inside vertices")
        handler = {
            "graph": self._graph, "key": self._key, "default": self._default, "node": self._node, "edge": self._edge, "data": self._data,
            "hyperedge": self._hyperedge,
        }.get(tag.split(" ")[-1])  # fmt: skip
        if handler is not None:
            handler(attributes)

    def end(self, tag: str) -> None:
        """One closing tag."""
        self.depth -= 1
        name = tag.split(" ")[-1]
        if name == "data" and self.key:
            if self.vertex >= 0:
                self.values[self.vertex][self.key] = "".join(self.text).strip()
            self.key = ""
        elif name == "default" and self.key:
            self.defaults[self.key] = "".join(self.text).strip()
            self.key = ""
        elif name == "key":
            self.declared = ""
        elif name == "node":
            self.vertex = -1

    def characters(self, text: str) -> None:
        """Text of a value."""
        if self.key:
            self.text.append(text)
            self.length += len(text)
            if self.length > MAX_TEXT:
                raise self.fault(f"a value of more than {MAX_TEXT} characters", "write numbers, labels and splits only")

    def _graph(self, attributes: dict[str, str]) -> None:
        self.graphs += 1
        if self.graphs > 1:
            raise self.fault("a second graph", "write one graph a file")
        kind = attributes.get("edgedefault")
        if kind not in ("directed", "undirected"):
            raise self.fault(f"edgedefault is {shown(kind)}", 'write edgedefault="undirected" or "directed" in <graph>')
        self.directed = kind == "directed"

    def _key(self, attributes: dict[str, str]) -> None:
        if attributes.get("for", "all") in ("node", "all"):
            self.declared = attributes.get("id", "")
            name = attributes.get("attr.name", self.declared)
            if self.declared in self.names or name in self.columns:
                raise self.fault(f"a second key {shown(name)}", "declare each once")
            self.names[self.declared] = name
            self.columns.add(name)
            if len(self.names) > MAX_KEYS:
                raise self.fault(f"more than {MAX_KEYS} keys", "write wide features as NPZ or Parquet")

    def _node(self, attributes: dict[str, str]) -> None:
        name = attributes.get("id")
        if name is None or name in self.ids:
            raise self.fault(f"vertex {shown(name)} has no id of its own", "write each id once")
        self.vertex = self.ids[name] = len(self.ids)
        self.values.append({})
        self.stated.check_counts(len(self.ids), 0, self.file)

    def _edge(self, attributes: dict[str, str]) -> None:
        for end in ("source", "target"):
            place = self.ids.get(attributes.get(end, ""))
            if place is None:
                raise self.fault(f"{end} {shown(attributes.get(end))} is no vertex", "write all <node> elements before the edges")
            self.ends.append(place)
        if attributes.get("directed", str(self.directed).lower()) != str(self.directed).lower():
            raise self.fault("an edge of another direction than edgedefault", "write all edges directed, or all undirected")
        self.stated.check_counts(0, len(self.ends) // 2, self.file)

    def _hyperedge(self, _: dict[str, str]) -> None:
        raise self.fault("a hyperedge", "write edges between two vertices")

    def _data(self, attributes: dict[str, str]) -> None:
        key = attributes.get("key", "")
        if self.vertex >= 0 and key not in self.names:
            raise self.fault(f"data of key {shown(key)}, which no <key> declares", 'declare it with for="node"')
        self._begin(key if self.vertex >= 0 else "")

    def _default(self, _: dict[str, str]) -> None:
        self._begin(self.declared)

    def _begin(self, key: str) -> None:
        self.key, self.text, self.length = key, [], 0

    def raw_graph(self) -> RawGraph:
        """The whole document as arrays."""
        if not self.graphs:
            raise fault(self.file, "no <graph>", "write GraphML")
        vertices = len(self.ids)
        by_name = {name: key for key, name in sorted(self.names.items())}
        columns = sorted((key for key in self.names if self.names[key] not in (LABEL, SPLIT)), key=lambda key: _natural(self.names[key]))
        check_bytes(4 * vertices * len(columns), self.file, f"{vertices} × {len(columns)} features")
        features = np.empty((vertices, len(columns)), np.float32)
        for at, key in enumerate(columns):
            features[:, at] = [self._number(self._value(vertex, key), self.names[key], vertex) for vertex in range(vertices)]
        labels, masks = None, None
        if LABEL in by_name:
            labels = np.asarray([self._label(self._value(at, by_name[LABEL]), at) for at in range(vertices)], np.int64)
        if SPLIT in by_name:
            masks = parts_of(np.asarray([self._value(at, by_name[SPLIT]) for at in range(vertices)], np.str_), f"{self.file}: split")
        ends = np.asarray(self.ends, np.int64).reshape(-1, 2)
        return RawGraph(vertices, ends[:, 0], ends[:, 1], features if columns else None, labels, masks, self.directed)

    def _value(self, vertex: int, key: str) -> str:
        """As it stands in the file: its own, the key's default, or nothing."""
        return self.values[vertex].get(key, self.defaults.get(key, ""))

    def _number(self, text: str, name: str, vertex: int) -> float:
        try:
            value = float({"true": "1", "false": "0"}.get(text.lower(), text))
        except ValueError:
            value = math.nan
        if not abs(value) <= LARGEST:  # NaN fails as well
            what = f"{shown(text)} is no number of 32 bits" if text else "is missing"
            raise fault(f"{self.file}: vertex {vertex}: {shown(name)}", what, "write a number for every vertex, or a <default>")
        return value

    def _label(self, text: str, vertex: int) -> int:
        if not text:
            return NO_LABEL
        if not text.removeprefix("-").isdigit() or not text.isascii() or len(text) > 9:
            raise fault(f"{self.file}: vertex {vertex}: label", f"{shown(text)} is no class number", "write 0, 1, 2 …")
        return int(text)


def _natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Digits inside `name` by value; networkx writes keys in no useful order."""
    return tuple((0, int(piece), "") if piece.isdigit() else (1, 0, piece) for piece in re.split(r"([0-9]+)", name[:80]) if piece)
