"""The Kubernetes API for command-line tools: one request at a time, each bounded in time and size; credentials from a kubeconfig.

TLS, tokens and exec plugins come from the official client. Bodies stay plain JSON, because building its model objects costs more than the
request.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple, Self

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
Texts = Mapping[str, str] | None

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

    max_pages: ClassVar = 400
    """200,000 objects: ends a list whose server never stops handing out continuation tokens."""

    def __init__(self, api: client.ApiClient, namespace: str, read_seconds: float | None = None, instead: str = "") -> None:
        """namespace: of the kubeconfig's context, or of the pod; read_seconds: longest silence, READ_SECONDS where None.

        instead: end of messages, what the command can do without a cluster, such as `, or read a file with -f`
        """
        silence = READ_SECONDS if read_seconds is None else read_seconds
        self._api = api
        self._timeouts = (min(CONNECT_SECONDS, silence), silence)
        self.namespace, self.instead = namespace, instead

    @classmethod
    def of_kubeconfig(cls, kubeconfig: str | None, context: str | None, read_seconds: float | None = None, instead: str = "") -> Self:
        """Client for a kubeconfig's context; raises InputError when it cannot be used. Sends nothing yet."""
        where = f"kubeconfig {kubeconfig}" if kubeconfig else "kubeconfig"
        try:
            configuration = client.Configuration()
            configuration.retries = False
            config.load_kube_config(kubeconfig, context=context, client_configuration=configuration, persist_config=False)
            contexts, current = config.list_kube_config_contexts(kubeconfig)
            chosen = next((entry for entry in contexts if entry["name"] == context), current)
            namespace = str((chosen.get("context") or {}).get("namespace") or "default")
            return cls(client.ApiClient(configuration), namespace, read_seconds, instead)
        except config.ConfigException as error:
            raise InputError(f"{where}: {str(error).rstrip('.')}; set KUBECONFIG or --kubeconfig{instead}") from None
        except Exception as error:  # the loader lets errors of YAML, base64, files and its own lookups through
            raise InputError(f"{where}: cannot be read ({type(error).__name__}: {error}); name a valid file") from None

    @classmethod
    def of_pod_or_kubeconfig(cls, kubeconfig: str | None, context: str | None, read_seconds: float | None = None) -> Self:
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

    def failed(self, error: KubeError, method: str, path: str) -> Exception:
        """What is raised for a request that failed: the error itself, in other words for those who read it."""
        return error

    def request(
        self,
        path: str,
        query: Texts = None,
        *,
        method: str = "GET",
        body: Json | None = None,
        headers: Texts = None,
        max_bytes: int | None = None,
    ) -> ApiAnswer:
        """What answers a request; max_bytes: MAX_BODY_BYTES where None. Raises what `failed` makes of a KubeError."""
        call = self._api.param_serialize(
            method,
            path,
            query_params=sorted((query or {}).items()),
            header_params={"Accept": "application/json", **({"Content-Type": "application/json"} if body else {}), **(headers or {})},
            body=body,
            auth_settings=["BearerToken"],
        )
        limit = MAX_BODY_BYTES if max_bytes is None else max_bytes
        failure: KubeError
        try:
            response = self._api.call_api(*call, _request_timeout=self._timeouts)
            raw = response.response.read(limit + 1)
        except ApiException as error:
            failure = RefusalError(int(error.status or 0), str(error.reason))
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            failure = NoAnswerError(0, _cause(error))
        else:
            if response.status < 300 and len(raw) <= limit:
                return ApiAnswer(raw, response.response.headers)
            failure = RefusalError(response.status, _server_message(raw))
            if response.status < 300:
                failure = UnusableAnswerError(response.status, f"is larger than {limit >> 20} MiB")
        raise self.failed(failure, method, path)

    def object(self, path: str, query: Texts = None, *, method: str = "GET", body: Json | None = None, headers: Texts = None) -> Json:
        """The JSON object that answers a request."""
        return self.decoded(self.request(path, query, method=method, body=body, headers=headers), method, path)

    def find(self, path: str) -> Json | None:
        """The object at a path; None where it, or its kind, does not exist."""
        try:
            return self.object(path)
        except KubeError as error:
            if error.status == 404:
                return None
            raise

    def decoded(self, answer: ApiAnswer, method: str, path: str) -> Json:
        """The JSON object of an answer; what nests too deeply in it is replaced by a stand-in (`spec.api_objects`)."""
        decoded = _decoded(answer.body)
        if decoded is None:
            raise self.failed(UnusableAnswerError(200, "is no JSON object; is this a Kubernetes API server?"), method, path)
        return decoded

    def items(self, path: str, query: Texts = None) -> Iterator[Json]:
        """Items of a list, asked for page by page; EndlessListError where there are more pages."""
        token = ""
        for _ in range(self.max_pages):
            asked = {"limit": str(PAGE_SIZE), **(query or {}), **({"continue": token} if token else {})}
            page = self.object(path, asked)
            items, metadata = page.get("items"), page.get("metadata")
            yield from (item for item in (items if isinstance(items, list) else ()) if isinstance(item, dict))
            token = str(metadata.get("continue") or "") if isinstance(metadata, dict) else ""
            if not token:
                return
        raise self.failed(EndlessListError(200, f"has more than {self.max_pages * PAGE_SIZE:,} objects"), "GET", path)


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
