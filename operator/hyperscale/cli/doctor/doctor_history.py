"""Whether the database of finished runs answers: asked directly where its URL was named here, else looked up by its Service."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as TooLateError
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hyperscale.cli.doctor.doctor_api import DoctorCluster, read
from hyperscale.cli.doctor.doctor_urls import HIDDEN, service_of, without_secrets
from hyperscale.doctor.facts import HistoryFacts, Unread

if TYPE_CHECKING:
    import sqlalchemy as sql

_PROBES: Final = {"sqlite": "SELECT count(*) FROM sqlite_master", "postgresql": "SELECT 1"}
SLICE_LABEL: Final = "kubernetes.io/service-name"


def probe(cluster: DoctorCluster, url: str, home: str, named_here: bool, limit_seconds: float) -> HistoryFacts:
    """What is wrong with the database at `url`, if anything.

    home: namespace of the operator, for Services without one in their name
    named_here: the URL is one of this machine, and opened; else only the cluster's own names are looked up
    """
    shown = without_secrets(url)
    if not url:
        return HistoryFacts()
    if named_here:
        return HistoryFacts(shown, _opened(url, limit_seconds))
    if HIDDEN in shown or url.startswith("sqlite") or (service := service_of(url, home)) is None:
        return HistoryFacts(shown)
    return HistoryFacts(shown, _service(cluster, *service))


def _opened(url: str, limit_seconds: float) -> str:
    """The complaint of the database itself; nothing is made or written in it."""
    pool = ThreadPoolExecutor(1, thread_name_prefix="history")
    try:
        return pool.submit(_asked, url, limit_seconds).result(limit_seconds)
    except TooLateError:
        return f"no answer within {limit_seconds:g} s"
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _asked(url: str, limit_seconds: float) -> str:
    import sqlalchemy as sql
    from sqlalchemy.exc import SQLAlchemyError

    try:
        address = sql.make_url(url)
        kind = address.get_backend_name()
        if refusal := _refusal(address):
            return refusal
        if address.drivername == "postgresql":
            address = address.set(drivername="postgresql+psycopg")
        limits = {"connect_timeout": max(1, round(limit_seconds))} if kind == "postgresql" else {}
        engine = sql.create_engine(address, connect_args=limits)
        try:
            with engine.connect() as connection:
                connection.execute(sql.text(_PROBES[kind]))
        finally:
            engine.dispose()
    except (SQLAlchemyError, ImportError, ValueError, OSError) as error:
        text = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
        secret = re.search(r"://[^:@/]*:([^@]+)@", url)
        return (text or type(error).__name__)[:200].replace(secret[1] if secret else "\0", HIDDEN)
    return ""


def _refusal(address: sql.URL) -> str:
    """Why a URL is not opened; "" where it is."""
    kind = address.get_backend_name()
    if kind not in _PROBES:
        return f"{kind} is not supported; write sqlite:////FILE or postgresql://…"
    if "@" in (address.host or ""):  # the end of a password, which no fault may print
        return "the password has an @; write it as %40"
    # Opening it would make one.
    return "there is no such file" if kind == "sqlite" and not Path(address.database or "").is_file() else ""


def _service(cluster: DoctorCluster, namespace: str, name: str) -> str:
    """Why a Service leads nowhere; "" where it has a ready endpoint, or where that cannot be read."""
    service = read(lambda: cluster.find(f"/api/v1/namespaces/{namespace}/services/{name}"))
    if service is None:
        return f"there is no Service {name} in namespace {namespace}"
    if isinstance(service, Unread) or (service.get("spec") or {}).get("type") == "ExternalName":
        return ""
    path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
    slices = read(lambda: list(cluster.items(path, {"labelSelector": f"{SLICE_LABEL}={name}"})))
    if isinstance(slices, Unread) or any(_ready(one) for entry in slices for one in entry.get("endpoints") or ()):
        return ""
    return f"Service {namespace}/{name} has no ready endpoint"


def _ready(endpoint: dict[str, Any]) -> bool:
    return (endpoint.get("conditions") or {}).get("ready") is not False
