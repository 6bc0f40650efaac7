"""The list of agents from an API server that this test plays over real TLS: pages, rights, bad answers."""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from hyperscale.agent.probe.peers import Peer, PeersError
from hyperscale.agent.probe.peers_kube import METADATA, KubePeers

SLICES = "/apis/discovery.k8s.io/v1/namespaces/agents/endpointslices"


class ApiServer:
    """What is asked, and what it answers."""

    def __init__(self, folder: Path) -> None:
        self.asked: list[tuple[str, dict[str, str], str, str]] = []
        self.answers: dict[str, list[tuple[int, bytes]]] = {}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                query = {key: values[0] for key, values in parse_qs(parts.query).items()}
                outer.asked.append((parts.path, query, self.headers["Authorization"], self.headers["Accept"]))
                status, body = outer.answers.get(parts.path, [(403, b"{}")]).pop(0)
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "ca.crt", folder / "key")
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()

    @property
    def environment(self) -> dict[str, str]:
        return {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(self.server.server_address[1])}


def certificate(folder: Path, *more: str) -> None:
    """A certificate that vouches for itself, and its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("the openssl command is missing")
    made = ("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=api")
    files = ("-keyout", str(folder / "key"), "-out", str(folder / "ca.crt"))
    subprocess.run((openssl, *made, *files, *more), check=True, capture_output=True)


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A service account's folder, and the server's key beside it."""
    folder = tmp_path_factory.mktemp("account")
    certificate(folder, "-addext", "subjectAltName=IP:127.0.0.1")
    (folder / "token").write_text("account-token\n")
    return folder


@pytest.fixture
def api(account: Path) -> Iterator[ApiServer]:
    server = ApiServer(account)
    yield server
    server.server.shutdown()
    server.server.server_close()
    server.thread.join()


def page(*rows: tuple[str, str, str], more: str = "") -> tuple[int, bytes]:
    """One page of EndpointSlices."""
    endpoints = [{"addresses": [address], "nodeName": node, "zone": zone, "conditions": {}} for node, address, zone in rows]
    wire = {"kind": "EndpointSliceList", "metadata": {"continue": more}, "items": [{"addressType": "IPv4", "endpoints": endpoints}]}
    return 200, json.dumps(wire).encode()


def reader(api: ApiServer, account: Path, labels: tuple[str, ...] = ()) -> KubePeers:
    return KubePeers(api.environment, "agents", "hyperscale-agent", labels, 9466, account)


def test_all_pages_of_the_endpoints_are_read_with_the_accounts_token(api: ApiServer, account: Path) -> None:
    api.answers[SLICES] = [page(("b", "10.0.0.2", "z"), more="next"), page(("a", "10.0.0.1", "z"))]
    assert reader(api, account).read() == (Peer("a", "10.0.0.1", 9466, "z"), Peer("b", "10.0.0.2", 9466, "z"))
    assert [query.get("continue") for _, query, _, _ in api.asked] == [None, "next"]
    assert {query["labelSelector"] for _, query, _, _ in api.asked} == {"kubernetes.io/service-name=hyperscale-agent"}
    assert {authorization for _, _, authorization, _ in api.asked} == {"Bearer account-token"}


def test_node_labels_name_the_groups_where_they_may_be_read_and_only_metadata_is_asked_for(api: ApiServer, account: Path) -> None:
    nodes = {"items": [{"metadata": {"name": "a", "labels": {"leaf": "7"}}}], "metadata": {}}
    api.answers = {"/api/v1/nodes": [(200, json.dumps(nodes).encode())], SLICES: [page(("a", "10.0.0.1", "z"), ("b", "10.0.0.2", "z"))]}
    found = reader(api, account, ("leaf",)).read()
    assert [peer.group for peer in found] == ["/leaf=7", "z"]
    assert api.asked[0][3] == METADATA


def test_the_more_nodes_there_are_the_more_seldom_their_labels_are_asked_for(api: ApiServer, account: Path) -> None:
    nodes = {"items": [{"metadata": {"name": f"node-{number}"}} for number in range(5000)], "metadata": {}}
    endpoints = page(("a", "10.0.0.1", "z"))
    api.answers = {"/api/v1/nodes": [(200, json.dumps(nodes).encode())], SLICES: [endpoints, endpoints]}
    agent = reader(api, account, ("leaf",))
    agent.read()
    agent._groups_at -= 4900
    agent.read()
    assert [path for path, *_ in api.asked].count("/api/v1/nodes") == 1


def test_zones_are_the_groups_where_nodes_may_not_be_read(api: ApiServer, account: Path) -> None:
    api.answers[SLICES] = [page(("a", "10.0.0.1", "z"))]
    assert reader(api, account, ("leaf",)).read() == (Peer("a", "10.0.0.1", 9466, "z"),)


@pytest.mark.parametrize("answer", [(500, b""), (401, b"{}"), (200, b"<html>"), (200, b'{"items": 3}')])
def test_an_answer_that_is_no_list_says_so(answer: tuple[int, bytes], api: ApiServer, account: Path) -> None:
    api.answers[SLICES] = [answer]
    with pytest.raises(PeersError, match=r"answer"):
        reader(api, account).read()


def test_a_server_that_another_authority_vouches_for_is_not_believed(api: ApiServer, account: Path, tmp_path: Path) -> None:
    certificate(tmp_path)
    (tmp_path / "token").write_text("account-token")
    with pytest.raises(ssl.SSLCertVerificationError):
        reader(api, tmp_path).read()
    assert not api.asked
    assert account != tmp_path


def test_outside_a_cluster_the_list_of_peers_must_be_given() -> None:
    with pytest.raises(PeersError, match="HYPERSCALE_AGENT_PEERS"):
        KubePeers({}, "agents", "hyperscale-agent", (), 9466)
