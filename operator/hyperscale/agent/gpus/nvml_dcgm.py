"""Whether a DCGM exporter serves this node already: then its figures are the node's, and the agent's would be doubles."""

from __future__ import annotations

import asyncio
import http.client
import logging
import ssl
import time
from functools import partial
from typing import Final
from urllib.parse import urlsplit

from hyperscale.agent.agent_settings import AgentSettings
from hyperscale.agent.gpus.nvml_poll import Poller
from hyperscale.util.threads import in_daemon_thread

_LOG = logging.getLogger("hyperscale.agent.gpu")

CHECK_SECONDS: Final = 30.0
DEADLINE_SECONDS: Final = 3.0
MAX_BYTES: Final = 2**18
"""Enough of an answer to find a figure in: eight GPUs with the default figures take a third."""
_MISSES: Final = 3
"""So often the exporter must fail to answer before the agent serves in its place: it restarts now and then."""
_SIGN: Final = b"\nDCGM_FI_DEV_"
"""Begin of a sample: an exporter that lost its GPUs still answers, with HELP lines at most."""


def serves(url: str, deadline_seconds: float = DEADLINE_SECONDS) -> bool:
    """Whether `url` answers with figures of GPUs. Follows no redirect, uses no proxy, reads a bounded part; raises nothing."""
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    connection: http.client.HTTPConnection
    # The exporter's certificate is usually its own (dcgm-exporter's web config); nothing is sent to it but the question.
    connection = (
        http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=deadline_seconds, context=ssl._create_unverified_context())  # noqa: S323
        if secure
        else http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=deadline_seconds)
    )
    until = time.monotonic() + deadline_seconds
    try:
        connection.request("GET", (parts.path or "/metrics") + (f"?{parts.query}" if parts.query else ""))
        answer = connection.getresponse()
        return answer.status == 200 and _has_figures(answer, until)
    except (OSError, http.client.HTTPException, ValueError):
        return False
    finally:
        connection.close()


def _has_figures(answer: http.client.HTTPResponse, until: float) -> bool:
    kept = b"\n"
    read = 0
    while read < MAX_BYTES and time.monotonic() < until:
        part = answer.read1(8192)
        if not part:
            return False
        read += len(part)
        kept = kept[-len(_SIGN) :] + part
        if _SIGN in kept:
            return True
    return False


class Watch:
    """Tells a poller, for as long as the agent lives, whether an exporter serves its figures."""

    def __init__(self, poller: Poller, settings: AgentSettings) -> None:
        self._poller = poller
        self._url = settings.dcgm_url if settings.gpu == "Auto" else ""
        self._misses = 0

    async def look(self) -> None:
        """One look; an exporter that misses a few is still believed to be there."""
        if not self._url:
            return
        try:
            async with asyncio.timeout(DEADLINE_SECONDS * 2):
                answers = await in_daemon_thread(partial(serves, self._url))
        except TimeoutError:  # a name server that does not answer knows no deadline
            answers = False
        self._misses = 0 if answers else self._misses + 1
        left = answers or (self._poller.left_to_dcgm and self._misses < _MISSES)
        if left != self._poller.left_to_dcgm:
            _LOG.info(
                "a DCGM exporter serves this node: GPU figures are left to it" if left else "no DCGM exporter serves this node any more"
            )
        self._poller.left_to_dcgm = left

    async def run(self) -> None:
        """Look for ever."""
        while self._url:
            await self.look()
            await asyncio.sleep(CHECK_SECONDS)
