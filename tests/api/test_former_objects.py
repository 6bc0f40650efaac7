"""Objects that were stored before the API had its present names: the API server drops their fields, and nothing starts from the rest."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from e2e.cluster.api import Api, Object
from e2e.cluster.control_plane import ControlPlane, start_control_plane, wait_until
from hyperscale.spec.parse import SpecError, parse_job, parse_policy
from tests.api.conftest import GROUP, REPOSITORY, served

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
JOBS = f"{GROUP}/namespaces/default/gnntrainingjobs"
POLICIES = f"{GROUP}/plannerpolicies"
FORMER_JOB = {
    "model": {"architecture": "GCN"},
    "dataset": {"source": {"builtin": {"name": "Cora"}}},
    "workers": {"min": 2, "max": 4},
    "approval": "Manual",
    "planOnly": True,
    "recovery": {"maxReplans": 0},
}
FORMER_POLICY = {"queue": {"patience": 3}, "replan": {"mode": "Act", "maxMoves": 4}}


def definition(kind: str) -> Object:
    found: Object = yaml.safe_load((REPOSITORY / "crds" / f"{kind}.hyperscale.dev.yaml").read_text(encoding="utf-8"))
    return found


def opened(crd: Object) -> Object:
    """The definition with a schema that keeps every field, as the former one kept its own."""
    crd = copy.deepcopy(crd)
    for version in crd["spec"]["versions"]:
        version["schema"] = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        version.pop("additionalPrinterColumns", None)
    return crd


@pytest.fixture(scope="module", name="upgraded")
def upgraded_fixture(binaries: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A cluster with one job and one policy of the former API, after the CRDs of this one were applied."""
    directory = tmp_path_factory.mktemp("upgraded")
    client = None
    try:
        client = start_control_plane(directory, binaries).api()
        for kind, path, spec in (("gnntrainingjobs", JOBS, FORMER_JOB), ("plannerpolicies", POLICIES, FORMER_POLICY)):
            crd = definition(kind)
            store(client, opened(crd), path, {"metadata": {"name": "former"}, "spec": spec})
            client.apply(f"{DEFINITIONS}/{kind}.hyperscale.dev", crd)
            wait_until(lambda at=path: pruned(client, at), 60.0, f"{kind}: the new schema is not in force")  # type: ignore[misc] # a default
        yield client
    finally:
        if client is not None:
            client.close()
        ControlPlane(directory, directory / "kubeconfig", directory / "audit.log").stop()


def store(client: Api, crd: Object, path: str, document: Object) -> None:
    """Create `document` under the former definition."""
    client.apply(f"{DEFINITIONS}/{crd['metadata']['name']}", crd)
    wait_until(lambda: served(client, path), 60.0, f"{path} is not served")
    kind = {"apiVersion": "hyperscale.dev/v1alpha1", "kind": crd["spec"]["names"]["kind"]}
    client.create(path, {**kind, **document})


def pruned(client: Api, path: str) -> bool:
    """Whether the former names are gone from what the API server answers."""
    return served(client, path) and not {"planOnly", "replan"} & set(
        (client.find(f"{path}/former") or {"spec": {"planOnly": True}})["spec"]
    )


def test_a_job_that_was_plan_only_is_refused_and_the_message_names_the_field_that_it_lacks(upgraded: Api) -> None:
    found = upgraded.get(f"{JOBS}/former")
    assert found["spec"]["startPolicy"] == "Automatic", "the default of a field that the job never had"
    with pytest.raises(SpecError, match=r"spec\.workers\.maxReplicas"):
        parse_job(found)


def test_a_policy_that_lost_its_fields_advises_and_never_stops_or_moves_a_job(upgraded: Api) -> None:
    policy = parse_policy(upgraded.get(f"{POLICIES}/former"))
    assert (str(policy.queue.preemption.mode), str(policy.migration.mode)) == ("Advise", "Advise")
