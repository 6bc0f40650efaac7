"""Fields of a snapshot file that nothing reads: a misspelt one would be a silent default. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from hyperscale.model.cluster import ClusterSnapshot, Gpu, Link, Node

ANY_NAME: Final = 0.6
"""Likeness from which on a field is proposed."""
SHOWN_CHARACTERS: Final = 40
_OBJECTS: Final = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])


def unknown_fields(outline: Mapping[str, msgspec.Raw]) -> Iterator[str]:
    """What is wrong with the names in a snapshot's JSON, in reading order. outline: its fields; their content has the right types."""
    yield from _unknown("", outline, ClusterSnapshot)
    for place, node in enumerate(_OBJECTS.decode(outline["nodes"])):
        yield from _unknown(f"nodes[{place}].", node, Node)
        for at, gpu in enumerate(_OBJECTS.decode(node["gpus"]) if "gpus" in node else ()):
            yield from _unknown(f"nodes[{place}].gpus[{at}].", gpu, Gpu)
    for place, link in enumerate(_OBJECTS.decode(outline["links"]) if "links" in outline else ()):
        yield from _unknown(f"links[{place}].", link, Link)


def _unknown(where: str, given: Mapping[str, msgspec.Raw], kind: type[msgspec.Struct]) -> Iterator[str]:
    if len(given.keys() & set(kind.__struct_encode_fields__)) == len(given):
        return
    for name in given:
        if name not in kind.__struct_encode_fields__:
            near = difflib.get_close_matches(name[:SHOWN_CHARACTERS], kind.__struct_encode_fields__, n=1, cutoff=ANY_NAME)
            advice = f"did you mean {near[0]}?" if near else f"write one of {', '.join(kind.__struct_encode_fields__)}"
            yield f"{where}{name[:SHOWN_CHARACTERS]}: is no field here; {advice}"
