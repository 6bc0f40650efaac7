"""Prometheus' answer to an instant query, decoded piece by piece; label sets that come again are the objects of last time. No network.

An answer of 40,000 series is 20 MB. Decoded in one call it would hold the interpreter for a third of a second and the event loop with it,
and a label set of each series for every figure and every reading would be most of the operator's memory. So the text is cut between
entries, each piece is decoded by itself, and a label set is known by its bytes: the figures of one GPU share one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

PIECE_BYTES: Final = 128 * 1024
"""Decoded in about a third of a millisecond."""
ENTRY: Final = b'{"metric":{'
BETWEEN: Final = b',{"metric":{'
"""Cannot occur inside a JSON text, where a quotation mark is escaped."""
NAME: Final = b'"__name__":"'


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


class Element(msgspec.Struct, frozen=True, gc=False):
    """One element of an instant vector."""

    identity: bytes
    """The label set without the metric's name, as it was sent: equal in Q and in timestamp(Q)."""
    value: float
    evaluated: float
    """Unix seconds."""


_ANSWER: Final = msgspec.json.Decoder(_Answer)
_ENTRIES: Final = msgspec.json.Decoder(list[_Entry])
_LABELS: Final = msgspec.json.Decoder(dict[str, str])


def elements(body: bytes) -> Iterator[Element]:
    """Elements of an answer in the order sent; raises ValueError for what is no instant vector, NotJsonError for no JSON."""
    first, last = body.find(ENTRY), body.rfind(ENTRY)
    if first == last:  # at most one entry, or JSON with blanks, as other servers than Prometheus may send
        yield from (Element(_canonical(bytes(entry.metric)), float(entry.value[1]), entry.value[0]) for entry in _vector(body))
        return
    ending = _vector(body[:first] + body[last:])  # the envelope with its last entry: tells at once whether this is a vector at all
    start = first
    while start < last:
        end = min(last, start + PIECE_BYTES)
        if end < last:
            end = body.find(BETWEEN, end, last) + 1 or last
        yield from map(_element, _ENTRIES.decode(b"[" + body[start:end].rstrip(b", \n") + b"]"))
        start = end
    yield from map(_element, ending)


def _vector(body: bytes) -> list[_Entry]:
    try:
        answer = _ANSWER.decode(body)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError as error:
        raise NotJsonError(str(error)) from error
    if answer.status != "success" or answer.data.result_type != "vector":
        raise ValueError("no instant vector")
    return answer.data.result


def _element(entry: _Entry) -> Element:
    return Element(_nameless(bytes(entry.metric)), float(entry.value[1]), entry.value[0])


def _nameless(metric: bytes) -> bytes:
    """The label set without `__name__`; names hold no quotation marks, or the set stays as it is."""
    at = metric.find(NAME)
    if at < 0:
        return metric
    end = metric.find(b'"', at + len(NAME))
    if metric[end : end + 2] == b'",':
        return metric[:at] + metric[end + 2 :]
    return metric[: max(1, at - 1)] + metric[end + 1 :] if metric[end : end + 2] == b'"}' else metric


def _canonical(metric: bytes) -> bytes:
    """The label set as Prometheus sends it: sorted, without blanks; without `__name__`."""
    labels = {key: value for key, value in _LABELS.decode(metric).items() if key != "__name__"}
    return msgspec.json.encode(labels, order="sorted")


class LabelSets:
    """Label sets by identity, narrowed to the labels that matter; those not asked for between two sweeps are forgotten.

    Not for two threads at once.
    """

    def __init__(self, kept: frozenset[str]) -> None:
        self._kept = kept
        self._known: dict[bytes, dict[str, str]] = {}
        self._asked: dict[bytes, dict[str, str]] = {}
        self._texts: dict[str, str] = {}

    def labels(self, identity: bytes) -> dict[str, str]:
        """The kept labels of a set; the same object for the same identity, not to be changed. Raises ValueError for what is no set."""
        found = self._asked.get(identity)
        if found is None:
            found = self._known.get(identity)
            if found is None:
                found = self._narrowed(_LABELS.decode(identity))
            self._asked[identity] = found
        return found

    def sweep(self) -> None:
        """After a reading: what it did not ask for is forgotten."""
        self._known, self._asked = self._asked, {}
        self._texts = {}

    def _narrowed(self, labels: dict[str, str]) -> dict[str, str]:
        texts = self._texts
        return {texts.setdefault(key, key): texts.setdefault(text, text) for key, text in labels.items() if key in self._kept}
