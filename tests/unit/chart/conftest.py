"""Renders the chart with the same helm that the local cluster uses."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster import binaries

CHART = Path(__file__).resolve().parents[3] / "charts" / "hyperscale"
KUBERNETES_VERSION = "1.34.4"

Resource = dict[str, Any]
Render = Callable[..., list[Resource]]


@pytest.fixture(scope="session")
def helm() -> Path:
    tool = next(tool for tool in binaries.TOOLS if tool.name == "helm")
    return binaries.ensure(tool) / "helm"


@pytest.fixture(scope="session")
def render_text(helm: Path) -> Callable[..., str]:
    def run(values: Resource | None = None, *, release: str = "hyperscale", namespace: str = "hyperscale-system") -> str:
        command = [
            str(helm),
            "template",
            release,
            str(CHART),
            "--namespace",
            namespace,
            "--kube-version",
            KUBERNETES_VERSION,
            "--values",
            "-",
        ]
        finished = subprocess.run(command, input=json.dumps(values or {}), text=True, capture_output=True, check=False)
        if finished.returncode != 0:
            raise ValueError(finished.stderr)  # what a user would read
        return finished.stdout

    return run


@pytest.fixture(scope="session")
def render(render_text: Callable[..., str]) -> Render:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    def run(values: Resource | None = None, **options: str) -> list[Resource]:
        return [resource for resource in yaml.load_all(render_text(values, **options), Loader=loader) if resource]

    return run
