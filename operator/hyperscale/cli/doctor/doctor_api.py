"""Requests of `hyperscale doctor` to the API server: each bounded in time and size, none writes (an access review stores nothing)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final, TypeVar

from hyperscale.cli.kube_client import ApiAnswer, EndlessListError, KubeClient, KubeError, NoAnswerError, UnusableAnswerError, json_object
from hyperscale.cli.live import LiveCluster
from hyperscale.doctor.facts import Unread
from hyperscale.model.pods import PodView

MAX_PAGES: Final = 100
"""50,000 objects of a kind; a list that is longer is judged by its beginning."""
MAX_MESSAGE: Final = 300

Json = dict[str, Any]
T = TypeVar("T")


class RequestError(Exception):
    """A request failed; `unread` says how."""

    def __init__(self, unread: Unread) -> None:
        super().__init__(unread.message)
        self.unread = unread


class DoctorCluster:
    """The API server of a kubeconfig, or of the pod that this runs in; a failed request names what could not be read."""

    def __init__(self, api: KubeClient) -> None:
        self._api = api

    @classmethod
    def connect(cls, kubeconfig: str | None, context: str | None, limit_seconds: float) -> DoctorCluster:
        """The cluster of a kubeconfig's context, else of the pod; limit_seconds: longest wait for one answer. Raises InputError."""
        return cls(KubeClient.of_pod_or_kubeconfig(kubeconfig, context, limit_seconds))

    @property
    def host(self) -> str:
        """Address of the server."""
        return self._api.host

    def get(self, what: str, path: str, query: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None) -> Json:
        """One object; raises RequestError."""
        return self._object(what, self._asked(what, path, query, headers=headers))

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
        try:
            yield from self._api.items(path, query, MAX_PAGES)
        except EndlessListError:
            return
        except KubeError as error:
            if error.status != 404:
                raise self._failed(what, error) from None

    def pods(self) -> list[PodView]:
        """As LiveCluster reads them; raises InputError."""
        return LiveCluster(self._api).pods()

    def review(self, kind: str, spec: Json) -> bool:
        """The answer of a SubjectAccessReview or SelfSubjectAccessReview; raises RequestError."""
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
        what = f"create {kind.lower()}s.authorization.k8s.io"
        answer = self._object(what, self._asked(what, f"/apis/authorization.k8s.io/v1/{kind.lower()}s", method="POST", body=body))
        return bool((answer.get("status") or {}).get("allowed"))

    def clock(self) -> tuple[str, float, float | None, float]:
        """Version, seconds it took, the server's clock minus ours, and the doubt in that; raises RequestError."""
        wall, started = time.time(), time.monotonic()
        answer = self._asked("get /version", "/version")
        took = time.monotonic() - started
        date = _date(answer.headers.get("Date"))
        ahead = None if date is None else date + 0.5 - (wall + took / 2)
        return str(self._object("get /version", answer).get("gitVersion") or ""), took, ahead, 0.5 + took / 2

    def _asked(
        self,
        what: str,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        method: str = "GET",
        body: Json | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> ApiAnswer:
        try:
            return self._api.request(path, query, method=method, body=body, headers=headers)
        except KubeError as error:
            raise self._failed(what, error) from None

    def _object(self, what: str, answer: ApiAnswer) -> Json:
        try:
            return json_object(answer)
        except UnusableAnswerError as error:
            raise self._failed(what, error) from None

    def _failed(self, what: str, error: KubeError) -> RequestError:
        """what: verb and resource, as in a role."""
        if isinstance(error, NoAnswerError):
            return RequestError(Unread(what, 0, f"no answer from {self.host} ({error.message})"))
        if isinstance(error, UnusableAnswerError):
            return RequestError(Unread(what, error.status, f"the answer {error.message}"))
        return RequestError(Unread(what, error.status, error.message[:MAX_MESSAGE] or f"HTTP {error.status}"))


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
