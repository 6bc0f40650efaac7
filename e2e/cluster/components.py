"""What runs beside the control plane: kwok with our stages, the Kubeflow MPI Operator under its own RBAC, and the exporter."""

from __future__ import annotations

import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import yaml

from e2e.cluster.api import APPLY_PATCH, Api, Object
from e2e.cluster.control_plane import lease_seconds, wait_until
from e2e.cluster.ports import LOOPBACK
from e2e.cluster.processes import ProcessTable

STAGES_FILE: Final = Path(__file__).parent / "stages.yaml"
MPI_NAMESPACE: Final = "mpi-operator"
MPI_CRD: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/mpijobs.kubeflow.org"
_READY_SECONDS: Final = 30.0
_HTTP_SECONDS: Final = 2.0
_REPOSITORY: Final = Path(__file__).resolve().parents[2]


_RESUME_RULE: Final = {"apiGroups": ["batch"], "resources": ["jobs/status"], "verbs": ["update"]}
"""Missing in the role that 0.8.2 ships: without it a suspended MPIJob never resumes (kubeflow/mpi-operator#830)."""


def start_kwok(table: ProcessTable, binary: Path, kubeconfig: Path, node_count: int) -> None:
    """Run kwok for the nodes that carry its annotation; it renews their Leases, else they go NotReady every minute."""
    # fmt: off
    table.start("kwok", [
        str(binary), "--kubeconfig", str(kubeconfig), "--config", str(STAGES_FILE), "--manage-all-nodes=false",
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake", "--cidr=10.244.0.0/14",
        f"--node-lease-duration-seconds={lease_seconds(node_count)}", "-v=WARN",
    ], {"HOME": str(kubeconfig.parent)})
    # fmt: on


def install_mpi_operator(api: Api, binaries: Mapping[str, Path]) -> None:
    """CRD, namespace and ClusterRole as its release ships them, bound to the user `mpi-operator`; waits until the CRD is Established."""
    api.request("PATCH", f"{MPI_CRD}?fieldManager=mpi-operator&force=true", binaries["kubeflow.org_mpijobs.yaml"].read_bytes(), APPLY_PATCH)
    ensure_namespace(api, MPI_NAMESPACE)
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    for role in yaml.safe_load_all(binaries["cluster-role.yaml"].read_text()):
        if role["metadata"]["name"] == "mpi-operator":
            role["rules"].append(_RESUME_RULE)
            api.apply(f"{roles}/mpi-operator", role)
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "mpi-operator"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "mpi-operator"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "mpi-operator"}],
    }
    api.apply("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/mpi-operator", binding)
    wait_established(api, MPI_CRD)


def wait_established(api: Api, crd_path: str) -> None:
    """Until a CustomResourceDefinition serves requests."""
    wait_until(lambda: _established(api.find(crd_path)), _READY_SECONDS, f"{crd_path.rpartition('/')[2]} was not established")


def _established(definition: Object | None) -> bool:
    conditions = ((definition or {}).get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)


def ensure_namespace(api: Api, name: str) -> None:
    """A namespace, made when it is not there."""
    api.apply(f"/api/v1/namespaces/{name}", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


def start_mpi_operator(table: ProcessTable, binary: Path, kubeconfig: Path, port: int) -> None:
    """The operator with limits fit for hundreds of jobs; its defaults are 5 requests a second and 2 threads."""
    # fmt: off
    table.start("mpi-operator", [
        str(binary), f"-kubeConfig={kubeconfig}", f"-lock-namespace={MPI_NAMESPACE}", "-kube-api-qps=500", "-kube-api-burst=1000",
        "-threadiness=8", "-controller-queue-rate-limit=1000", "-controller-queue-burst=2000",
    ], {"MPI_OPERATOR_HEALTH_ADDRESS": f"{LOOPBACK}:{port}", "KUBECONFIG": str(kubeconfig)})
    # fmt: on


def wait_mpi_operator(table: ProcessTable, api: Api) -> None:
    """Until it holds its Lease."""

    def leads() -> bool:
        table.require("mpi-operator")
        lease = api.find(f"/apis/coordination.k8s.io/v1/namespaces/{MPI_NAMESPACE}/leases/mpi-operator")
        return bool((lease or {}).get("spec", {}).get("holderIdentity"))

    wait_until(leads, _READY_SECONDS, f"mpi-operator does not lead: see {table.log('mpi-operator')}")


def start_exporter(table: ProcessTable, topology: Path, kubeconfig: Path, port: int) -> None:
    """The exporter as a process of its own."""
    command = [
        sys.executable,
        "-m",
        "e2e.cluster.exporter",
        "--topology",
        str(topology),
        "--kubeconfig",
        str(kubeconfig),
        "--port",
        str(port),
    ]
    table.start("exporter", command, {"PYTHONPATH": str(_REPOSITORY), "PYTHONDONTWRITEBYTECODE": "1"})


def wait_http(table: ProcessTable, name: str, url: str, seconds: float = _READY_SECONDS) -> None:
    """Until a process of ours answers 200."""

    def answers() -> bool:
        table.require(name)
        return http_ok(url)

    wait_until(answers, seconds, f"{name} does not answer at {url}: see {table.log(name)}")


def http_ok(url: str) -> bool:
    """Whether a loopback address answers 200."""
    try:
        with urllib.request.urlopen(url, timeout=_HTTP_SECONDS) as response:  # noqa: S310 (a loopback address of ours)
            return int(response.status) == 200
    except OSError:
        return False
