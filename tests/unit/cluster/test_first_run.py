"""What the first run builds: which programs, by how many builds, and what it says meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2e import first_run, horovod
from e2e.cluster import binaries, gobuild, progress
from e2e.cluster.real import images

SECONDS = st.floats(0.0, 1e5)


@pytest.fixture
def builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, tuple[str, ...]]]:
    """An empty cache, and the (module, packages) of every Go build; the programs are empty files."""
    found: list[tuple[str, tuple[str, ...]]] = []

    def build(module: Path, packages: Sequence[str], patches: Sequence[gobuild.Patch], scratch: Path) -> dict[str, Path]:
        found.append((module.name, tuple(packages)))
        made = {package: scratch / gobuild.executable_name(package, module) for package in packages}
        for path in made.values():
            path.touch()
        return made

    monkeypatch.setenv("HYPERSCALE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(gobuild, "build", build)
    monkeypatch.setattr(gobuild, "module_directory", lambda _, dependency: tmp_path / dependency)
    for tool in (*binaries.TOOLS, *binaries.REAL_TOOLS):
        for _, module, path in tool.files:
            (tmp_path / module / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / module / path).touch()
    return found


def test_all_programs_of_the_cluster_are_built_by_one_go_build(builds: list[tuple[str, tuple[str, ...]]]) -> None:
    made = binaries.ensure_all((*binaries.TOOLS, *binaries.REAL_TOOLS))
    assert [(module, len(packages)) for module, packages in builds] == [("cluster", 11)]
    assert {"etcd", "kube-apiserver", "kubelet", "coredns", "kubeflow.org_mpijobs.yaml"} <= set(made)
    assert all(path.is_file() for path in made.values())


def test_only_programs_that_are_not_there_are_built(builds: list[tuple[str, tuple[str, ...]]]) -> None:
    binaries.ensure(binaries.TOOLS[0])
    binaries.ensure_all(binaries.TOOLS[:2])
    binaries.ensure_all(binaries.TOOLS[:2])
    assert [len(packages) for _, packages in builds] == [1, 3]


def test_a_program_is_found_under_the_name_that_go_build_gives_it() -> None:
    for tool in (*binaries.TOOLS, *binaries.REAL_TOOLS, binaries.GITOPS_TOOL):
        for executable, package in tool.commands:
            name = gobuild.executable_name(package, binaries.TOOLS_DIRECTORY / tool.module)
            assert name == {"etcd": "server"}.get(executable, executable)


def test_coredns_has_every_plugin_that_the_corefile_names() -> None:
    source = (binaries.TOOLS_DIRECTORY / "cluster" / "coredns" / "main.go").read_text()
    machines = (Path(images.__file__).parent / "machines.py").read_text()
    corefile = machines.partition("corefile.write_text(")[2].partition('"""')[2].partition('"""')[0]
    plugins = {line.split()[0] for line in corefile.splitlines() if line.startswith("    ") and not line.startswith("     ")} - {"}}"}
    assert plugins >= {"bind", "kubernetes"}
    assert {name for name in plugins if f'coredns/plugin/{name}"' in source} == plugins


@given(SECONDS, SECONDS, st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_what_is_left_is_never_negative_and_ends_at_nothing(elapsed: float, expected: float, one: float, other: float) -> None:
    assert progress.left_seconds(one, elapsed, expected) >= 0
    assert progress.left_seconds(1.0, elapsed, expected) == 0
    if min(one, other) >= 0.05:
        assert progress.left_seconds(max(one, other), elapsed, expected) <= progress.left_seconds(min(one, other), elapsed, expected)


def test_a_build_says_every_twenty_seconds_how_much_is_left() -> None:
    now, said = [0.0], list[str]()
    build = progress.Progress("building", 100.0, clock=lambda: now[0], write=said.append)
    for second in range(0, 101, 5):
        now[0] = float(second)
        build.at(second / 200, f"{second} of 200")
    assert said[0] == "building: 20 of 200, about 3 min left"
    assert len(said) == 5


def test_linking_counts_as_work_that_is_left_when_every_package_is_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toolchain = tmp_path / "go"
    toolchain.write_text("#!/bin/sh\necho one >&2\necho two >&2\n")
    toolchain.chmod(0o755)
    monkeypatch.setattr(gobuild, "go_executable", lambda: str(toolchain))
    shares: list[float] = []

    class Recorded(progress.Progress):
        def at(self, share: float, done: str) -> None:
            shares.append(share)

    gobuild._stream(tmp_path, ["build"], {"one": 30, "two": 50}, 100, Recorded("building", 1.0))
    assert shares == [0.3, 0.8]


def test_the_demo_lists_what_it_will_build_with_the_time_of_each(
    builds: list[tuple[str, tuple[str, ...]]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if find_spec("torch") is None:
        pytest.skip("torch, for which Horovod is built, is not installed")
    first_run.announce(first_run.parts(real=True))
    assert "to build, once: 4 parts" in capsys.readouterr().err
    binaries.ensure_all((*binaries.TOOLS, *binaries.REAL_TOOLS))
    monkeypatch.setattr(horovod, "absent", list)
    first_run.announce(first_run.parts(real=False))
    assert "to build, once: 1 part, about" in capsys.readouterr().err
    monkeypatch.setattr(horovod, "absent", lambda: ["openmpi-bin"])
    first_run.announce(first_run.parts(real=False))
    assert capsys.readouterr().err == ""


def test_a_patch_that_does_not_fit_its_module_any_more_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "main.go").write_text("package main\n")
    monkeypatch.setattr(gobuild, "module_directory", lambda *_: source)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    patch = gobuild.Patch("example.org/tool", "main.go", "func main", "func other")
    with pytest.raises(gobuild.BuildError, match=r"the patch of main\.go does not fit"):
        gobuild.patched_modules(tmp_path, [patch], scratch)
