"""Preflights, beside everything else: their Jobs are created and read here, so that no start waits for the API server's answers.

Passes decide by what was read last. A restarted operator finds a Job by its name, and an outcome in the status.
"""

from __future__ import annotations

import asyncio
import logging
import math
from typing import Final, NamedTuple, Protocol

from hyperscale.control.apply.api_answers import ApiError
from hyperscale.control.apply.dependents import DependentRefusedError
from hyperscale.control.cache.records import Key
from hyperscale.control.lifecycle.preflight_outcome import is_open
from hyperscale.control.render.template import RenderError
from hyperscale.control.scheduler.control_context import ControlContext
from hyperscale.control.scheduler.namespace_queue import LaterPasses, NamespaceQueue
from hyperscale.model.api.job import JobSpec
from hyperscale.model.api.preflight import preflight_key
from hyperscale.model.decision import Reason
from hyperscale.model.meta import JobMetadata
from hyperscale.model.observed.reconcile_input import PreflightState, ReconcileInput, SpecFault
from hyperscale.model.pods import PREFLIGHT
from hyperscale.observe.run_report import printable

_LOG = logging.getLogger(__name__)

POLL_SECONDS: Final = 5.0
"""Interval between two reads of a Job; events of its pods are seen at once."""
AGAIN_SECONDS: Final = 30.0
"""Until what the API server refused is tried again, and a job that found no place in line comes again at the latest."""
WORKERS: Final = 4
"""Jobs that are seen to at the same time: one slow answer delays no other namespace."""


class PreflightWrites(Protocol):
    """The part of the actions that creates and reads the Job."""

    async def ensure_preflight(self, key: Key, state: ReconcileInput, job: JobSpec) -> None:
        """Create the Job, or read how far it is."""
        ...


class OpenPreflight(NamedTuple):
    """A job whose preflight is to be begun or read, as its pass found it."""

    key: Key
    state: ReconcileInput


class _Refusal(NamedTuple):
    """Why the API server did not take what one preflight needs."""

    preflight: str
    """Key of the preflight."""
    fault: SpecFault


class PreflightRunner:
    """Sees to a few preflights at a time, to one of each job; the namespaces take turns."""

    def __init__(self, context: ControlContext, actions: PreflightWrites) -> None:
        self._cache, self._monotonic, self._wake = context.cache, context.monotonic, context.wake
        self._actions = actions
        self._waiting: NamespaceQueue[OpenPreflight] = NamespaceQueue()
        self._arrived = asyncio.Event()
        self._later = LaterPasses(context.wake)
        self._in_hand: set[Key] = set()
        """Jobs that a worker sees to now."""
        self._due: dict[Key, tuple[str, float]] = {}
        """Key of the preflight that was seen to last, and when it is due again (monotonic)."""
        self._refusals: dict[Key, _Refusal] = {}

    def view(self, key: Key, job: JobSpec | None, metadata: JobMetadata) -> PreflightState:
        """What is known of a job's preflight."""
        wanted = preflight_key(job, metadata) if job is not None else ""
        if not wanted:
            return PreflightState()
        refusal = self._refusals.get(key)
        return PreflightState(
            key=wanted,
            job=self._cache.preflights.get(key),
            pods=self._cache.batch_pods_of(key, PREFLIGHT),
            refusal=refusal.fault if refusal is not None and refusal.preflight == wanted else None,
        )

    def consider(self, key: Key, state: ReconcileInput) -> None:
        """Put a job in line whose preflight is to begin, or may have moved; one that finds no place comes again soon."""
        if not is_open(state) or key in self._in_hand:
            return
        wanted, due = self._due.get(key, ("", -math.inf))
        if wanted == state.preflight.key and self._monotonic() < due:
            return
        waits, gone = self._waiting.put(OpenPreflight(key, state))
        if waits:
            self._arrived.set()
        for left_out in (None if waits else key, gone.key if gone is not None else None):
            if left_out is not None:
                self._later.ask(left_out, AGAIN_SECONDS)

    def forget(self, key: Key) -> None:
        """Forget a job that is gone."""
        self._waiting.forget(key)
        self._due.pop(key, None)
        self._refusals.pop(key, None)

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as workers:
            for _ in range(WORKERS):
                workers.create_task(self._work())

    async def _work(self) -> None:
        while True:
            if (waiting := self._waiting.take()) is None:
                self._arrived.clear()
                await self._arrived.wait()
                continue
            self._in_hand.add(waiting.key)
            try:
                await self._see_to(waiting.key, waiting.state)
            finally:
                self._in_hand.discard(waiting.key)

    async def _see_to(self, key: Key, state: ReconcileInput) -> None:
        """Create or read one Job, and ask for a pass now and when it is due again. Whatever goes wrong ends nothing else."""
        job, again = state.job.parsed, POLL_SECONDS
        if key not in self._cache.jobs or job is None:
            return
        try:
            await self._actions.ensure_preflight(key, state, job)
            self._refusals.pop(key, None)
        except DependentRefusedError as error:
            again = AGAIN_SECONDS
            self._refusals[key] = _Refusal(state.preflight.key, SpecFault("", printable(str(error)), error.reason))
        except RenderError as error:
            again = AGAIN_SECONDS
            self._refusals[key] = _Refusal(state.preflight.key, SpecFault(error.path, printable(str(error)), Reason.INVALID_POD_TEMPLATE))
        except ApiError as error:  # the job has changed, or the API server does not answer: the next pass knows more
            _LOG.info("%s: the preflight is tried again: %s", key, error)
        except Exception:  # no start, and no other part of the operator, depends on a preflight being seen to
            _LOG.exception("%s: the preflight was not seen to", key)
            again = AGAIN_SECONDS
        if key not in self._cache.jobs:
            self.forget(key)
            return
        self._due[key] = state.preflight.key, self._monotonic() + again
        self._wake(key)
        asyncio.get_running_loop().call_later(again, self._wake, key)
