"""How a command ends: exit codes, and the one line that an error may take."""

from __future__ import annotations

from typing import Final

OK: Final = 0
INFEASIBLE: Final = 1
"""No plan exists on this cluster; the dominant reason was printed."""
BAD_INPUT: Final = 2
"""Something that the user gave, or that it points to, cannot be used."""
INTERNAL: Final = 70
"""A bug of ours (EX_SOFTWARE of sysexits.h)."""
INTERRUPTED: Final = 130

MAX_LINE: Final = 600
"""Longest error line: a hostile file must not flood a terminal."""


class InputError(Exception):
    """Bad input; the message names the file, the path of the field and what to write instead."""


def one_line(text: str) -> str:
    """`text` on one bounded line, without control characters (they could move a terminal's cursor)."""
    flat = " ".join(text.split())
    clean = "".join(letter if letter.isprintable() else "?" for letter in flat)
    return clean if len(clean) <= MAX_LINE else clean[: MAX_LINE - 1] + "…"
