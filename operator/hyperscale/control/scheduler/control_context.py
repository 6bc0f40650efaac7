"""What reconciler and scheduler share: the cache, the reader of specs, metrics, the clock, and the way to ask for a reconcile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from hyperscale.control.cache.cluster_cache import ClusterCache
from hyperscale.control.cache.records import Key
from hyperscale.control.specs.parsed_specs import JobReader
from hyperscale.control.telemetry.metrics import Telemetry


@dataclass(frozen=True)
class ControlContext:
    """Built once, before any part that uses it."""

    cache: ClusterCache
    reader: JobReader
    telemetry: Telemetry
    clock: Callable[[], float]
    """Unix seconds."""
    wake: Callable[[Key], None]
    """Asks for a reconcile of a job about which something changed outside its own reconcile."""
    planner_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Locked while a job waits for its plan: advice for running jobs is then not computed."""
    monotonic: Callable[[], float] = time.monotonic
    """Seconds of a clock that is never set: for what is due again after a while."""
