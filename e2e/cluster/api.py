"""A small JSON client of the Kubernetes API: enough for the cluster tool, the exporter and test helpers, quick to import."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

import yaml

Object = dict[str, Any]
"""A Kubernetes object as JSON."""

TIMEOUT_SECONDS: Final = 10.0
APPLY_PATCH: Final = "application/apply-patch+yaml"
MERGE_PATCH: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"


class ApiError(Exception):
    """The server's refusal; `code` is the HTTP status, 0 when it could not be reached."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}" if code else message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Access:
    """Where a cluster is and how to prove who asks."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    """None for plain HTTP."""
    headers: Mapping[str, str]


def access_from(kubeconfig: Path) -> Access:
    """Access of the current context; raises ApiError for a kubeconfig that needs an exec plugin or has no such context."""
    config = yaml.safe_load(kubeconfig.read_text())
    context = _named(config, "contexts", config.get("current-context"))["context"]
    cluster = _named(config, "clusters", context["cluster"])["cluster"]
    user = _named(config, "users", context["user"])["user"]
    if "exec" in user or "auth-provider" in user:
        raise ApiError(
            0, f"{kubeconfig}: users.{context['user']} uses a credential plugin: write a kubeconfig with a token or a certificate"
        )
    address = urlsplit(cluster["server"])
    token = user.get("token") or (Path(user["tokenFile"]).read_text().strip() if "tokenFile" in user else "")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    secure = address.scheme == "https"
    tls = _tls(cluster, user, kubeconfig.parent) if secure else None
    return Access(address.hostname or "127.0.0.1", address.port or (443 if secure else 80), tls, headers)


def _named(config: Object, section: str, name: str | None) -> Object:
    for entry in config.get(section) or []:
        if entry.get("name") == name:
            found: Object = entry
            return found
    raise ApiError(0, f"kubeconfig: {section} has no entry named {name!r}")


def _tls(cluster: Object, user: Object, folder: Path) -> ssl.SSLContext:
    authority = _material(cluster, "certificate-authority", folder)
    context = ssl.create_default_context(cadata=authority.decode() if authority else None)
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    certificate, key = _material(user, "client-certificate", folder), _material(user, "client-key", folder)
    if certificate and key:
        with tempfile.NamedTemporaryFile() as file:  # the ssl module reads certificates from files only
            file.write(certificate + b"\n" + key)
            file.flush()
            context.load_cert_chain(file.name)
    return context


def _material(section: Object, key: str, folder: Path) -> bytes | None:
    if f"{key}-data" in section:
        return base64.b64decode(section[f"{key}-data"])
    return (folder / section[key]).read_bytes() if key in section else None


class _Closing:
    """A kept connection that is closed when its thread, or the client, is gone."""

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self.connection = connection

    def __del__(self) -> None:
        self.connection.close()


class Api:
    """Requests to one API server; one kept connection per thread."""

    def __init__(self, access: Access, agent: str = "hyperscale-e2e") -> None:
        self._access = access
        self._headers = {"User-Agent": agent, "Accept": "application/json", **access.headers}
        self._local = threading.local()
        self._open: set[http.client.HTTPConnection] = set()

    def __del__(self) -> None:
        for connection in self.__dict__.get("_open", ()):
            connection.close()

    def get(self, path: str, **query: str) -> Object:
        """One object or list."""
        return self.request("GET", _with_query(path, query))

    def text(self, path: str, **query: str) -> str:
        """An answer that is no JSON, a pod's log for one."""
        connection = self._connect(TIMEOUT_SECONDS)
        try:
            connection.request("GET", _with_query(path, query), headers={**self._headers, "Accept": "*/*"})
            response = connection.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise ApiError(0, str(error)) from error
        finally:
            connection.close()
        if response.status >= 400:
            _decoded(response.status, body)
        return body.decode(errors="replace")

    def find(self, path: str) -> Object | None:
        """One object; None when there is none."""
        try:
            return self.get(path)
        except ApiError as error:
            if error.code == 404:
                return None
            raise

    def items(self, path: str, **query: str) -> list[Object]:
        """The items of a list."""
        items: list[Object] = self.get(path, **query)["items"]
        return items

    def create(self, path: str, body: Object) -> Object:
        """Create below a collection path."""
        return self.request("POST", path, body)

    def apply(self, path: str, body: Object, manager: str = "hyperscale-e2e") -> Object:
        """Server-side apply of one object, conflicts forced."""
        return self.request("PATCH", _with_query(path, {"fieldManager": manager, "force": "true"}), body, APPLY_PATCH)

    def patch(self, path: str, body: Object | list[Object]) -> Object:
        """Merge patch for an object, JSON patch for a list of operations."""
        return self.request("PATCH", path, body, JSON_PATCH if isinstance(body, list) else MERGE_PATCH)

    def delete(self, path: str, **query: str) -> None:
        """Delete; a thing that is not there is fine."""
        try:
            self.request("DELETE", _with_query(path, query))
        except ApiError as error:
            if error.code != 404:
                raise

    def request(
        self, method: str, path: str, body: Object | list[Object] | bytes | None = None, content_type: str = "application/json"
    ) -> Object:
        """The decoded answer; raises ApiError. A kept connection that the server closed meanwhile is opened again once."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        headers = self._headers if data is None else {**self._headers, "Content-Type": content_type}
        for attempt in (1, 2):
            kept: _Closing | None = getattr(self._local, "kept", None)
            if kept is None:
                self._local.kept = _Closing(self._connect(TIMEOUT_SECONDS))
            connection = self._local.kept.connection
            try:
                connection.request(method, path, data, headers)
                response = connection.getresponse()
                return _decoded(response.status, response.read())
            except (OSError, http.client.HTTPException) as error:
                self.close()
                if attempt == 2 or kept is None:
                    raise ApiError(0, f"{self._access.host}:{self._access.port}: {error or type(error).__name__}") from error
        raise AssertionError("unreachable")

    def watch(self, path: str, timeout_seconds: float, **query: str) -> Iterator[Object]:
        """Events of a watch until the server ends it; raises ApiError when the connection breaks or the history is gone."""
        connection = self._connect(timeout_seconds + TIMEOUT_SECONDS)
        target = _with_query(path, {**query, "watch": "true", "timeoutSeconds": str(int(timeout_seconds))})
        try:
            connection.request("GET", target, headers=self._headers)
            response = connection.getresponse()
            if response.status != 200:
                _decoded(response.status, response.read())
            while line := response.readline():
                event: Object = json.loads(line)
                if event["type"] == "ERROR":
                    raise ApiError(int(event["object"].get("code", 500)), str(event["object"].get("message")))
                yield event
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ApiError(0, str(error)) from error
        finally:
            connection.close()

    def healthy(self) -> bool:
        """Whether /readyz answers ok."""
        try:
            connection = self._connect(TIMEOUT_SECONDS)
            try:
                connection.request("GET", "/readyz", headers=self._headers)
                return connection.getresponse().status == 200
            finally:
                connection.close()
        except (OSError, http.client.HTTPException):
            return False

    def close(self) -> None:
        """Close this thread's connection."""
        self._local.kept = None

    def _connect(self, timeout_seconds: float) -> http.client.HTTPConnection:
        host, port = self._access.host, self._access.port
        if self._access.tls is None:
            return http.client.HTTPConnection(host, port, timeout=timeout_seconds)
        return http.client.HTTPSConnection(host, port, timeout=timeout_seconds, context=self._access.tls)


def _with_query(path: str, query: Mapping[str, str]) -> str:
    return f"{path}?{urlencode(query, quote_via=quote)}" if query else path


def _decoded(status: int, body: bytes) -> Object:
    answer: Object = json.loads(body) if body[:1] == b"{" else {"message": body.decode(errors="replace")[:500]}
    if status >= 400:
        raise ApiError(status, str(answer.get("message", "")))
    return answer
