"""The images agree with the chart and with what the operator renders. They are not built here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from hyperscale.render import commands, security

ROOT = Path(__file__).resolve().parents[3]
DOCKERFILES = sorted((ROOT / "images").glob("*/Dockerfile"))


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.parent.name)
def test_everything_that_an_image_copies_exists_and_is_in_the_build_context(dockerfile: Path) -> None:
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    sources = [
        source
        for line in dockerfile.read_text().splitlines()
        if line.startswith("COPY ") and "--from=" not in line
        for source in line.split()[1:-1]
    ]
    assert sources
    for source in sources:
        assert (ROOT / source).exists(), source
        assert any(source == folder or source.startswith(f"{folder}/") for folder in allowed), source


def test_the_operators_user_is_the_one_that_the_chart_asks_for() -> None:
    values = yaml.safe_load((ROOT / "charts/hyperscale/values.yaml").read_text())
    user, group = re.findall(r"^USER (\d+):(\d+)$", (ROOT / "images/operator/Dockerfile").read_text(), re.MULTILINE)[-1]
    assert (int(user), int(group)) == (values["podSecurityContext"]["runAsUser"], values["podSecurityContext"]["runAsGroup"])


def test_the_workers_user_port_and_key_path_are_the_ones_that_are_rendered() -> None:
    text = (ROOT / "images/worker/Dockerfile").read_text()
    assert re.findall(r"^USER (\d+):", text, re.MULTILINE)[-1] == str(security.USER_ID)
    assert re.findall(r"^EXPOSE (\d+)$", text, re.MULTILINE) == [str(commands.SSH_PORT)]
    assert f" {commands.SSH_PATH}" in text


@pytest.mark.parametrize("lock", sorted((ROOT / "images").glob("*/*.lock")), ids=lambda path: path.name)
def test_what_an_image_adds_to_the_locks_is_pinned_with_hashes_and_agrees_with_them(lock: Path) -> None:
    pin = re.compile(r"^([a-z0-9-]+)==(\S+)", re.MULTILINE)
    text = lock.read_text()
    pins = dict(pin.findall(text))
    assert pins
    assert len(re.findall(r"==\S+ \\\n    --hash=sha256:", text)) == len(pins)
    assert "://" not in text
    shared = dict(pin.findall((ROOT / "requirements/worker.lock").read_text()))
    for name in sorted(pins.keys() & shared.keys()):
        assert pins[name] == shared[name] or lock.name == "build.lock", name
