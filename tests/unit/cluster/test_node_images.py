"""Images of the local cluster's nodes are kept by what decides their content."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from e2e import release
from e2e.cluster.real import images
from e2e.cluster.real.images import AGENT, AGENT_RUNTIME, OPERATOR, WORKER, NodeImage


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of one module, under a repository of its own."""
    monkeypatch.setattr(images, "REPOSITORY", tmp_path)
    monkeypatch.setattr(images, "IMAGES", tmp_path / "images")
    (tmp_path / "images" / "operator").mkdir(parents=True)
    (tmp_path / "images" / "operator" / "Dockerfile").write_text("FROM scratch\n")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "one.py").write_text("1\n")
    return tmp_path / "package"


def test_an_image_changes_with_its_sources_and_not_with_what_is_made_of_them(package: Path) -> None:
    image = NodeImage("operator", "the operator image", 1.0, inputs=(package,))
    before = image.digest
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "one.cpython-311.pyc").write_bytes(b"1")
    (package / "_kernel.cpython-311-x86_64-linux-gnu.so").write_bytes(b"1")
    assert image.digest == before
    (package / "one.py").write_text("2\n")
    assert image.digest != before


def test_an_image_with_code_is_called_by_its_content_and_a_stage_as_operator_and_chart_call_it() -> None:
    assert OPERATOR.reference == f"docker.io/hyperscale/operator:{OPERATOR.digest}"
    assert AGENT.reference.endswith(AGENT.digest)
    assert (WORKER.reference, AGENT_RUNTIME.reference) == ("docker.io/hyperscale/worker:0.1.0", "docker.io/hyperscale/agent:0.1.0")
    assert replace(AGENT, cpu_seconds=1.0).archive == AGENT.archive != AGENT_RUNTIME.archive


def test_every_input_of_an_image_is_there() -> None:
    assert [path for image in (*images.DEMO, AGENT_RUNTIME) for path in (image.dockerfile, *image.inputs) if not path.exists()] == []


def test_the_demo_installs_its_chart_by_a_command_that_a_shell_takes_as_it_is() -> None:
    line = release.helm_command({"image.tag": "1", "agent.nodeSelector.hyperscale\\.dev/real": "true", "settings.metricsPollSeconds": 2})
    assert line.endswith(
        "--set-string image.tag=1 --set-string 'agent.nodeSelector.hyperscale\\.dev/real=true' --set settings.metricsPollSeconds=2"
    )
