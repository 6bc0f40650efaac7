"""The one error of this package: a single line that names the file, the place in it, and what to write instead."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

MAX_SHOWN: int = 60
"""Characters of a foreign value that an error repeats."""
MAX_WHAT: int = 300
"""Characters of a fault: libraries repeat what they stumbled over."""


class DataError(ValueError):
    """Data that cannot be used; the message is one line for the person who wrote the file or the job."""


def fault(place: str | Path, what: str, fix: str) -> DataError:
    """`place: what; fix` on one line; `place` is a file with line or field, or a field of the job."""
    shortened = what if len(what) <= MAX_WHAT else what[: MAX_WHAT - 1] + "…"
    line = " ".join(f"{place}: {shortened}; {fix}".split())
    return DataError("".join(letter if letter.isprintable() else "?" for letter in line))


@contextlib.contextmanager
def faults(place: str | Path, what: str, fix: str, *kinds: type[Exception]) -> Iterator[None]:
    """What is raised inside of these `kinds` becomes a fault of `place`, its text in brackets; a DataError stays as it is."""
    try:
        yield
    except DataError:
        raise
    except kinds as error:
        raise fault(place, f"{what} ({str(error)[:200]})", fix) from None


def shown(value: object) -> str:
    """`value` as an error repeats it: quoted, printable, short."""
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…"
