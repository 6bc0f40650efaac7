"""Where the API server comes from: a cluster that exists, kind on a docker engine, or our own build, tried in that order.

Only `local` is run by this project's own checks. `kind` and `existing` share everything after the kubeconfig with it (kwok, MPI Operator,
exporter and Prometheus run as processes on this machine against it); `kind` itself was not run where this was written: it needs a docker
engine and its node image. Neither gives an audit log.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from e2e.cluster.control_plane import Serving, kubeconfig_path, start_control_plane, start_controllers

EXISTING_VARIABLE: Final = "HYPERSCALE_E2E_KUBECONFIG"
NAMES: Final = ("auto", "existing", "kind", "local")
_DOCKER_SECONDS: Final = 5.0
_KIND_SECONDS: Final = 300.0


class ProviderError(Exception):
    """The asked-for provider cannot be used here; the message says why."""


@dataclass(frozen=True, slots=True)
class Provided:
    """A control plane that answers."""

    kubeconfig: Path
    component_kubeconfig: Callable[[str], Path]
    """Kubeconfig of a component by name; on a foreign cluster all use the administrator's."""
    audit_log: Path | None


def choose(wanted: str, environment: Mapping[str, str]) -> str:
    """Name of the provider to use: `wanted`, or for "auto" the first that is asked for or can work."""
    if wanted != "auto":
        return wanted
    if environment.get(EXISTING_VARIABLE):
        return "existing"
    return "kind" if _docker_answers() and shutil.which("kind") else "local"


def _docker_answers() -> bool:
    docker = shutil.which("docker")
    if docker is None:
        return False
    try:
        return subprocess.run([docker, "info"], capture_output=True, timeout=_DOCKER_SECONDS, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def start(name: str, directory: Path, binaries: Mapping[str, Path], node_count: int | None, serving: Serving | None = None) -> Provided:
    """Bring up the control plane of a provider, the bare API server when `node_count` is None; `serving` counts for the local one only.

    Raises ProviderError, ProcessError or NotReadyError.
    """
    if name == "existing":
        return _existing(directory)
    if name == "kind":
        return _kind(directory)
    plane = start_control_plane(directory, binaries, serving)
    if node_count is not None:
        start_controllers(plane, binaries, node_count)
    return Provided(plane.kubeconfig, lambda user: kubeconfig_path(directory, user), plane.audit_log)


def stop(name: str, directory: Path) -> None:
    """Take down what `start` made outside of the directory's processes."""
    if name == "kind" and shutil.which("kind"):
        command = ["kind", "delete", "cluster", "--name", _kind_name(directory), "--kubeconfig", str(directory / "kubeconfig")]
        subprocess.run(command, capture_output=True, timeout=_KIND_SECONDS, check=False)


def _existing(directory: Path) -> Provided:
    given = os.environ.get(EXISTING_VARIABLE) or os.environ.get("KUBECONFIG")
    if not given or not Path(given).is_file():
        raise ProviderError(f"--provider existing: set {EXISTING_VARIABLE} or KUBECONFIG to a kubeconfig file")
    return _foreign(directory, Path(given).read_text())


def _kind(directory: Path) -> Provided:
    if shutil.which("kind") is None or not _docker_answers():
        raise ProviderError("--provider kind: needs the kind command and a docker engine that answers `docker info`")
    kubeconfig = directory / "kubeconfig"
    command = ["kind", "create", "cluster", "--name", _kind_name(directory), "--kubeconfig", str(kubeconfig), "--wait", "120s"]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=_KIND_SECONDS, check=False)
    if finished.returncode != 0:
        raise ProviderError(f"kind create cluster failed: {finished.stderr.strip()[-500:]}")
    return _foreign(directory, kubeconfig.read_text())


def _foreign(directory: Path, text: str) -> Provided:
    kubeconfig = directory / "kubeconfig"
    kubeconfig.touch(mode=0o600)
    kubeconfig.write_text(text)
    return Provided(kubeconfig, lambda _: kubeconfig, None)


def _kind_name(directory: Path) -> str:
    return f"hyperscale-{hashlib.sha256(str(directory).encode()).hexdigest()[:8]}"
