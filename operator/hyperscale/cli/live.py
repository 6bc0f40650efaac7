"""A live cluster for the command line: nodes, pods, jobs, events, policies; every request bounded in time, page and body."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import urllib3
from kubernetes import client
from kubernetes import config as untyped_config
from kubernetes.client.exceptions import ApiException

from hyperscale.cli.exit_codes import InputError, one_line
from hyperscale.model import constants
from hyperscale.model.pods import PodView
from hyperscale.spec import api_objects

if TYPE_CHECKING:
    from hyperscale.control.cache.intake import Intake
    from hyperscale.observe.kube.fabric import Fabric

CONNECT_SECONDS: Final = 5.0
READ_SECONDS: Final = 30.0
"""One page of 500 objects from a busy server."""
PAGE_SIZE: Final = 500
"""client-go's default chunk."""
MAX_PAGES: Final = 400
"""200,000 objects: ends a list whose server never stops handing out continuation tokens."""
MAX_BODY_BYTES: Final = 64 << 20
MAX_EVENTS: Final = 500

Json = dict[str, Any]

config: Any = untyped_config
"""The client's loader of kubeconfigs has no annotations."""

BOUND_AND_LIVE: Final = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
"""Pods that hold devices; the others are not sent at all."""

HINTS: Final = {
    401: "log in again",
    403: "ask for read access to nodes, pods, events and gnntrainingjobs",
    404: "is the HyperScale API installed in this cluster?",
}


class ApiRefusedError(InputError):
    """The API server, or what it is a proxy for, refused a request."""

    def __init__(self, status: int, message: str, told: str) -> None:
        """status: of HTTP; message: the server's own; told: the whole line for a person."""
        super().__init__(told)
        self.status, self.message = status, message


class ApiAnswer(NamedTuple):
    """What a server sent."""

    body: bytes
    headers: Mapping[str, str]


class LiveCluster:
    """One API server, as named by a kubeconfig."""

    def __init__(self, api: client.ApiClient, namespace: str) -> None:
        self._api = api
        self.namespace = namespace
        """Namespace of the kubeconfig's context."""

    @classmethod
    def connect(cls, kubeconfig: str | None, context: str | None) -> LiveCluster:
        """Client for a kubeconfig's context; raises InputError when it cannot be used. Sends nothing yet."""
        where = f"kubeconfig {kubeconfig}" if kubeconfig else "kubeconfig"
        try:
            configuration = client.Configuration()
            configuration.retries = False
            config.load_kube_config(kubeconfig, context=context, client_configuration=configuration, persist_config=False)
            _, current = config.list_kube_config_contexts(kubeconfig)
            namespace = _context_namespace(kubeconfig, context, current)
            return cls(client.ApiClient(configuration), namespace)
        except config.ConfigException as error:
            raise InputError(
                f"{where}: {str(error).rstrip('.')}; set KUBECONFIG or --kubeconfig, or plan offline with --snapshot"
            ) from None
        except Exception as error:  # the loader lets errors of YAML, base64, files and its own lookups through
            raise InputError(f"{where}: cannot be read ({type(error).__name__}: {error}); name a valid file") from None

    def nodes(self) -> list[Json]:
        """All v1 Nodes that can be read; the others are named on stderr, as the operator names them in its log."""
        intake = _intake()
        return [node for node in self._list("/api/v1/nodes") if intake.node(node) is not None]

    def pods(self) -> list[PodView]:
        """Pods that hold resources on some node; one that cannot be read is named on stderr and closes its node."""
        intake = _intake()
        return [intake.pod(pod) for pod in self._list("/api/v1/pods", {"fieldSelector": BOUND_AND_LIVE})]

    def fabric(self) -> Fabric:
        """Topology that other operators describe; none where their CRDs are not installed, or not for this user to read."""
        from hyperscale.control.apply import paths

        return _intake().fabric(self._optional(paths.hypernodes()), self._optional(paths.kueue_topologies()))

    def _optional(self, choices: tuple[str, ...]) -> list[Json]:
        for path in choices:
            try:
                return list(self._list(path))
            except InputError:
                continue
        return []

    def policy(self, name: str) -> Json | None:
        """A PlannerPolicy; None when it, or its kind, does not exist."""
        return self._get(f"/apis/{constants.API_VERSION}/{constants.POLICY_PLURAL}/{name}")

    def job(self, namespace: str, name: str) -> Json | None:
        """A GNNTrainingJob; None when it does not exist."""
        return self._get(f"/apis/{constants.API_VERSION}/namespaces/{namespace}/{constants.JOB_PLURAL}/{name}")

    def events(self, namespace: str, name: str) -> list[Json]:
        """Events about a GNNTrainingJob of that name, at most MAX_EVENTS."""
        selector = {"fieldSelector": f"involvedObject.kind={constants.JOB_KIND},involvedObject.name={name}"}
        found: list[Json] = []
        for event in self._list(f"/api/v1/namespaces/{namespace}/events", selector):
            found.append(event)
            if len(found) == MAX_EVENTS:
                break
        return found

    def _list(self, path: str, query: Mapping[str, str] | None = None) -> Iterator[Json]:
        """All items of a list, page by page."""
        token = ""
        for _ in range(MAX_PAGES):
            page = self.object(path, {"limit": str(PAGE_SIZE), **(query or {}), **({"continue": token} if token else {})})
            items = page.get("items") or []
            yield from (item for item in items if isinstance(item, dict))
            token = str((page.get("metadata") or {}).get("continue") or "")
            if not token:
                return
        raise InputError(f"{self._host}: {path} has more than {MAX_PAGES * PAGE_SIZE:,} objects; plan from a snapshot")

    def _get(self, path: str) -> Json | None:
        try:
            return self.object(path)
        except ApiRefusedError as error:
            if error.status == 404:
                return None
            raise

    def object(self, path: str, query: Mapping[str, str] | None = None, *, method: str = "GET", body: Json | None = None) -> Json:
        """The JSON object that answers a request; raises RefusedError, or InputError for anything else."""
        answer = json_object(self.request(path, query, method=method, body=body).body)
        if answer is None:
            raise InputError(f"{self._host}: the answer to {path} is no JSON object; is this a Kubernetes API server?")
        return answer

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
        """What answers a request; raises RefusedError, or InputError where there is no usable answer."""
        method, url, sent, content, form = self._api.param_serialize(
            method,
            path,
            query_params=sorted((query or {}).items()),
            header_params={"Accept": "application/json", **({"Content-Type": "application/json"} if body else {}), **(headers or {})},
            body=body,
            auth_settings=["BearerToken"],
        )
        try:
            response = self._api.call_api(method, url, sent, content, form, _request_timeout=(CONNECT_SECONDS, READ_SECONDS))
            limit = MAX_BODY_BYTES if max_bytes is None else max_bytes
            raw = response.response.read(limit + 1)
        except ApiException as error:
            raise self._refused(error.status, str(error.reason), method, path) from None
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise InputError(f"{self._host}: no answer ({cause(error)}); check KUBECONFIG, or plan with --snapshot") from None
        if response.status >= 300:
            raise self._refused(response.status, _server_message(raw), method, path)
        if len(raw) > limit:
            raise InputError(f"{self._host}: the answer to {path} is larger than {limit >> 20} MiB")
        return ApiAnswer(raw, response.response.headers)

    @property
    def _host(self) -> str:
        return str(self._api.configuration.host)

    def _refused(self, status: int, message: str, method: str, path: str) -> ApiRefusedError:
        hint = HINTS.get(status, "try again")
        why = message or "no reason given"
        return ApiRefusedError(status, why, f"{self._host}: {method} {path} was refused with {status}: {why}; {hint}")


def _context_namespace(kubeconfig: str | None, context: str | None, current: Json) -> str:
    """Namespace of the context in use."""
    chosen = current
    if context is not None:
        contexts, _ = config.list_kube_config_contexts(kubeconfig)
        chosen = next((entry for entry in contexts if entry["name"] == context), current)
    return str((chosen.get("context") or {}).get("namespace") or "default")


def _intake() -> Intake:
    """Reads objects as the operator does."""
    from hyperscale.control.cache.intake import Intake, Refused

    def tell(refused: Refused) -> None:
        sys.stderr.write(one_line(f"note: {refused.kind} {refused.key} cannot be used as it is: {refused.message}") + "\n")

    return Intake(tell, time.time)


def json_object(raw: bytes) -> Json | None:
    """The JSON object of an answer; None where it is none. What nests too deeply in it is replaced by a stand-in (`objects`)."""
    try:
        answer = json.loads(raw)
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
    status = json_object(raw)
    text = str(status.get("message") or "") if status is not None else raw[:200].decode(errors="replace").strip()
    return text.splitlines()[0] if text and not text.startswith("<") else ""


def cause(error: BaseException) -> str:
    """The innermost reason, without addresses of Python objects."""
    inner = getattr(error, "reason", None)
    named = inner if isinstance(inner, Exception) else error
    text = " ".join(str(named).split())
    return (text.rpartition(">: ")[2] or type(named).__name__)[:200]
