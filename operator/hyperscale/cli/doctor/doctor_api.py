"""Requests of `hyperscale doctor` to the API server: each bounded in time and size, none writes (an access review stores nothing)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final, TypeVar

from hyperscale.cli.kube_client import EndlessListError, KubeClient, KubeError, NoAnswerError, UnusableAnswerError
from hyperscale.cli.live import LiveCluster
from hyperscale.doctor.facts import ServerFacts, Unread
from hyperscale.model.pods import PodView

MAX_MESSAGE: Final = 300

Json = dict[str, Any]
T = TypeVar("T")


class RequestError(KubeError):
    """A request failed; `unread` says how."""

    def __init__(self, unread: Unread) -> None:
        super().__init__(unread.status, unread.message)
        self.unread = unread


class DoctorCluster(KubeClient):
    """The API server of a kubeconfig, or of the pod that this runs in; a failed request is a RequestError that names it."""

    max_pages = 100
    """50,000 objects of a kind; a list that is longer is judged by its beginning."""

    def failed(self, error: KubeError, method: str, path: str) -> Exception:
        """Why something could not be read."""
        if isinstance(error, EndlessListError):
            return error
        message = error.message[:MAX_MESSAGE] or f"HTTP {error.status}"
        if isinstance(error, NoAnswerError):
            message = f"no answer from {self.host} ({error.message})"
        elif isinstance(error, UnusableAnswerError):
            message = f"the answer {error.message}"
        return RequestError(Unread(_request_text(method, path), error.status, message))

    def items(self, path: str, query: Mapping[str, str] | None = None) -> Iterator[Json]:
        """Items of a list, page by page; nothing where the kind does not exist; raises RequestError."""
        try:
            yield from super().items(path, query)
        except EndlessListError:
            return
        except RequestError as error:
            if error.status != 404:
                raise

    def pods(self) -> list[PodView]:
        """As LiveCluster reads them; raises InputError."""
        return LiveCluster(self._api, self.namespace, self._timeouts[1]).pods()

    def review(self, kind: str, spec: Json) -> bool:
        """The answer of a SubjectAccessReview or SelfSubjectAccessReview; raises RequestError."""
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
        answer = self.object(f"/apis/authorization.k8s.io/v1/{kind.lower()}s", method="POST", body=body)
        return bool((answer.get("status") or {}).get("allowed"))

    def server(self) -> ServerFacts:
        """Version and clock of the server; raises RequestError."""
        wall, started = time.time(), time.monotonic()
        answer = self.request("/version")
        took = time.monotonic() - started
        date = _date(answer.headers.get("Date"))
        ahead = None if date is None else date + 0.5 - (wall + took / 2)
        version = str(self.decoded(answer, "GET", "/version").get("gitVersion") or "")
        return ServerFacts(version, took, ahead, 0.5 + took / 2)


def read(gather: Callable[[], T]) -> T | Unread:
    """What `gather` returns, or why it could not; an object of another shape than Kubernetes' is a reason too."""
    try:
        return gather()
    except RequestError as error:
        return error.unread
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError) as error:
        return Unread("read an answer", 0, f"it is not what a Kubernetes API server sends ({type(error).__name__}: {error})"[:300])


def _request_text(method: str, path: str) -> str:
    """Verb and resource of a request, as in a role: `list deployments.apps`, or `get /version`."""
    root, *parts = path.strip("/").split("/")
    group = "" if root == "api" else parts[0] if parts else ""
    resource = parts[1:] if root == "api" else parts[2:]
    if not resource:
        return f"get /{root}"
    if resource[0] == "namespaces" and len(resource) > 2:
        resource = resource[2:]
    verb = "create" if method == "POST" else "list" if len(resource) == 1 else "get"
    return f"{verb} {resource[0]}{f'.{group}' if group else ''}"


def _date(text: str | None) -> float | None:
    try:
        return parsedate_to_datetime(text or "").timestamp()
    except (ValueError, TypeError):
        return None
