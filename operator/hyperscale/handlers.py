"""kopf decorators and nothing else: every event goes into the world and asks for a pass; the pass reads the world itself.

Only `on.event` handlers: they store nothing on the objects, need no finalizer, and are level-based (kopf's own docs, critiques).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import kopf
from kopf._cogs.structs import dicts

from hyperscale import names
from hyperscale.apply.client import PAGE_SIZE
from hyperscale.operator import Operator


def register(registry: kopf.OperatorRegistry) -> None:
    """Put all handlers into `registry`."""

    @kopf.on.startup(registry=registry)
    async def configure(settings: kopf.OperatorSettings, **_: Any) -> None:  # noqa: ANN401 - kopf passes many kinds of things
        configure_kopf(settings)

    @kopf.on.login(registry=registry)
    def login(**given: Any) -> kopf.ConnectionInfo | None:  # noqa: ANN401 - kopf passes many kinds of things
        return kopf.login_with_service_account(**given) or kopf.login_with_kubeconfig(**given)

    @kopf.on.event(names.GROUP, names.VERSION, names.JOB_PLURAL, registry=registry)
    async def job_changed(memo: Operator, type: str | None, body: kopf.Body, **_: Any) -> None:  # noqa: A002, ANN401 - kopf's names
        memo.job_changed(_plain(body), deleted=type == "DELETED")

    @kopf.on.event(names.GROUP, names.VERSION, names.POLICY_PLURAL, registry=registry)
    async def policy_changed(memo: Operator, type: str | None, body: kopf.Body, **_: Any) -> None:  # noqa: A002, ANN401 - kopf's names
        memo.policy_changed(_plain(body), deleted=type == "DELETED")

    @kopf.on.event(names.MPI_GROUP, names.MPI_VERSION, names.MPI_PLURAL, registry=registry)
    async def mpijob_changed(memo: Operator, type: str | None, body: kopf.Body, **_: Any) -> None:  # noqa: A002, ANN401 - kopf's names
        memo.mpijob_changed(_plain(body), deleted=type == "DELETED")

    @kopf.on.event("", "v1", "pods", registry=registry)
    async def pod_changed(memo: Operator, type: str | None, body: kopf.Body, **_: Any) -> None:  # noqa: A002, ANN401 - kopf's names
        memo.pod_changed(_plain(body), deleted=type == "DELETED")

    @kopf.on.event("", "v1", "nodes", registry=registry)
    async def node_changed(memo: Operator, type: str | None, body: kopf.Body, **_: Any) -> None:  # noqa: A002, ANN401 - kopf's names
        memo.node_changed(_plain(body), deleted=type == "DELETED")


def configure_kopf(settings: kopf.OperatorSettings) -> None:
    """Bounds and storages; each deviation from kopf's default has bitten someone."""
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=names.KOPF_PREFIX)  # dask/dask-kubernetes#968
    settings.persistence.diffbase_storage = _NoDiffs(prefix=names.KOPF_PREFIX)
    settings.persistence.finalizer = f"{names.KOPF_PREFIX}/finalizer"
    settings.posting.enabled = False  # the operator emits its own events, after the status write
    settings.watching.server_timeout = 300
    settings.watching.client_timeout = 330  # a frozen stream ends by itself (nolar/kopf#585)
    settings.watching.connect_timeout = 5
    settings.watching.chunk_size = PAGE_SIZE  # a listing of 5,000 nodes decoded at once holds up the loop
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 5
    settings.networking.enforce_retry_after = True
    settings.process.ultimate_exiting_timeout = 20
    settings.peering.standalone = True  # the Lease decides who is active


class _NoDiffs(kopf.AnnotationsDiffBaseStorage):
    """Nothing to compare: kopf copies each object deeply on every event for handlers of changes, and here are none."""

    def build(self, *, body: kopf.Body, extra_fields: Iterable[dicts.FieldSpec] | None = None) -> kopf.BodyEssence:
        """No essence at all."""
        return kopf.BodyEssence({})


def _plain(body: kopf.Body) -> dict[str, Any]:
    """The API object itself, without kopf's read-only views."""
    return dict(body)
