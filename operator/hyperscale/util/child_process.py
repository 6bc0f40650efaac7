"""How a process beside the operator starts: clean environment, limits, standard output for answers alone, an end with its parent."""

from __future__ import annotations

import os
import resource
import sys
import threading
import time
from collections.abc import Mapping
from typing import BinaryIO, Final

ENVIRONMENT: Final[Mapping[str, str]] = {
    # Nothing of the operator's own environment: it may hold addresses and credentials.
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    # One process beside the operator, one core: more threads would only take time from it.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    # Order of sets of text must not change from one process to the next.
    "PYTHONHASHSEED": "0",
    # `python -m` would import from the working directory first.
    "PYTHONSAFEPATH": "1",
}
PARENT_CHECK_SECONDS: Final = 0.5


def begin(nice: int, memory_bytes: int) -> BinaryIO:
    """Prepare this process as a child; return where answers go. Whatever libraries print goes to standard error.

    nice: added to the niceness; memory_bytes: that the process may write, 0 sets no limit
    """
    os.nice(nice)
    if memory_bytes:
        # Not RLIMIT_AS: that counts 120 MiB of libraries mapped from files and of reserved addresses, which cost a container nothing.
        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    sink = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return sink


def _end_with_parent(parent: int) -> None:
    """End at once when the operator is gone: a killed operator cannot tell us, and a search may look at its input much later."""
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK_SECONDS)
    os._exit(1)
