"""A real etcd and kube-apiserver for the tests of this folder, with this project's CRDs installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from e2e.cluster.api import Api, ApiError, Object
from e2e.cluster.binaries import ensure_all
from e2e.cluster.control_plane import ControlPlane, start_control_plane, wait_until

REPOSITORY = Path(__file__).parents[2]
GROUP = "/apis/hyperscale.dev/v1alpha1"


@pytest.fixture(scope="session")
def binaries() -> dict[str, Path]:
    """Executables of the local cluster by name, built on first use."""
    return ensure_all()


@pytest.fixture(scope="session")
def plane(binaries: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A running control plane; nothing schedules or runs pods here."""
    directory = tmp_path_factory.mktemp("control-plane")
    try:
        yield start_control_plane(directory, binaries)
    finally:
        ControlPlane(directory, directory / "kubeconfig", directory / "audit.log").stop()


@pytest.fixture(scope="session")
def api(plane: ControlPlane) -> Iterator[Api]:
    """Administrator's client; the CRDs are established."""
    client = plane.api()
    try:
        for path in sorted((REPOSITORY / "crds").glob("*.yaml")):
            _install(client, yaml.safe_load(path.read_text(encoding="utf-8")))
        yield client
    finally:
        client.close()


@pytest.fixture(scope="module", autouse=True)
def jobs_removed(api: Api) -> Iterator[None]:
    """Every module leaves the server without jobs and policies: `hyperscale doctor` judges all that a cluster has."""
    yield
    for one in api.items(f"{GROUP}/gnntrainingjobs"):
        api.delete(f"{GROUP}/namespaces/{one['metadata']['namespace']}/gnntrainingjobs/{one['metadata']['name']}")
    for one in api.items(f"{GROUP}/plannerpolicies"):
        api.delete(f"{GROUP}/plannerpolicies/{one['metadata']['name']}")


def _install(client: Api, crd: Object) -> None:
    """Apply one CRD and wait until its kind is served."""
    name, spec = crd["metadata"]["name"], crd["spec"]
    client.apply(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}", crd)
    collection = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
    wait_until(lambda: served(client, collection), 60.0, f"{name} is not served")


def served(client: Api, collection: str) -> bool:
    """False while the kind is unknown (404) or its storage is being set up (429)."""
    try:
        return client.find(collection) is not None
    except ApiError as error:
        if error.code == 429:
            return False
        raise
