"""A mutating webhook on the real API server, as Kueue has one for MPIJobs: it suspends every MPIJob of a namespace that is written."""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

from e2e.cluster.api import Api
from e2e.cluster.control_plane import wait_until
from e2e.cluster.ports import LOOPBACK
from e2e.jobs import PATIENCE_SECONDS

_WEBHOOKS: Final = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
_MPIJOBS: Final = "/apis/kubeflow.org/v2beta1/namespaces/{}/mpijobs"
_SUSPEND: Final = [{"op": "add", "path": "/spec/runPolicy/suspend", "value": True}]


class Suspending:
    """What the webhook does, and how often it was asked."""

    def __init__(self) -> None:
        self.admits = False
        """True: anyone who resumes an MPIJob may."""
        self.asked = 0


@contextmanager
def suspending_webhook(api: Api, namespace: str, directory: Path) -> Iterator[Suspending]:
    """Until the end of the block every MPIJob that is created or changed in the namespace is suspended, unless `admits` is set."""
    state = Suspending()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
            answer = {"uid": request["uid"], "allowed": True}
            state.asked += 1
            if not state.admits and "runPolicy" in request["object"]["spec"]:
                answer |= {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(_SUSPEND).encode()).decode()}
            body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    both = _certificate(directory)
    with ThreadingHTTPServer((LOOPBACK, 0), Handler) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(both)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        name = f"suspending-{namespace}"
        api.create(_WEBHOOKS, _configuration(name, namespace, server.server_port, both.with_suffix(".crt").read_bytes()))
        try:
            wait_until(lambda: _is_asked(api, namespace, state), PATIENCE_SECONDS, "the API server does not ask the webhook")
            yield state
        finally:
            api.delete(f"{_WEBHOOKS}/{name}")
            server.shutdown()


def _configuration(name: str, namespace: str, port: int, authority: bytes) -> dict[str, object]:
    rule = {"apiGroups": ["kubeflow.org"], "apiVersions": ["*"], "resources": ["mpijobs"], "operations": ["CREATE", "UPDATE"]}
    webhook = {
        "name": "suspend.example.com",
        "clientConfig": {"url": f"https://{LOOPBACK}:{port}/", "caBundle": base64.b64encode(authority).decode()},
        "rules": [rule],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Fail",
    }
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration"}
    return {**kind, "metadata": {"name": name}, "webhooks": [webhook]}


def _is_asked(api: Api, namespace: str, state: Suspending) -> bool:
    """Whether a dry run reaches the webhook; the API server learns of the webhook a moment after it was created."""
    pod = {"spec": {"containers": [{"name": "main", "image": "example.com/any:1"}]}}
    replicas = {"Launcher": {"replicas": 1, "template": pod}, "Worker": {"replicas": 1, "template": pod}}
    body = {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": "asks-the-webhook"},
        "spec": {"mpiReplicaSpecs": replicas},
    }
    api.request("POST", f"{_MPIJOBS.format(namespace)}?dryRun=All", body)
    return state.asked > 0


def _certificate(directory: Path) -> Path:
    """Of the loopback address, self-signed; the certificate alone is beside it as .crt."""
    both = directory / "webhook.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    subject = ["-subj", f"/CN={LOOPBACK}", "-addext", f"subjectAltName=IP:{LOOPBACK}"]
    subprocess.run([*command, *subject, "-keyout", str(both), "-out", str(both.with_suffix(".crt"))], check=True, capture_output=True)
    with both.open("ab") as file:
        file.write(both.with_suffix(".crt").read_bytes())
    return both
