"""Commands of the pages that need a cluster run on a real API server, in the order of their page."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from e2e.cluster.api import Api
from e2e.cluster.control_plane import ControlPlane
from tests.api.conftest import GROUP
from tests.reference import page_commands, shell

NAMESPACE = "hyperscale-system"
WITHOUT_SECRETS = ("--set", "agent.token.generate=false", "--set", "preview.existingSecret=hyperscale-preview")
"""As a chart that is rendered without a cluster: the page's commands make the Secrets."""


@pytest.fixture
def folder(tmp_path: Path, binaries: Mapping[str, Path]) -> Path:
    shell.prepare(tmp_path, binaries)
    for name in ("ca.crt", "token"):
        (tmp_path / name).write_text("secret\n")
    return tmp_path


@pytest.fixture
def release(plane: ControlPlane, api: Api, binaries: Mapping[str, Path]) -> Iterator[None]:
    """The chart, installed without the secrets that a test before may have left: upgrade and uninstall keep these."""
    helm = [str(binaries["helm"]), "--kubeconfig", str(plane.kubeconfig), "--namespace", NAMESPACE]
    api.apply(f"/api/v1/namespaces/{NAMESPACE}", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    chart = str(page_commands.ROOT / "charts/hyperscale")
    _delete_secrets(api)
    installed = subprocess.run(
        [*helm, "install", "hyperscale", chart, "--take-ownership", *WITHOUT_SECRETS], capture_output=True, text=True, check=False
    )
    assert installed.returncode == 0, installed.stderr
    yield
    subprocess.run([*helm, "uninstall", "hyperscale", "--ignore-not-found"], capture_output=True, check=False)
    _delete_secrets(api)


def _delete_secrets(api: Api) -> None:
    for name in ("prometheus-ca", "prometheus-reader", "hyperscale-agent-token", "hyperscale-preview"):
        api.delete(f"/api/v1/namespaces/{NAMESPACE}/secrets/{name}")


def run_page(page: str, folder: Path, plane: ControlPlane) -> dict[str, str]:
    """What each command of a page prints."""
    return {command: shell.run(folder, plane.kubeconfig, command, form) for command, form in page_commands.SERVER[page].items()}


@pytest.mark.usefixtures("release")
def test_the_commands_of_the_install_page_make_the_secrets_that_the_chart_reads(api: Api, plane: ControlPlane, folder: Path) -> None:
    run_page("install.md", folder, plane)
    secrets = f"/api/v1/namespaces/{NAMESPACE}/secrets"
    keys = {"prometheus-ca": "ca.crt", "prometheus-reader": "token", "hyperscale-agent-token": "token", "hyperscale-preview": "key"}
    assert {name: list(api.get(f"{secrets}/{name}")["data"]) for name in keys} == {name: [key] for name, key in keys.items()}
    volumes = api.get(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/hyperscale")["spec"]["template"]["spec"]["volumes"]
    assert {"prometheus-ca", "prometheus-reader"} <= {
        source["secret"]["name"] for volume in volumes for source in volume.get("projected", {}).get("sources", ()) if "secret" in source
    } | {volume["secret"]["secretName"] for volume in volumes if "secret" in volume}


def test_the_commands_of_the_own_script_page_and_of_troubleshooting_show_the_job(api: Api, plane: ControlPlane, folder: Path) -> None:
    run_page("tasks/own-script.md", folder, plane)
    assert "train.py" in api.get("/api/v1/namespaces/default/configmaps/own-script")["data"]
    printed = run_page("tasks/troubleshooting.md", folder, plane)
    assert "own-script" in printed["kubectl get gnntj -A"]
    assert "own-script" in printed["hyperscale explain JOB"]
    assert "own-script" in run_page("tasks/evaluate.md", folder, plane)["hyperscale explain JOB"]
    assert "own-script" in run_page("tasks/approve-and-prefer.md", folder, plane)["hyperscale explain JOB"]
    assert "own-script" in run_page("tasks/preflight-in-the-cluster.md", folder, plane)["hyperscale explain JOB"]
    annotations = api.get(f"{GROUP}/namespaces/default/gnntrainingjobs/own-script")["metadata"]["annotations"]
    assert annotations["hyperscale.dev/preflight-again"].isdecimal()
    api.delete("/api/v1/namespaces/default/configmaps/own-script")


def test_the_command_of_the_policy_page_makes_the_default_policy(api: Api, plane: ControlPlane, folder: Path) -> None:
    run_page("tasks/policy.md", folder, plane)
    assert api.get(f"{GROUP}/plannerpolicies/default")["spec"]


def test_every_page_of_the_table_is_run() -> None:
    assert set(page_commands.SERVER) == {
        "install.md",
        *(
            f"tasks/{name}.md"
            for name in ("approve-and-prefer", "evaluate", "own-script", "policy", "preflight-in-the-cluster", "troubleshooting")
        ),
    }
