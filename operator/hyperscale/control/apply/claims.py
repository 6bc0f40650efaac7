"""The volumes of a job's pods, read when it is planned: which claims are missing, and which nodes the others allow.

Nothing is watched or listed: each claim is read by name, then its volume or its storage class, and what was read counts for a while.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from hyperscale.control.apply import paths
from hyperscale.control.apply.api_answers import ApiError, TransientError
from hyperscale.control.apply.client import ApiClient
from hyperscale.model.planning import NO_VOLUMES, NodeRule, Volumes
from hyperscale.observe.kube.volume_rules import class_name, class_rules, volume_name, volume_rules

_LOG = logging.getLogger(__name__)

FRESH_SECONDS: Final = 20.0
"""How long what was read of a claim counts: less than the time after which a refused job asks again."""
MAX_CLAIMS: Final = 16
"""Claims read of one job; those beyond constrain nothing."""
MAX_JOBS: Final = 4096
FORBIDDEN: Final = 403

JobKey = tuple[str, str]
"""Namespace and name."""


class _Read(NamedTuple):
    at: float
    claims: tuple[str, ...]
    volumes: Volumes


class Claims:
    """Reads the claims of one job at a time, and remembers what they say."""

    def __init__(self, client: ApiClient, clock: Callable[[], float]) -> None:
        self._client = client
        self._clock = clock
        self._known: dict[JobKey, _Read] = {}
        self._forbidden: set[str] = set()

    def claimed_volumes(self, key: JobKey) -> Volumes:
        """As last read; nothing for a job that was not asked about."""
        return self._known[key].volumes if key in self._known else NO_VOLUMES

    def forget(self, key: JobKey) -> None:
        """The job is gone, or mounts no claim any more."""
        self._known.pop(key, None)

    async def read(self, key: JobKey, claims: tuple[str, ...]) -> Volumes:
        """Of these claims in the job's namespace; raises ApiError for anything but a refusal, which is logged once."""
        last = self._known.get(key)
        fresh = last is not None and last.claims == claims and self._clock() - last.at < FRESH_SECONDS
        if last is None or not fresh or last.volumes.missing:
            self._known.pop(key, None)
            while len(self._known) >= MAX_JOBS:
                del self._known[next(iter(self._known))]
            self._known[key] = _Read(self._clock(), claims, await self._volumes(key[0], claims[:MAX_CLAIMS]))
        return self._known[key].volumes

    async def _volumes(self, namespace: str, claims: tuple[str, ...]) -> Volumes:
        rules: list[NodeRule] = []
        missing: list[str] = []
        for claim in claims:
            resource = await self._find("PersistentVolumeClaim", claim, paths.claims(namespace, claim))
            if resource is None:
                missing.append(claim)
            elif volume := volume_name(resource):
                rules += volume_rules(await self._find("PersistentVolume", volume, paths.volumes(volume)) or {}, claim)
            elif storage_class := class_name(resource):
                rules += class_rules(await self._find("StorageClass", storage_class, paths.storage_classes(storage_class)) or {}, claim)
        return Volumes(tuple(rules), tuple(missing))

    async def _find(self, kind: str, name: str, path: str) -> Mapping[str, Any] | None:
        """The object; None where there is none, empty where the operator must not read it."""
        try:
            answer = await self._client.find(path)
        except ApiError as error:
            if error.status != FORBIDDEN:
                raise
            resource = path.split("/")[-2]
            if resource not in self._forbidden:
                self._forbidden.add(resource)
                _LOG.warning("%s cannot be read, plans do not know where volumes can be reached: %s", resource, error)
            return {}
        # The stand-in for an object that cannot be decoded has no kind.
        if answer is not None and (answer.get("kind", kind) != kind or (answer.get("metadata") or {}).get("name") != name):
            raise TransientError(200, f"the answer to {path} is no {kind} of that name", "BadAnswer")
        return answer
