"""The chart on a real API server: its pod is admitted where `restricted` is enforced, its account can do the work and no more."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.api import Api
from e2e.cluster.control_plane import ControlPlane, wait_until
from e2e.jobs import PATIENCE_SECONDS

CHART = Path(__file__).resolve().parents[2] / "charts" / "hyperscale"
NAMESPACE = "hyperscale-system"
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:hyperscale"
OPERATOR_DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/hyperscale"

# (verb, group, resource, subresource, namespace, name)
Attributes = tuple[str, str, str, str, str, str]
JOBS = "gnntrainingjobs"
NEEDED: tuple[Attributes, ...] = (
    ("create", "", "configmaps", "", "team-a", ""),
    ("patch", "", "configmaps", "", "team-a", ""),
    ("create", "batch", "jobs", "", "team-a", ""),
    ("delete", "batch", "jobs", "", "team-a", ""),
    ("create", "networking.k8s.io", "networkpolicies", "", "team-a", ""),
    ("watch", "hyperscale.dev", JOBS, "", "team-a", ""),
    ("patch", "hyperscale.dev", JOBS, "status", "team-a", ""),
    ("create", "kubeflow.org", "mpijobs", "", "team-a", ""),
    ("patch", "kubeflow.org", "mpijobs", "", "team-a", ""),
    ("patch", "", "pods", "", "team-a", ""),
    ("create", "", "events", "", "team-a", ""),
    ("watch", "", "pods", "", "", ""),
    ("list", "", "nodes", "", "", ""),
    ("list", "hyperscale.dev", "plannerpolicies", "", "", ""),
    ("create", "coordination.k8s.io", "leases", "", NAMESPACE, ""),
    ("update", "coordination.k8s.io", "leases", "", NAMESPACE, "hyperscale-operator"),
)
FORBIDDEN: tuple[Attributes, ...] = (
    ("patch", "hyperscale.dev", JOBS, "", "team-a", ""),
    ("update", "hyperscale.dev", JOBS, "", "team-a", ""),
    ("create", "hyperscale.dev", JOBS, "", "team-a", ""),
    ("delete", "hyperscale.dev", JOBS, "", "team-a", ""),
    ("get", "", "secrets", "", "team-a", ""),
    ("list", "", "secrets", "", NAMESPACE, ""),
    ("create", "", "pods", "exec", "team-a", ""),
    ("create", "", "pods", "binding", "team-a", ""),
    ("list", "", "configmaps", "", "team-a", ""),
    ("watch", "", "configmaps", "", "team-a", ""),
    ("create", "", "serviceaccounts", "token", NAMESPACE, ""),
    ("patch", "", "nodes", "", "", ""),
    ("patch", "hyperscale.dev", "plannerpolicies", "", "", ""),
    ("create", "apps", "deployments", "", "team-a", ""),
    ("list", "batch", "jobs", "", "team-a", ""),
    ("patch", "batch", "jobs", "", "team-a", ""),
    ("list", "networking.k8s.io", "networkpolicies", "", "team-a", ""),
    ("patch", "networking.k8s.io", "networkpolicies", "", "team-a", ""),
    ("update", "coordination.k8s.io", "leases", "", NAMESPACE, "another-operator"),
    ("update", "coordination.k8s.io", "leases", "", "kube-system", "kube-scheduler"),
    ("create", "rbac.authorization.k8s.io", "clusterrolebindings", "", "", ""),
    ("patch", "apiextensions.k8s.io", "customresourcedefinitions", "", "", ""),
)

AGENT = f"system:serviceaccount:{NAMESPACE}:hyperscale-agent"
AGENT_NEEDED: tuple[Attributes, ...] = (("list", "discovery.k8s.io", "endpointslices", "", NAMESPACE, ""),)
AGENT_FORBIDDEN: tuple[Attributes, ...] = (
    ("list", "discovery.k8s.io", "endpointslices", "", "team-a", ""),
    ("list", "", "nodes", "", "", ""),
    ("get", "", "secrets", "", NAMESPACE, "hyperscale-agent-token"),
    ("list", "", "pods", "", NAMESPACE, ""),
    ("update", "coordination.k8s.io", "leases", "", NAMESPACE, "hyperscale-operator"),
)
AGENT_TOKEN = f"/api/v1/namespaces/{NAMESPACE}/secrets/hyperscale-agent-token"

Helm = Callable[..., None]


@pytest.fixture(scope="module")
def helm(binaries: dict[str, Path], plane: ControlPlane, api: Api) -> Iterator[Helm]:
    """Runs helm against the API server; whatever is installed at the end is removed."""
    api.apply(f"/api/v1/namespaces/{NAMESPACE}", _namespace(NAMESPACE))
    api.apply("/api/v1/namespaces/team-a", _namespace("team-a"))

    def run(*arguments: str) -> None:
        command = [str(binaries["helm"]), "--kubeconfig", str(plane.kubeconfig), "--namespace", NAMESPACE, *arguments]
        finished = subprocess.run(command, capture_output=True, text=True, check=False)
        assert finished.returncode == 0, finished.stderr

    # The fixture `api` has put the CRDs there already.
    run("install", "hyperscale", str(CHART), "--take-ownership")
    for attributes in (NEEDED[0], NEEDED[-1]):  # one of each role: the authorizer hears of new roles through a watch
        _until(api, attributes, True)
    _until(api, AGENT_NEEDED[0], True, AGENT)
    yield run
    run("uninstall", "hyperscale", "--ignore-not-found")


def _namespace(name: str) -> dict[str, Any]:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def may(api: Api, attributes: Attributes, account: str = ACCOUNT) -> bool:
    """Whether the API server lets the account do this."""
    verb, group, resource, subresource, namespace, name = attributes
    wanted = {"verb": verb, "group": group, "resource": resource, "subresource": subresource, "namespace": namespace, "name": name}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": account, "groups": ["system:serviceaccounts", "system:authenticated"], "resourceAttributes": wanted},
    }
    answer = api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])


def _until(api: Api, attributes: Attributes, allowed: bool, account: str = ACCOUNT) -> None:
    wait_until(
        lambda: may(api, attributes, account) == allowed, PATIENCE_SECONDS, f"{words(attributes)} is {'not ' if allowed else ''}allowed"
    )


def words(attributes: Attributes) -> str:
    """A test's id."""
    return " ".join(part for part in attributes if part)


@pytest.mark.parametrize("attributes", NEEDED, ids=words)
def test_the_account_may_do_what_the_operator_does(helm: Helm, api: Api, attributes: Attributes) -> None:
    assert may(api, attributes)


@pytest.mark.parametrize("attributes", FORBIDDEN, ids=words)
def test_the_account_may_not_do_what_the_operator_never_does(helm: Helm, api: Api, attributes: Attributes) -> None:
    assert not may(api, attributes)


def test_the_operators_pod_is_admitted_where_restricted_is_enforced(helm: Helm, api: Api) -> None:
    template = api.get(OPERATOR_DEPLOYMENT)["spec"]["template"]
    metadata = {"name": "operator", "labels": template["metadata"]["labels"]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
    admitted = api.create(f"/api/v1/namespaces/{NAMESPACE}/pods?dryRun=All", pod)
    assert admitted["spec"]["serviceAccountName"] == "hyperscale"


def test_the_agents_pod_is_admitted_where_restricted_is_enforced(helm: Helm, api: Api) -> None:
    template = api.get(f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets/hyperscale-agent")["spec"]["template"]
    metadata = {"name": "agent", "labels": template["metadata"]["labels"]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
    admitted = api.create(f"/api/v1/namespaces/{NAMESPACE}/pods?dryRun=All", pod)
    assert admitted["spec"]["serviceAccountName"] == "hyperscale-agent"


@pytest.mark.parametrize("attributes", [*AGENT_NEEDED, *AGENT_FORBIDDEN], ids=words)
def test_the_agents_account_lists_its_fellows_and_does_nothing_else(helm: Helm, api: Api, attributes: Attributes) -> None:
    assert may(api, attributes, AGENT) == (attributes in AGENT_NEEDED)


def test_the_agents_token_is_made_once_and_kept_by_every_upgrade(helm: Helm, api: Api) -> None:
    made = api.get(AGENT_TOKEN)["data"]["token"]
    assert len(base64.b64decode(made)) == 64
    helm("upgrade", "hyperscale", str(CHART), "--reset-values")
    assert api.get(AGENT_TOKEN)["data"]["token"] == made
    helm("upgrade", "hyperscale", str(CHART), "--reset-values", "--set", "agent.token.generate=false")
    assert api.get(AGENT_TOKEN)["data"]["token"] == made, "helm keeps what it made"
    helm("upgrade", "hyperscale", str(CHART), "--reset-values")
    assert api.get(AGENT_TOKEN)["data"]["token"] == made


def test_with_namespaces_named_the_account_may_write_in_no_other(helm: Helm, api: Api) -> None:
    api.apply("/api/v1/namespaces/team-b", _namespace("team-b"))
    helm("upgrade", "hyperscale", str(CHART), "--set", "watchNamespaces={team-a}")
    try:
        for verb, group, resource in (("create", "kubeflow.org", "mpijobs"), ("patch", "", "pods"), ("create", "", "events")):
            _until(api, (verb, group, resource, "", "team-b", ""), False)
            _until(api, (verb, group, resource, "", "team-a", ""), True)
        assert may(api, ("list", "", "pods", "", "", ""))
    finally:
        helm("upgrade", "hyperscale", str(CHART), "--reset-values")
        _until(api, ("patch", "", "pods", "", "team-b", ""), True)


def test_crds_outlive_an_uninstalled_release_and_a_new_one_takes_them_over(helm: Helm, api: Api) -> None:
    crd = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{JOBS}.hyperscale.dev"
    uid = api.get(crd)["metadata"]["uid"]
    helm("uninstall", "hyperscale")
    assert api.find(OPERATOR_DEPLOYMENT) is None
    _until(api, NEEDED[0], False)
    assert api.get(crd)["metadata"]["uid"] == uid
    helm("install", "hyperscale", str(CHART))
    assert api.get(crd)["metadata"]["uid"] == uid
