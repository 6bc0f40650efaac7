"""Without a cluster or a file at hand, a command says what to write instead."""

from __future__ import annotations

import pytest

from tests.unit.cli.cli_samples import Files, files_fixture, run

__all__ = ["files_fixture"]


@pytest.mark.parametrize(
    ("argv", "instead"),
    [
        (("topology",), "--kubeconfig, or read a file with --snapshot"),
        (("explain", "cora"), "--kubeconfig, or read a file with -f"),
        (("plan", "-f", "JOB"), "--kubeconfig, or plan on a file with --snapshot"),
        (("snapshot", "-o", "-"), "--kubeconfig"),
        (("doctor",), "--kubeconfig"),
    ],
)
def test_without_a_cluster_a_command_names_only_options_that_it_has(
    argv: tuple[str, ...], instead: str, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(files.folder / "absent"))
    ran = run(*(files.job if word == "JOB" else word for word in argv))
    assert ran.code == 2
    assert ran.err.endswith(f"set KUBECONFIG or {instead}\n")


def test_a_snapshot_file_that_is_absent_comes_with_the_command_that_writes_one(files: Files) -> None:
    ran = run("plan", "-f", files.job, "--snapshot", "nowhere.json")
    assert (ran.code, ran.err) == (2, "hyperscale: nowhere.json: no such file; write one with `hyperscale snapshot -o FILE`\n")
