"""Prometheus' answer to an instant query, decoded while it comes; label sets that come again are the objects of last time. No network.

An answer of 40,000 series is 20 MB. Decoded in one call it would hold the interpreter for a third of a second and the event loop with it,
and a label set of each series for every figure and every reading would be most of the operator's memory. So it is decoded by pieces,
and a label set is known by its bytes: the figures of one GPU share one. From one reading to the next the same series come in the
same order: a compiled walk compares their bytes with those of last time and reads but the numbers; what it does not expect
goes through a JSON decoder.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from hyperscale.observe.columns import Labels

try:
    from hyperscale.observe.series._follow import follow
except ImportError:  # pragma: no cover - a machine without a C compiler
    warnings.warn("the compiled reader of answers is missing: reading metrics takes six times as long", RuntimeWarning, stacklevel=1)

    def follow(*_: Any) -> tuple[int, int]:  # type: ignore[misc] # noqa: ANN401 - the same for any arguments
        """No entry is as expected: the JSON decoder reads all of them."""
        return _[1], 0


PIECE_BYTES: Final = 128 * 1024
"""Decoded in about a third of a millisecond."""
ODD_BYTES: Final = 4 * 1024
"""Decoded where something new comes between what is known; twice as much when that was not all."""
LEAST_ENTRY_BYTES: Final = 32
ENTRY: Final = b'{"metric":{'
BETWEEN: Final = b',{"metric":{'
"""Cannot occur inside a JSON text, where a quotation mark is escaped."""
NAME: Final = b'"__name__":"'
VALUE: Final = b'},"value":['
"""Ends a label set and not before, for the same reason."""
Floats = NDArray[np.float64]


class NotJsonError(ValueError):
    """The answer is no JSON at all."""


class _Entry(msgspec.Struct, gc=False):
    metric: msgspec.Raw
    value: tuple[float, str]


class _Data(msgspec.Struct, rename="camel"):
    result: list[_Entry]
    result_type: str = "vector"


class _Answer(msgspec.Struct):
    data: _Data
    status: str = "success"


class SeriesShape:
    """Which series an answer has, in its order. Not to be changed."""

    __slots__ = ("cuts", "identities", "labels", "rows")

    def __init__(self, identities: Iterable[bytes] = (), cuts: Iterable[int] = (), labels: Iterable[Labels] = ()) -> None:
        self.identities = tuple(identities)
        """Label sets without the metric's name, as they were sent: equal in Q and in timestamp(Q)."""
        self.cuts = np.fromiter(cuts, np.int32)
        """(n,) where in the label set the metric's name stands, which follows from the other labels; -1 where none was seen."""
        self.labels = tuple(labels)
        """The labels that matter."""
        self.rows: dict[bytes, int] = {}
        """By identity; filled when it is asked for."""

    def row(self, identity: bytes) -> int:
        """Where a label set stands; -1 for one that is not there."""
        if not self.rows:
            self.rows = {each: row for row, each in enumerate(self.identities)}
        return self.rows.get(identity, -1)


class Vector(NamedTuple):
    """An instant vector."""

    shape: SeriesShape
    values: Floats
    """(n,)"""
    evaluated: Floats
    """(n,) Unix seconds."""


EMPTY: Final = SeriesShape()
_ANSWER: Final = msgspec.json.Decoder(_Answer)
_ENTRIES: Final = msgspec.json.Decoder(list[_Entry])
_LABELS: Final = msgspec.json.Decoder(dict[str, str])


class LabelSets:
    """Label sets by identity, narrowed to the labels that matter. Not for two threads at once."""

    def __init__(self, kept: frozenset[str]) -> None:
        self._kept = kept
        self._known: dict[bytes, Labels] = {}
        self._texts: dict[str, str] = {}
        self._swept: tuple[SeriesShape, ...] = ()

    def __len__(self) -> int:
        return len(self._known)

    def labels(self, identity: bytes) -> Labels:
        """The kept labels of a set; the same object for the same identity, not to be changed. Raises ValueError for what is no set."""
        labels = self._known.get(identity)
        if labels is None:
            labels = self._known[identity] = self._narrowed(_LABELS.decode(identity))
        return labels

    def sweep(self, shapes: Iterable[SeriesShape]) -> None:
        """After a reading: what is in none of these shapes is forgotten."""
        used = tuple(dict.fromkeys(shapes))
        self._texts = {}
        if used != self._swept:
            self._swept = used
            self._known = {identity: labels for shape in used for identity, labels in zip(shape.identities, shape.labels, strict=True)}

    def _narrowed(self, labels: Mapping[str, str]) -> Labels:
        texts = self._texts
        return Labels((texts.setdefault(key, key), texts.setdefault(text, text)) for key, text in labels.items() if key in self._kept)


class Decoder:
    """Decodes one answer: `feed` it as it comes, then `finish`. All raise ValueError for what is no instant vector."""

    def __init__(self, sets: LabelSets, expected: SeriesShape = EMPTY) -> None:
        """expected: what the answer probably has; only time depends on it."""
        self._sets, self._expected = sets, expected
        self._row = 0
        """Of `_expected`, that probably comes next."""
        self._rest = bytearray()
        self._head: bytes | None = None
        self._seen = 0
        """Bytes of the rest in which no entry begins."""
        self._stamp = b""
        self._evaluated = 0.0
        self._odd_bytes = ODD_BYTES
        self._parts: list[tuple[SeriesShape, int, int]] = []
        """Runs of rows of shapes, first and end."""
        self._values: list[Floats] = []
        self._moments: list[Floats] = []

    def feed(self, piece: bytes) -> None:
        """The next bytes of the answer."""
        self._rest += piece
        if self._head is None and not self._open():
            return
        used = 0
        while (more := self._take(used)) > used:
            used = more
        del self._rest[:used]

    def finish(self) -> Vector:
        """All elements in the order sent; raises NotJsonError for what is no JSON."""
        ending = _vector((self._head or b"") + self._rest)  # the envelope with its last entries: tells whether this is a vector at all
        self._add(ending, exact=self._head is not None)
        return Vector(self._shape(), _joined(self._values), _joined(self._moments))

    def close(self) -> None:
        """Nothing of the answer is kept."""
        self._rest = bytearray()
        self._parts, self._values, self._moments = [], [], []

    def _open(self) -> bool:
        """Whether the first entry has begun, and continues to its value; JSON with blanks, as other servers may send, has none."""
        at = self._rest.find(ENTRY, self._seen)
        if at < 0:
            self._seen = max(0, len(self._rest) - len(ENTRY))
            return False
        value = self._rest.find(VALUE, at)
        end = self._rest.find(b'"', value + len(VALUE)) + 1
        if value < 0 or end == 0:
            self._seen = at
            return False
        self._head = bytes(self._rest[:at])
        self._stamp = bytes(self._rest[value + len(VALUE) : end])
        self._evaluated = _moment(self._stamp)
        del self._rest[:at]
        return True

    def _take(self, start: int) -> int:
        """Decode some entries that begin at `start` of the rest, none that may be the last; where the next begins."""
        values = np.empty(min(len(self._expected.identities) - self._row, (len(self._rest) - start) // LEAST_ENTRY_BYTES + 1))
        end, count = follow(self._rest, start, self._expected.identities, self._expected.cuts, self._row, self._stamp, values)
        if count:
            self._parts.append((self._expected, self._row, self._row + count))
            self._values.append(values[:count].copy() if count < len(values) else values)
            self._moments.append(np.full(count, self._evaluated))
            self._row, self._odd_bytes = self._row + count, ODD_BYTES
        return self._odd(end)

    def _odd(self, start: int) -> int:
        """Decode what is not as expected, to the beginning of an entry some bytes on."""
        size = self._odd_bytes if self._expected.identities else PIECE_BYTES
        end = self._rest.find(BETWEEN, start + size) if len(self._rest) > start + size else -1
        if end < 0:
            end = self._rest.rfind(BETWEEN, start)
        if end <= start:
            return start
        entries = _ENTRIES.decode(b"[" + self._rest[start:end] + b"]")
        identity = self._add(entries)
        row = self._expected.row(identity) if self._expected.identities else -1
        self._row = row + 1 if row >= 0 else self._row
        self._odd_bytes = min(2 * self._odd_bytes, PIECE_BYTES)
        return end + 1

    def _add(self, entries: list[_Entry], *, exact: bool = True) -> bytes:
        """Take over entries; the last one's identity. exact: as Prometheus sends them."""
        read = _nameless if exact else _canonical
        cut_labels = [read(bytes(entry.metric)) for entry in entries]
        if not cut_labels:
            return b""
        identities = [identity for identity, _ in cut_labels]
        shape = SeriesShape(identities, (cut for _, cut in cut_labels), map(self._sets.labels, identities))
        self._parts.append((shape, 0, len(cut_labels)))
        self._values.append(np.array([float(entry.value[1]) for entry in entries]))
        self._moments.append(np.array([entry.value[0] for entry in entries]))
        return identities[-1]

    def _shape(self) -> SeriesShape:
        """What came: the expected shape itself where it is that."""
        identities = tuple(chain.from_iterable(shape.identities[first:end] for shape, first, end in self._parts))
        cuts = np.concatenate([EMPTY.cuts, *(shape.cuts[first:end] for shape, first, end in self._parts)])
        if identities == self._expected.identities and not ((cuts >= 0) & (cuts != self._expected.cuts)).any():
            return self._expected
        return SeriesShape(identities, cuts, chain.from_iterable(shape.labels[first:end] for shape, first, end in self._parts))


def _vector(body: bytes | bytearray) -> list[_Entry]:
    try:
        answer = _ANSWER.decode(body)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError as error:
        raise NotJsonError(str(error)) from error
    if answer.status != "success" or answer.data.result_type != "vector":
        raise ValueError("no instant vector")
    return answer.data.result


def _moment(stamp: bytes) -> float:
    """Seconds of `1800000000.5,"`."""
    try:
        return float(stamp[:-2])
    except ValueError:
        return float("nan")  # no entry continues like this and is a number; the JSON decoder says so


def _nameless(metric: bytes) -> tuple[bytes, int]:
    """The label set without `__name__`, and where that stood; names hold no quotation marks, or the set stays as it is."""
    at = metric.find(NAME)
    if at < 0:
        return metric, -1
    end = metric.find(b'"', at + len(NAME))
    if metric[end : end + 2] == b'",':
        return metric[:at] + metric[end + 2 :], at
    if metric[end : end + 2] != b'"}':
        return metric, -1
    at = max(1, at - 1)
    return metric[:at] + metric[end + 1 :], at


def _canonical(metric: bytes) -> tuple[bytes, int]:
    """The label set as Prometheus sends it: sorted, without blanks; without `__name__`."""
    labels = {key: value for key, value in _LABELS.decode(metric).items() if key != "__name__"}
    return msgspec.json.encode(labels, order="sorted"), -1


def _joined(parts: list[Floats]) -> Floats:
    return parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else np.empty(0)
