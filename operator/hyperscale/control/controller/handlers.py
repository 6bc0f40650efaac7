"""kopf decorators and what kopf needs to be given. Every event goes into the cache and asks for a pass; the pass reads the cache itself.

Only `on.event` handlers: they store nothing on the objects, need no finalizer, and are level-based (kopf's own docs, critiques).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import kopf

from hyperscale.control.controller.manager import Operator
from hyperscale.model import constants

CRDS_AT_ONCE: Final = 50
"""Definitions in one page of kopf's own listing; some have half a megabyte."""


def register(registry: kopf.OperatorRegistry, operator: Operator) -> None:
    """Put all handlers into `registry`; kopf copies its own memo for every object, `operator` is one."""

    @kopf.on.startup(registry=registry)
    async def configure(settings: kopf.OperatorSettings, **_: Any) -> None:  # noqa: ANN401 - kopf passes many kinds of things
        configure_kopf(settings)

    @kopf.on.login(registry=registry)
    def login(**given: Any) -> kopf.ConnectionInfo | None:  # noqa: ANN401 - kopf passes many kinds of things
        return kopf.login_with_service_account(**given) or kopf.login_with_kubeconfig(**given)

    @kopf.on.event(constants.GROUP, constants.VERSION, constants.JOB_PLURAL, registry=registry)
    async def job_changed(type: str | None, body: kopf.Body, **_: Any) -> None:  # noqa: A002, ANN401 - kopf's names
        operator.job_changed(_plain(body), deleted=type == "DELETED")

    @kopf.on.event(constants.GROUP, constants.VERSION, constants.POLICY_PLURAL, registry=registry)
    async def policy_changed(type: str | None, body: kopf.Body, **_: Any) -> None:  # noqa: A002, ANN401 - kopf's names
        operator.policy_changed(_plain(body), deleted=type == "DELETED")

    @kopf.on.event(constants.MPI_GROUP, constants.MPI_VERSION, constants.MPI_PLURAL, registry=registry)
    async def mpijob_changed(type: str | None, body: kopf.Body, **_: Any) -> None:  # noqa: A002, ANN401 - kopf's names
        operator.mpijob_changed(_plain(body), deleted=type == "DELETED")

    @kopf.on.event("", "v1", "pods", registry=registry)
    async def pod_changed(type: str | None, body: kopf.Body, **_: Any) -> None:  # noqa: A002, ANN401 - kopf's names
        operator.pod_changed(_plain(body), deleted=type == "DELETED")

    @kopf.on.event("", "v1", "nodes", registry=registry)
    async def node_changed(type: str | None, body: kopf.Body, **_: Any) -> None:  # noqa: A002, ANN401 - kopf's names
        operator.node_changed(_plain(body), deleted=type == "DELETED")


def configure_kopf(settings: kopf.OperatorSettings) -> None:
    """Bounds and storages; each deviation from kopf's default has bitten someone."""
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=constants.KOPF_PREFIX)  # dask/dask-kubernetes#968
    settings.persistence.diffbase_storage = _NoDiffs(prefix=constants.KOPF_PREFIX)
    settings.persistence.finalizer = f"{constants.KOPF_PREFIX}/finalizer"
    settings.posting.enabled = False  # the operator emits its own events, after the status write
    settings.watching.server_timeout = 300
    settings.watching.client_timeout = 330  # a frozen stream ends automatically (nolar/kopf#585)
    settings.watching.connect_timeout = 5
    settings.watching.chunk_size = CRDS_AT_ONCE
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 5
    settings.networking.enforce_retry_after = True
    settings.process.ultimate_exiting_timeout = 20
    settings.peering.standalone = True  # the Lease decides who is active


class _NoDiffs(kopf.AnnotationsDiffBaseStorage):
    """Nothing to compare: kopf copies each object deeply on every event for handlers of changes, and here are none."""

    def build(self, *, body: kopf.Body, extra_fields: Iterable[kopf.FieldSpec] | None = None) -> kopf.BodyEssence:
        """No essence at all."""
        return kopf.BodyEssence({})


def _plain(body: kopf.Body) -> dict[str, Any]:
    """The API object itself, without kopf's read-only views."""
    return dict(body)
