"""Lists of the API server that tell who the other agents are; plain HTTPS, for a client library would cost every node 50 MB.

Needs `list` on endpointslices in the agents' own namespace. Node labels are read where `list` on nodes is granted, only their metadata
crosses the wire; without it the zones of the endpoints are the groups.
"""

from __future__ import annotations

import http.client
import logging
import ssl
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from hyperscale.agent.probe.peers import EndpointSlices, Objects, Peer, PeersError, groups_of, of_slices

LOGGER: Final = logging.getLogger("hyperscale.agent.probe.probe")
ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
DEADLINE_SECONDS: Final = 10.0
MAX_BODY_BYTES: Final = 16 * 1024 * 1024
MAX_PAGES: Final = 100
PAGE: Final = 250
METADATA: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
LABELS_SECONDS: Final = 600.0
LABELS_SECONDS_PER_NODE: Final = 1.0
"""Node labels change seldom, and all of them is a long answer: together the agents ask for it once a second at most."""
Body = TypeVar("Body", EndpointSlices, Objects)


class KubePeers:
    """Reads peers; blocking, to be called in a thread."""

    def __init__(
        self, environment: Mapping[str, str], namespace: str, service: str, labels: tuple[str, ...], port: int, account: Path = ACCOUNT
    ) -> None:
        """account: folder of the service account. Raises PeersError outside a cluster."""
        self._host, self._port = environment.get("KUBERNETES_SERVICE_HOST", ""), environment.get("KUBERNETES_SERVICE_PORT", "443")
        if not self._host or not namespace:
            raise PeersError("no cluster here; set HYPERSCALE_AGENT_PEERS, or KUBERNETES_SERVICE_HOST and POD_NAMESPACE")
        self._account = account
        self._namespace, self._service, self._labels, self._probe_port = namespace, service, labels, port
        self._groups: dict[str, str] = {}
        self._groups_at = -float("inf")
        self._groups_seconds = LABELS_SECONDS

    def read(self) -> tuple[Peer, ...]:
        """All agents, this one included; raises PeersError, OSError."""
        if self._labels and time.monotonic() - self._groups_at > self._groups_seconds:
            self._groups_at = time.monotonic()
            try:
                nodes = self._pages("/api/v1/nodes", {}, METADATA, Objects)
                self._groups = groups_of(nodes, self._labels)
                self._groups_seconds = max(LABELS_SECONDS, LABELS_SECONDS_PER_NODE * sum(len(page.items) for page in nodes))
            except PeersError as error:
                LOGGER.info("link probe: groups are zones, node labels cannot be read: %s", error)
        path = f"/apis/discovery.k8s.io/v1/namespaces/{quote(self._namespace, safe='')}/endpointslices"
        query = {"labelSelector": f"kubernetes.io/service-name={self._service}"}
        return of_slices(self._pages(path, query, "application/json", EndpointSlices), self._groups, self._probe_port)

    def _pages(self, path: str, query: dict[str, str], accept: str, kind: type[Body]) -> tuple[Body, ...]:
        context = ssl.create_default_context(cafile=str(self._account / "ca.crt"))
        connection = http.client.HTTPSConnection(self._host, int(self._port), timeout=DEADLINE_SECONDS, context=context)
        pages: list[Body] = []
        token = ""
        try:
            while len(pages) < MAX_PAGES:
                # A fresh token every time: the kubelet renews the file.
                headers = {"Accept": accept, "Authorization": f"Bearer {(self._account / 'token').read_text().strip()}"}
                asked = urlencode({**query, "limit": str(PAGE), **({"continue": token} if token else {})})
                connection.request("GET", f"{path}?{asked}", headers=headers)
                pages.append(_body(connection.getresponse(), kind))
                token = pages[-1].metadata.continue_
                if not token:
                    return tuple(pages)
            raise PeersError(f"{path}: more than {MAX_PAGES * PAGE} objects")
        except http.client.HTTPException as error:
            raise PeersError(f"{path}: {type(error).__name__}") from error
        finally:
            connection.close()


def _body(response: http.client.HTTPResponse, kind: type[Body]) -> Body:
    content = response.read(MAX_BODY_BYTES + 1)
    if response.status != 200:
        raise PeersError(f"the API server answered {response.status}")
    if len(content) > MAX_BODY_BYTES:
        raise PeersError(f"the API server answered more than {MAX_BODY_BYTES} bytes")
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PeersError("the API server's answer cannot be read") from error
