"""The cluster as last measured, written as ClusterTopology: at a bounded rate, and only when it tells something new.

An idle cluster costs nothing: noise of a figure, ages and times are no news, and after a restart the object itself tells what is known.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from hyperscale.control.apply import paths
from hyperscale.control.apply.api_answers import ApiError
from hyperscale.control.apply.client import ApiClient
from hyperscale.control.cache.cluster_cache import ClusterCache
from hyperscale.control.telemetry.metrics import Telemetry
from hyperscale.control.topology.calibration_condition import PREDICTIONS_CALIBRATED, calibration_condition
from hyperscale.control.topology.topology_changes import settled, tells_the_same
from hyperscale.evaluate.calibration.calibration_report import CalibrationReport
from hyperscale.model import constants
from hyperscale.model.api.condition import Condition
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.api.topology import TopologyPreview, TopologyStatus, topology_status
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.util.threads import in_daemon_thread
from hyperscale.util.token_bucket import TokenBucket

_LOG = logging.getLogger(__name__)

Json = dict[str, Any]

LOOK_SECONDS: Final = 1.0
"""Time between two looks whether there is a new snapshot."""
BURST: Final = 3
"""Writes that may follow each other at once after a quiet time: a job starts, its pods come, and people look."""
RETRY_SECONDS: Final = 30.0
"""After a write that failed."""


class TopologyNews(NamedTuple):
    """What there is to write."""

    status: TopologyStatus
    wire: Any
    """The status as JSON-compatible objects."""


class TopologyWriter:
    """Compares each new snapshot with what the ClusterTopology says, and writes it where they differ."""

    def __init__(
        self,
        client: ApiClient,
        cache: ClusterCache,
        policy: Callable[[], PolicySpec],
        telemetry: Telemetry,
        clock: Callable[[], float],
        seconds: float,
        preview: TopologyPreview | None = None,
        calibration: Callable[[], CalibrationReport | None] = lambda: None,
    ) -> None:
        """policy: the one in force; seconds: between two writes on average; preview: where previews are served.

        calibration: how well finished runs were predicted; None where no history was read
        """
        self._calibration = calibration
        self._reported: CalibrationReport | None = None
        self._client = client
        self._cache = cache
        self._policy = policy
        self._telemetry = telemetry
        self._clock = clock
        self._seconds = seconds
        self._preview = preview
        self._seen: ClusterSnapshot | None = None
        self._written: TopologyStatus | None = None
        self._version = ""
        """resourceVersion of the object as it was read or written last."""
        self._path = paths.topologies(constants.TOPOLOGY_NAME)

    async def run(self) -> None:
        """Until cancelled."""
        allowance = TokenBucket(1.0 / self._seconds, BURST, self._clock())
        self._written = await self._found()
        while True:
            try:
                await self._look(allowance)
                await asyncio.sleep(LOOK_SECONDS)
            except ApiError as error:
                _LOG.warning("the ClusterTopology was not written: %s", error)
                self._telemetry.topology_writes.labels(outcome="Failed").inc()
                await asyncio.sleep(max(RETRY_SECONDS, self._seconds))
                self._written = await self._found()

    async def _look(self, allowance: TokenBucket) -> None:
        """Write the snapshot of now if it is new, has news, and may be written."""
        snapshot = self._cache.snapshot(self._policy(), self._clock())
        report = self._calibration()
        if (snapshot is self._seen and report == self._reported) or not allowance.take(1, self._clock()):
            return
        condition = calibration_condition(report, snapshot.taken_at) if report is not None else None
        news = await in_daemon_thread(partial(_news, snapshot, self._written, self._preview, condition))
        if news is None:
            allowance.give_back(1)
            self._seen, self._reported = snapshot, report
            return
        await self._write(news)
        self._written, self._seen, self._reported = news.status, snapshot, report
        self._telemetry.topology_writes.labels(outcome="Written").inc()

    async def _write(self, news: TopologyNews) -> None:
        body: Json = {"apiVersion": constants.API_VERSION, "kind": constants.TOPOLOGY_KIND, "metadata": {"name": constants.TOPOLOGY_NAME}}
        if self._written is None:
            await self._apply(self._path, body)
        await self._apply(f"{self._path}/status", {**body, "status": news.wire})

    async def _apply(self, path: str, body: Json) -> None:
        """To the object as it was read or written last; raises ConflictError for another."""
        as_read = {"resourceVersion": self._version} if self._version else {}
        answer = await self._client.apply(path, {**body, "metadata": {**body["metadata"], **as_read}}, constants.FIELD_MANAGER)
        self._version = answer["metadata"]["resourceVersion"]

    async def _found(self) -> TopologyStatus | None:
        """What the object says already; None where there is none, or one that another version wrote."""
        try:
            topology = await self._client.find(self._path)
            self._version = str(topology["metadata"].get("resourceVersion") or "") if topology else ""
            return msgspec.convert(topology["status"], TopologyStatus) if topology and topology.get("status") else None
        except (ApiError, msgspec.ValidationError) as error:
            _LOG.warning("the ClusterTopology cannot be read, it will be written again: %s", error)
            return None


def _news(
    snapshot: ClusterSnapshot, written: TopologyStatus | None, preview: TopologyPreview | None = None, calibration: Condition | None = None
) -> TopologyNews | None:
    """What to write; None where `written` says it already. Takes a tenth of a second for 5,000 nodes.

    calibration: None keeps the condition as it was written: history was not read yet.
    """
    status = replace(topology_status(snapshot), preview=preview)
    kept = [] if written is None else [each for each in written.conditions if each.type == PREDICTIONS_CALIBRATED]
    added = [calibration] if calibration is not None else kept
    status = replace(status, conditions=(*status.conditions, *added))
    if written is not None:
        status = settled(status, written)
        if tells_the_same(status, written):
            return None
    return TopologyNews(status, msgspec.to_builtins(status))
