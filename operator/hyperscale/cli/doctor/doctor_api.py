"""Requests of `hyperscale doctor` to the API server: each bounded in time and size, none writes (an access review stores nothing)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Final, TypeVar

import urllib3
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from hyperscale.cli.live import CONNECT_SECONDS, MAX_BODY_BYTES, PAGE_SIZE, LiveCluster, cause, config, json_object
from hyperscale.doctor.facts import Unread

MAX_PAGES: Final = 100
"""50,000 objects of a kind; a list that is longer is judged by its beginning."""
SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")

Json = dict[str, Any]
T = TypeVar("T")


class RequestError(Exception):
    """A request failed; `unread` says how."""

    def __init__(self, unread: Unread) -> None:
        super().__init__(unread.message)
        self.unread = unread


class DoctorCluster(LiveCluster):
    """The API server of a kubeconfig, or of the pod that this runs in."""

    limit_seconds: float = 10.0
    """Of one request."""

    @classmethod
    def connect(cls, kubeconfig: str | None, context: str | None) -> DoctorCluster:
        """As LiveCluster, but inside a pod without a kubeconfig the pod's own account counts; raises InputError."""
        if kubeconfig or context or os.environ.get("KUBECONFIG") or not (SERVICE_ACCOUNT / "token").is_file():
            made = super().connect(kubeconfig, context)
            return cls(made._api, made.namespace)
        configuration = client.Configuration()
        configuration.retries = False
        config.load_incluster_config(client_configuration=configuration)
        return cls(client.ApiClient(configuration), (SERVICE_ACCOUNT / "namespace").read_text(encoding="utf-8").strip())

    @property
    def host(self) -> str:
        """Address of the server."""
        return self._host

    def get(self, what: str, path: str, query: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None) -> Json:
        """One object or page; raises RequestError."""
        return self.ask(what, "GET", path, query, headers=headers)[0]

    def find(self, what: str, path: str) -> Json | None:
        """One object, None where it or its kind does not exist; raises RequestError."""
        try:
            return self.get(what, path)
        except RequestError as error:
            if error.unread.status == 404:
                return None
            raise

    def items(self, what: str, path: str, query: Mapping[str, str] | None = None) -> Iterator[Json]:
        """Items of a list, page by page; nothing where the kind does not exist; raises RequestError."""
        token = ""
        for _ in range(MAX_PAGES):
            asked = {"limit": str(PAGE_SIZE), **(query or {}), **({"continue": token} if token else {})}
            try:
                page = self.get(what, path, asked)
            except RequestError as error:
                if error.unread.status == 404:
                    return
                raise
            yield from (item for item in page.get("items") or () if isinstance(item, dict))
            token = str((page.get("metadata") or {}).get("continue") or "")
            if not token:
                return

    def review(self, kind: str, spec: Json) -> bool:
        """The answer of a SubjectAccessReview or SelfSubjectAccessReview; raises RequestError."""
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
        what = f"create {kind.lower()}s.authorization.k8s.io"
        answer, _ = self.ask(what, "POST", f"/apis/authorization.k8s.io/v1/{kind.lower()}s", None, body)
        return bool((answer.get("status") or {}).get("allowed"))

    def clock(self) -> tuple[str, float, float | None, float]:
        """Version, seconds it took, the server's clock minus ours, and the doubt in that; raises RequestError."""
        wall, started = time.time(), time.monotonic()
        answer, date = self.ask("get /version", "GET", "/version")
        took = time.monotonic() - started
        ahead = None if date is None else date + 0.5 - (wall + took / 2)
        return str(answer.get("gitVersion") or ""), took, ahead, 0.5 + took / 2

    def ask(
        self,
        what: str,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Json | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[Json, float | None]:
        """The answer as JSON and its Date as Unix seconds; raises RequestError."""
        sent = {"Accept": "application/json", **({"Content-Type": "application/json"} if body is not None else {}), **(headers or {})}
        call = self._api.param_serialize(
            method, path, query_params=sorted((query or {}).items()), header_params=sent, body=body, auth_settings=["BearerToken"]
        )
        try:
            response = self._api.call_api(*call, _request_timeout=(min(CONNECT_SECONDS, self.limit_seconds), self.limit_seconds))
            raw = response.response.read(MAX_BODY_BYTES + 1)
        except ApiException as error:
            raise RequestError(Unread(what, int(error.status or 0), str(error.reason))) from None
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise RequestError(Unread(what, 0, f"no answer from {self._host} ({cause(error)})")) from None
        answer = json_object(raw) if len(raw) <= MAX_BODY_BYTES else None
        if response.status >= 300:
            message = str((answer or {}).get("message") or "").strip() or f"HTTP {response.status}"
            raise RequestError(Unread(what, response.status, message[:300]))
        if answer is None:
            raise RequestError(Unread(what, response.status, "the answer is too long or no JSON object"))
        return answer, _date(response.response.headers.get("Date"))


def read(gather: Callable[[], T]) -> T | Unread:
    """What `gather` returns, or why it could not; an object of another shape than Kubernetes' is a reason too."""
    try:
        return gather()
    except RequestError as error:
        return error.unread
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError) as error:
        return Unread("read an answer", 0, f"it is not what a Kubernetes API server sends ({type(error).__name__}: {error})"[:300])


def _date(text: str | None) -> float | None:
    try:
        return parsedate_to_datetime(text or "").timestamp()
    except (ValueError, TypeError):
        return None
