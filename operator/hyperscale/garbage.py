"""How the interpreter looks for garbage while the first listing of a large cluster is taken in.

Its full collections go through every object there is, modules and thousands of nodes, in one piece of two tenths of a second, and they
come the more often the faster objects are made. Collections of young objects are short, and find nearly all of it. Types of which there
are many, such as specs, statuses and pods, are part of no cycle, and are kept out of all collections (`gc=False`).
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from typing import Final

NEVER: Final = 2**30
YOUNG: Final = 1
"""Generations 0 and 1: what has outlived at most one collection."""


@contextlib.contextmanager
def only_young() -> Iterator[None]:
    """No full collection within; what is there before, such as modules, is never looked through again."""
    first, second, third = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(first, second, NEVER)
    try:
        yield
    finally:
        gc.set_threshold(first, second, third)


def keep() -> None:
    """What is there now stays, and is not looked through again."""
    gc.collect(YOUNG)
    gc.freeze()
