"""Serves what the next plan depends on to `hyperscale plan`, which reaches it through the API server's proxy of one Service.

The port is open to the pods' network, so every request must show the key of a Secret that RBAC hands out (docs/rbac.md). Only GET, no
body is read, and however often it is asked documents are made in a tenth of the time at most.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from aiohttp import web

from hyperscale import __version__
from hyperscale.control.cache.cluster_cache import ClusterCache
from hyperscale.control.scheduler.pending import Pending
from hyperscale.control.scheduler.running_jobs import Running
from hyperscale.control.specs.parsed_specs import JobReader
from hyperscale.control.telemetry.listener import Door
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.observed.reconcile_input import SpecFault
from hyperscale.model.preview import AGE_HEADER, KEY_HEADER, PATH, POLICY_QUERY, VERSION, PreviewQueue, PreviewState, digested, to_lines
from hyperscale.util.threads import in_daemon_thread

_LOG = logging.getLogger(__name__)

KEPT_SECONDS: Final = 5.0
"""As long as nothing changes; remaining times of running jobs move on meanwhile."""
LEAST_REST_SECONDS: Final = 0.2
REST_RATIO: Final = 10.0
"""Between two makings where something changed: a multiple of the time that the last one took; they take at most a tenth of the time."""
KEPT_POLICIES: Final = 4
"""Documents kept; the one made first is forgotten first."""
MIN_KEY_LENGTH: Final = 16
MAX_KEY_BYTES: Final = 1024
MAX_DOCUMENT_BYTES: Final = 192 << 20
"""Uncompressed; 5,000 nodes with eight GPUs and thirty links each take 76 MiB."""
GZIP: Final = 31
"""zlib's largest window, in gzip's frame."""


class PreviewDocument(NamedTuple):
    """One answer."""

    made_at: float
    """By the monotonic clock."""
    seconds: float
    """That its making took."""
    policy: PolicySpec
    snapshot: ClusterSnapshot
    version: int
    """Of the cache: it grows with what plans hold and what waits."""
    body: bytes
    """Lines of JSON, compressed with gzip."""


class Previews:
    """Makes the documents and keeps them for a while."""

    def __init__(
        self, cache: ClusterCache, reader: JobReader, pending: Pending, running: Running, own_weights: bool, clock: Callable[[], float]
    ) -> None:
        """clock: Unix seconds."""
        self._cache, self._reader, self._pending, self._running = cache, reader, pending, running
        self._own_weights, self._clock = own_weights, clock
        self._kept: dict[str, PreviewDocument] = {}
        """By name of the policy."""
        self._lock = asyncio.Lock()

    def state(self, policy: PolicySpec) -> PreviewState:
        """All that the plan of a new job under `policy` depends on now."""
        now = self._clock()
        snapshot = self._cache.snapshot(policy, now)
        running = sorted(self._running.shares(), key=lambda share: share.key)
        return PreviewState(
            version=VERSION,
            operator_version=__version__,
            elapsed_seconds=max(0.0, now - snapshot.taken_at),
            policy=policy,
            snapshot=snapshot,
            free_gpus=self._cache.assumed_plans.free_gpus(snapshot),
            reserved_amounts=self._cache.assumed_plans.reserved_amounts(),
            asked_sizes=self._cache.snapshots.asked.sizes(),
            calibrations=dict(self._reader.calibrations),
            taught=digested(self._reader.taught),
            corrections=dict(self._reader.corrections),
            queue=PreviewQueue(
                running=tuple(msgspec.structs.replace(share, key=f"{number:04d}") for number, share in enumerate(running)),
                claims=self._running.claims(snapshot),
                arrivals=self._pending.arrivals,
                since_last_arrival_seconds=self._pending.since_last_arrival(),
                pending=len(self._pending.others(None, policy)),
            ),
            own_weights=self._own_weights,
        )

    async def document(self, name: str) -> PreviewDocument | SpecFault:
        """The state under the policy of that name, "" for the default one, as bytes; or what is wrong with the policy.

        Raises ValueError where the state is too large to be served.
        """
        async with self._lock:
            policy = self._reader.policy(name, self._cache.policies)
            if isinstance(policy, SpecFault):
                return policy
            kept = self._kept.get(name)
            if kept is None or kept.policy != policy or self._outdated(kept):
                started = time.monotonic()
                state, version = self.state(policy), self._cache.version
                body = await in_daemon_thread(lambda: _packed(state))
                kept = PreviewDocument(started, time.monotonic() - started, policy, state.snapshot, version, body)
                self._kept.pop(name, None)
                while len(self._kept) >= KEPT_POLICIES:
                    del self._kept[next(iter(self._kept))]
                self._kept[name] = kept
            return kept

    def _outdated(self, kept: PreviewDocument) -> bool:
        """Whether anything that a plan depends on has changed, and the last making was paid for with a rest."""
        age = time.monotonic() - kept.made_at
        changed = self._cache.version != kept.version or self._cache.snapshot(kept.policy, self._clock()) is not kept.snapshot
        return age >= (max(LEAST_REST_SECONDS, kept.seconds * REST_RATIO) if changed else KEPT_SECONDS)


class PreviewServer:
    """HTTP for `Previews`."""

    def __init__(self, previews: Previews, ready: Callable[[], str], key_file: Path) -> None:
        """ready: what is missing, "" for nothing; key_file: read at every request, so that a new key counts at once."""
        self._previews, self._ready, self._key_file = previews, ready, key_file
        application = web.Application(client_max_size=1024)
        application.router.add_get(PATH, self._respond)
        self._door = Door(application)

    async def start(self, port: int) -> None:
        """Listen on all addresses; raises OSError where the port is taken."""
        await self._door.start(port)

    async def stop(self) -> None:
        """Stop listening."""
        await self._door.stop()

    async def _respond(self, request: web.Request) -> web.Response:
        key = self._key()
        if key is None:
            return _refused(503, f"this operator has no key in {self._key_file}; create the Secret of docs/install.md")
        # aiohttp decodes headers so: bytes that are no UTF-8 come back as they were.
        if not hmac.compare_digest(request.headers.get(KEY_HEADER, "").encode(errors="surrogateescape"), key):
            return _refused(403, f"the header {KEY_HEADER} does not carry this operator's key")
        self._door.proven(request)
        if fault := self._ready():
            return _refused(503, fault)
        try:
            document = await self._previews.document(request.query.get(POLICY_QUERY, ""))
        except ValueError as error:
            _LOG.warning("no preview is served: %s", error)
            return _refused(507, str(error))
        if isinstance(document, SpecFault):
            return _refused(404, document.message)
        headers = {
            "Content-Encoding": "gzip",
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            AGE_HEADER: str(int(time.monotonic() - document.made_at)),
        }
        return web.Response(body=document.body, content_type="application/x-ndjson", charset="utf-8", headers=headers)

    def _key(self) -> bytes | None:
        """The key; None where there is none, or one that is too short to be secret."""
        try:
            with self._key_file.open("rb") as opened:
                key = opened.read(MAX_KEY_BYTES).strip()
        except OSError:
            return None
        return key if len(key) >= MIN_KEY_LENGTH else None


def _packed(state: PreviewState) -> bytes:
    """The document, compressed part by part: between two parts other threads continue."""
    packer = zlib.compressobj(level=1, wbits=GZIP)
    packed, size = [], 0
    for line in to_lines(state):
        size += len(line)
        if size > MAX_DOCUMENT_BYTES:
            nodes, limit = len(state.snapshot.nodes), MAX_DOCUMENT_BYTES >> 20
            raise ValueError(f"the state of {nodes} nodes takes more than {limit} MiB; use --from job or api")
        packed.append(packer.compress(line))
    return b"".join((*packed, packer.flush()))


def _refused(status: int, message: str) -> web.Response:
    response = web.Response(status=status, text=f"{message}\n", headers={"Cache-Control": "no-store"})
    response.force_close()
    return response
