"""The Kubernetes API for command-line tools: one request at a time, each bounded in time and size; credentials from a kubeconfig.

TLS, tokens and exec plugins come from the official client. Bodies stay plain JSON, because building its model objects costs more than the
request.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import urllib3
from kubernetes import client
from kubernetes import config as untyped_config
from kubernetes.client.exceptions import ApiException

from hyperscale.cli.exit_codes import InputError
from hyperscale.spec import api_objects
from hyperscale.util.nesting import shallow

CONNECT_SECONDS: Final = 5.0
READ_SECONDS: Final = 30.0
"""One page of 500 objects from a busy server."""
PAGE_SIZE: Final = 500
"""client-go's default chunk."""
MAX_BODY_BYTES: Final = 64 << 20
SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")

Json = dict[str, Any]

config: Any = untyped_config
"""The client's loader of kubeconfigs has no annotations."""


class KubeError(Exception):
    """A request failed."""

    def __init__(self, status: int, message: str) -> None:
        """status: of HTTP, 0 where there was no answer; message: the server's own, or what is wrong with its answer."""
        super().__init__(message)
        self.status, self.message = status, message


class NoAnswerError(KubeError):
    """The server cannot be reached, or does not answer in time; the status is 0."""


class RefusalError(KubeError):
    """The server, or what it is a proxy for, answered with a status of 300 or more; the message may be empty."""


class UnusableAnswerError(KubeError):
    """The answer is longer than the limit, or no JSON object."""


class EndlessListError(KubeError):
    """The list has more pages than the caller takes."""


class ApiAnswer(NamedTuple):
    """What a server sent."""

    body: bytes
    headers: Mapping[str, str]


class KubeClient:
    """Requests to one API server."""

    def __init__(self, api: client.ApiClient, namespace: str, read_seconds: float | None = None) -> None:
        """namespace: of the kubeconfig's context, or of the pod; read_seconds: longest silence, READ_SECONDS where None."""
        silence = READ_SECONDS if read_seconds is None else read_seconds
        self._api = api
        self._timeouts = (min(CONNECT_SECONDS, silence), silence)
        self.namespace = namespace

    @classmethod
    def of_kubeconfig(cls, kubeconfig: str | None, context: str | None, read_seconds: float | None = None, instead: str = "") -> KubeClient:
        """Client for a kubeconfig's context; raises InputError when it cannot be used. Sends nothing yet.

        instead: end of the message, what the command can do without a cluster, such as `, or read a file with -f`
        """
        where = f"kubeconfig {kubeconfig}" if kubeconfig else "kubeconfig"
        try:
            configuration = client.Configuration()
            configuration.retries = False
            config.load_kube_config(kubeconfig, context=context, client_configuration=configuration, persist_config=False)
            _, current = config.list_kube_config_contexts(kubeconfig)
            namespace = _context_namespace(kubeconfig, context, current)
            return cls(client.ApiClient(configuration), namespace, read_seconds)
        except config.ConfigException as error:
            raise InputError(f"{where}: {str(error).rstrip('.')}; set KUBECONFIG or --kubeconfig{instead}") from None
        except Exception as error:  # the loader lets errors of YAML, base64, files and its own lookups through
            raise InputError(f"{where}: cannot be read ({type(error).__name__}: {error}); name a valid file") from None

    @classmethod
    def of_pod_or_kubeconfig(cls, kubeconfig: str | None, context: str | None, read_seconds: float | None = None) -> KubeClient:
        """As `of_kubeconfig`; in a pod where no kubeconfig is named, the client of the pod's own account."""
        if kubeconfig or context or os.environ.get("KUBECONFIG") or not (SERVICE_ACCOUNT / "token").is_file():
            return cls.of_kubeconfig(kubeconfig, context, read_seconds)
        configuration = client.Configuration()
        configuration.retries = False
        config.load_incluster_config(client_configuration=configuration)
        namespace = (SERVICE_ACCOUNT / "namespace").read_text(encoding="utf-8").strip()
        return cls(client.ApiClient(configuration), namespace, read_seconds)

    @property
    def host(self) -> str:
        """Address of the server."""
        return str(self._api.configuration.host)

    def request(
        self,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        method: str = "GET",
        body: Json | None = None,
        headers: Mapping[str, str] | None = None,
        max_bytes: int | None = None,
    ) -> ApiAnswer:
        """What answers a request; max_bytes: MAX_BODY_BYTES where None. Raises KubeError."""
        limit = MAX_BODY_BYTES if max_bytes is None else max_bytes
        call = self._api.param_serialize(
            method,
            path,
            query_params=sorted((query or {}).items()),
            header_params={"Accept": "application/json", **({"Content-Type": "application/json"} if body else {}), **(headers or {})},
            body=body,
            auth_settings=["BearerToken"],
        )
        try:
            response = self._api.call_api(*call, _request_timeout=self._timeouts)
            raw = response.response.read(limit + 1)
        except ApiException as error:
            raise RefusalError(int(error.status or 0), str(error.reason)) from None
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise NoAnswerError(0, _cause(error)) from None
        if response.status >= 300:
            raise RefusalError(response.status, _server_message(raw))
        if len(raw) > limit:
            raise UnusableAnswerError(response.status, f"is larger than {limit >> 20} MiB")
        return ApiAnswer(raw, response.response.headers)

    def items(self, path: str, query: Mapping[str, str] | None, max_pages: int) -> Iterator[Json]:
        """Items of a list, asked for page by page; raises KubeError, EndlessListError where there are more pages."""
        token = ""
        for _ in range(max_pages):
            asked = {"limit": str(PAGE_SIZE), **(query or {}), **({"continue": token} if token else {})}
            page = json_object(self.request(path, asked))
            items, metadata = page.get("items"), page.get("metadata")
            yield from (item for item in (items if isinstance(items, list) else ()) if isinstance(item, dict))
            token = str(metadata.get("continue") or "") if isinstance(metadata, dict) else ""
            if not token:
                return
        raise EndlessListError(200, f"has more than {max_pages * PAGE_SIZE:,} objects")


def json_object(answer: ApiAnswer) -> Json:
    """The JSON object of an answer; what nests too deeply in it is replaced by a stand-in (`spec.api_objects`).

    Raises UnusableAnswerError.
    """
    decoded = _decoded(answer.body)
    if decoded is None:
        raise UnusableAnswerError(200, "is no JSON object; is this a Kubernetes API server?")
    return decoded


def _decoded(raw: bytes) -> Json | None:
    try:
        answer = json.loads(shallow(raw))
    except RecursionError:
        return _nested(raw)
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None


def _nested(raw: bytes) -> Json | None:
    try:
        return api_objects.read(raw)
    except ValueError:
        pass
    try:
        page = api_objects.nested_list_page(raw)
        return {
            "metadata": {"continue": page.token, "resourceVersion": str(page.version)},
            "items": [api_objects.read(one) for one in page.items],
        }
    except ValueError:
        return None


def _server_message(raw: bytes) -> str:
    """The sentence of a v1 Status; the first line of what is none."""
    status = _decoded(raw)
    text = str(status.get("message") or "") if status is not None else raw[:200].decode(errors="replace").strip()
    return text.splitlines()[0] if text and not text.startswith("<") else ""


def _cause(error: BaseException) -> str:
    """The innermost reason, without addresses of Python objects."""
    inner = getattr(error, "reason", None)
    named = inner if isinstance(inner, Exception) else error
    text = " ".join(str(named).split())
    return (text.rpartition(">: ")[2] or type(named).__name__)[:200]


def _context_namespace(kubeconfig: str | None, context: str | None, current: Json) -> str:
    """Namespace of the context in use."""
    chosen = current
    if context is not None:
        contexts, _ = config.list_kube_config_contexts(kubeconfig)
        chosen = next((entry for entry in contexts if entry["name"] == context), current)
    return str((chosen.get("context") or {}).get("namespace") or "default")
