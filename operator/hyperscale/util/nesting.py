"""One limit for the nesting of JSON on every Python."""

from __future__ import annotations

from itertools import accumulate
from typing import Final

MAX_LEVELS: Final = 500
"""Decoders stop at about 1,000 levels on Python 3.11, and at 10,000 on 3.13.

What only a later Python decodes would end functions that walk through it.
"""

_SHAPE: Final = b'"[]{}'
_OTHER: Final = bytes(set(range(256)) - set(_SHAPE))
_STEPS: Final = bytes.maketrans(b"[]{}", b"\x01\xff\x01\xff")


def shallow(text: bytes) -> bytes:
    """The text itself, some JSON; raises RecursionError, as decoders do, where its lists and objects nest deeper than MAX_LEVELS.

    Of text that is no JSON it may raise or return: the decoder finds the fault.
    """
    if text.count(b"[") + text.count(b"{") <= MAX_LEVELS:
        return text
    plain = text.replace(b"\\\\", b"").replace(b'\\"', b"")  # no quotation mark but those around texts
    # Texts without brackets are two marks side by side; without both, every bracket is still inside or outside of texts as before.
    outside = b"".join(plain.translate(None, _OTHER).replace(b'""', b"").split(b'"')[::2])
    if max(accumulate(memoryview(outside.translate(_STEPS)).cast("b")), default=0) > MAX_LEVELS:
        raise RecursionError(f"nested more than {MAX_LEVELS} levels deep")
    return text
