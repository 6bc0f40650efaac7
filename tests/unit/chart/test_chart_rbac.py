"""The audit of what operator and agents may do: the tables here are the whole audit, and a change to the chart must change them."""

from __future__ import annotations

from typing import Any

import pytest

from hyperscale.model import constants

Render = Any
Rules = dict[str, str]

CLUSTER_RULES: Rules = {
    "nodes": "get list watch",
    "hyperscale.dev/plannerpolicies": "get list watch",
    "hyperscale.dev/clustertopologies": "get create patch",
    "hyperscale.dev/clustertopologies/status": "patch",
    "persistentvolumes": "get",
    "storage.k8s.io/storageclasses": "get",
    "topology.volcano.sh/hypernodes": "list",
    "kueue.x-k8s.io/topologies": "list",
    "apiextensions.k8s.io/customresourcedefinitions": "list watch",
}
JOB_RULES: Rules = {
    "hyperscale.dev/gnntrainingjobs": "get list watch",
    "hyperscale.dev/gnntrainingjobs/status": "patch",
    "hyperscale.dev/gnntrainingjobs/finalizers": "update",
    "kubeflow.org/mpijobs": "get list watch create patch",
    "pods": "get list watch create patch delete",
    "configmaps": "get create patch delete",
    "batch/jobs": "get create delete",
    "networking.k8s.io/networkpolicies": "get create delete",
    "persistentvolumeclaims": "get",
    "kueue.x-k8s.io/workloads": "list",
    "events": "create",
}
AGENT_RULES: Rules = {"discovery.k8s.io/endpointslices": "list"}
LEASE_RULES: Rules = {
    "coordination.k8s.io/leases": "create",
    f"coordination.k8s.io/leases/{constants.LEASE_NAME}": "get update",
}


def rules_of(role: dict[str, Any]) -> Rules:
    """`group/resource[/name]` -> verbs, one entry a rule and resource; an overlap is a failure."""
    found: Rules = {}
    for rule in role["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for name in rule.get("resourceNames", [""]):
                    key = "/".join(part for part in (group, resource, name) if part)
                    assert key not in found, f"{key} is granted twice"
                    found[key] = " ".join(rule["verbs"])
    return found


def roles(resources: list[dict[str, Any]]) -> dict[str, Rules]:
    """`kind namespace/name` -> rules."""
    return {
        f"{resource['kind']} {resource['metadata'].get('namespace', '')}/{resource['metadata']['name']}": rules_of(resource)
        for resource in resources
        if resource["kind"] in ("Role", "ClusterRole")
    }


def test_the_operators_rights_are_exactly_these(render: Render) -> None:
    assert roles(render()) == {
        "ClusterRole /hyperscale": CLUSTER_RULES | JOB_RULES,
        "Role hyperscale-system/hyperscale-lease": LEASE_RULES,
        "Role hyperscale-system/hyperscale-agent": AGENT_RULES,
        "ClusterRole /hyperscale-job-editor": {
            "hyperscale.dev/gnntrainingjobs": "get list watch create update patch delete deletecollection",
            "hyperscale.dev/gnntrainingjobs/status": "get",
        },
        "ClusterRole /hyperscale-job-viewer": {
            "hyperscale.dev/gnntrainingjobs": "get list watch",
            "hyperscale.dev/gnntrainingjobs/status": "get",
        },
        "ClusterRole /hyperscale-cluster-viewer": {
            "hyperscale.dev/clustertopologies": "get list watch",
            "hyperscale.dev/plannerpolicies": "get list watch",
        },
        "Role hyperscale-system/hyperscale-preview-reader": {
            "services/proxy/http:hyperscale-preview:preview": "get",
            "secrets/hyperscale-preview": "get",
        },
    }


def test_agents_may_list_nodes_only_when_asked_to(render: Render) -> None:
    found = roles(render({"agent": {"links": {"readNodeLabels": True}}}))
    assert found["ClusterRole /hyperscale-agent"] == {"nodes": "list"}
    assert found["Role hyperscale-system/hyperscale-agent"] == AGENT_RULES


@pytest.mark.parametrize("values", [{"enabled": False}, {"links": {"enabled": False}}], ids=["no agent", "no links"])
def test_agents_that_ask_the_api_server_nothing_have_no_rights(render: Render, values: dict[str, Any]) -> None:
    assert not [role for role in roles(render({"agent": values})) if role.endswith("agent")]


def test_with_namespaces_named_every_right_to_write_to_them_is_a_role(render: Render) -> None:
    found = roles(render({"watchNamespaces": ["team-b", "team-a"]}))
    assert found["ClusterRole /hyperscale"] == CLUSTER_RULES | {"pods": "get list watch"}
    assert found["Role team-a/hyperscale-jobs"] == JOB_RULES
    assert found["Role team-b/hyperscale-jobs"] == JOB_RULES


def test_pods_cannot_be_deleted_where_recovery_may_not_delete_them(render: Render) -> None:
    found = roles(render({"recovery": {"deletePods": False}}))
    assert found["ClusterRole /hyperscale"]["pods"] == "get list watch create patch"


@pytest.mark.parametrize(
    "values",
    [{}, {"watchNamespaces": ["team-a"]}, {"recovery": {"deletePods": False}}, {"agent": {"links": {"readNodeLabels": True}}}],
    ids=["all", "named", "no recovery", "agents read node labels"],
)
def test_no_role_has_a_wildcard_or_reaches_secrets_exec_or_a_jobs_spec(render: Render, values: dict[str, Any]) -> None:
    for role, rules in roles(render(values)).items():
        for resource, verbs in rules.items():
            assert "*" not in resource + verbs
            assert not {"secrets", "pods/exec", "pods/attach", "serviceaccounts/token", "nodes/proxy"} & {resource}
            assert not {"escalate", "bind", "impersonate"} & set(verbs.split())
            if resource == "hyperscale.dev/gnntrainingjobs" and "editor" not in role:
                assert verbs == "get list watch"


def test_every_binding_gives_an_existing_role_to_one_account_only(render: Render) -> None:
    resources = render({"watchNamespaces": ["team-a"], "agent": {"links": {"readNodeLabels": True}}})
    existing = {(resource["kind"], resource["metadata"].get("namespace"), resource["metadata"]["name"]) for resource in resources}
    bindings = [resource for resource in resources if resource["kind"].endswith("RoleBinding")]
    assert len(bindings) == 5
    for binding in bindings:
        role = binding["roleRef"]
        assert (role["kind"], binding["metadata"].get("namespace"), role["name"]) in existing
        account = "hyperscale-agent" if role["name"].endswith("-agent") else "hyperscale"
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account, "namespace": "hyperscale-system"}]


def test_two_releases_share_no_cluster_role(render: Render) -> None:
    first = {role for role in roles(render(namespace="blue")) if role.startswith("ClusterRole")}
    second = {role for role in roles(render(namespace="green")) if role.startswith("ClusterRole")}
    assert first
    assert not first & second


def test_without_rbac_no_role_and_no_binding_is_made(render: Render) -> None:
    assert not [resource for resource in render({"rbac": {"create": False}}) if "Role" in resource["kind"]]


def test_default_roles_of_the_cluster_gain_rights_only_when_asked_to(render: Render) -> None:
    for wanted in (True, False):
        labels = [
            label
            for resource in render({"rbac": {"aggregateToDefaultRoles": wanted}})
            for label in resource["metadata"].get("labels", {})
            if "aggregate-to" in label
        ]
        assert len(labels) == (4 if wanted else 0)


@pytest.mark.parametrize("values", [{"create": False}, {"create": False, "name": "default"}, {"name": "default"}])
def test_the_operators_rights_never_go_to_the_account_of_every_other_pod(render: Render, values: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"serviceAccount\.name: .* every pod of the namespace, .*; write the name of an account"):
        render({"serviceAccount": values})
