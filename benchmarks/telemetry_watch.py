"""`python -m hyperscale` with a stopwatch on every step of its event loop, for telemetry_operator.py.

Each step of more than LEAST_SECONDS becomes one line in the file named by WATCH_FILE: when it began (monotonic), the CPU time of the
loop's thread in it, the time on the wall. CPU time leaves out what the rest of a busy machine takes; the wall also has what other
threads of the operator take by holding the interpreter.
"""

from __future__ import annotations

import asyncio.events
import os
import runpy
import time
from collections.abc import Callable
from typing import Final

LEAST_SECONDS: Final = 0.01


def main() -> None:
    """Patch, and become the operator."""
    run: Callable[[asyncio.events.Handle], None] = getattr(asyncio.events.Handle, "_run")  # noqa: B009 - no public place sees every step
    with open(os.environ["WATCH_FILE"], "a", buffering=1, encoding="utf-8") as file:

        def watched(handle: asyncio.events.Handle) -> None:
            began, cpu = time.monotonic(), time.thread_time()
            run(handle)
            spent = time.monotonic() - began
            if spent > LEAST_SECONDS:
                file.write(f"{began} {time.thread_time() - cpu} {spent}\n")

        setattr(asyncio.events.Handle, "_run", watched)  # noqa: B010 - for the type checker there is no such method
        runpy.run_module("hyperscale", run_name="__main__")


if __name__ == "__main__":
    main()
