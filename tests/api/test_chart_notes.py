"""What helm prints after an installation: every indented line is a command that runs as it stands, against a real API server."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e.cluster.api import Api
from e2e.cluster.control_plane import ControlPlane

CHART = Path(__file__).resolve().parents[2] / "charts" / "hyperscale"
NAMESPACE = "notes"
KUBECTL = """#!/bin/sh
# No kubelet runs the pod here: its rollout is asked about, not waited for.
case " $* " in *" rollout status "*) set -- "$@" --watch=false ;; esac
exec {kubectl} "$@"
"""
CASES: dict[str, tuple[str, ...]] = {
    "defaults": (),
    "with Prometheus": ("--set", "prometheus.url=http://prometheus.monitoring:9090"),
    "a token of one's own": ("--set", "agent.token.existingSecret=mine", "--set", "agent.token.key=link.token"),
    "a token that is not made": ("--set", "agent.token.generate=false"),
    "agents everywhere": ("--set", "agent.nodeSelector=null"),
    "no agents": ("--set", "agent.enabled=false"),
    "two namespaces": ("--set", "watchNamespaces={notes,default}"),
}

Install = Callable[..., str]


@pytest.fixture
def install(binaries: dict[str, Path], plane: ControlPlane, api: Api) -> Iterator[Install]:
    """Installs a release; gives back its notes."""
    api.apply(f"/api/v1/namespaces/{NAMESPACE}", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    helm = [str(binaries["helm"]), "--kubeconfig", str(plane.kubeconfig), "--namespace", NAMESPACE]

    def run(*values: str) -> str:
        command = [*helm, "install", "planner", str(CHART), "--set", "crds.enabled=false", *values]
        finished = subprocess.run(command, capture_output=True, text=True, check=False)
        assert finished.returncode == 0, finished.stderr
        return finished.stdout.partition("NOTES:\n")[2]

    yield run
    subprocess.run([*helm, "uninstall", "planner"], capture_output=True, check=True)
    for name in ("planner-hyperscale-agent-token", "mine"):
        api.delete(f"/api/v1/namespaces/{NAMESPACE}/secrets/{name}")


@pytest.mark.parametrize("case", CASES)
def test_every_command_of_the_notes_can_be_pasted(
    install: Install, binaries: dict[str, Path], plane: ControlPlane, tmp_path: Path, case: str
) -> None:
    notes = install(*CASES[case])
    commands = [line.strip() for line in notes.splitlines() if line.startswith("  ")]
    assert commands, notes
    (tmp_path / "kubectl").write_text(KUBECTL.format(kubectl=binaries["kubectl"]))
    (tmp_path / "kubectl").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{binaries['helm'].parent}:{os.environ['PATH']}", "KUBECONFIG": str(plane.kubeconfig)}
    for command in commands:
        ran = subprocess.run(["/bin/bash", "-euo", "pipefail", "-c", command], env=environment, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, f"{command}\n{ran.stderr}"
    assert "…" not in notes
    assert "()" not in notes
    assert "label(s) (" not in notes
