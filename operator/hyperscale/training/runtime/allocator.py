"""Freed memory stays with the process: an epoch's tensors are made of the last epoch's pages.

glibc gives blocks above 32 MiB (DEFAULT_MMAP_THRESHOLD_MAX) back to the kernel as soon as they are freed, and torch keeps none on the
processor: every such tensor is then paged in again each time, 4 KiB by 4 KiB. Rows of 256 floats reach that at 33,000 vertices; there a
vertex costs a fifth to a third more than below.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Final

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_MAX: Final = -4
_MOST: Final = 2**31 - 1
"""Bytes at the heap's end above which it shrinks: as many as can be passed to mallopt."""
_USERS: Final = ("GLIBC_TUNABLES", "MALLOC_MMAP_MAX_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_")


def keep(environment: Mapping[str, str]) -> bool:
    """From now on, unless the user has set malloc up; whether this C library can."""
    if any(name in environment for name in _USERS):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(mallopt(_M_MMAP_MAX, 0)) and bool(mallopt(_M_TRIM_THRESHOLD, _MOST))
