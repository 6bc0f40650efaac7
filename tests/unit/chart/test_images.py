"""The images agree with the chart and with what the operator renders. They are not built here."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from e2e import images
from hyperscale.control.render import commands, security

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


@pytest.mark.parametrize("image", ["operator", "worker"])
def test_images_install_the_wheel_and_end_their_build_where_a_compiled_module_is_missing(image: str) -> None:
    text = (ROOT / "images" / image / "Dockerfile").read_text()
    assert "pip wheel " in text
    assert text.index("/wheels/*.whl") < text.index("/build/compiled.py \\\n")
    assert not re.search(r"^COPY operator/hyperscale (?!/build/)", text, re.MULTILINE), "sources without what is compiled from them"


def test_the_operators_process_loads_no_typed_call_or_object_of_the_kubernetes_client() -> None:
    """They are left out of the image."""
    assert "-regex '.*/client/(api|models)/[^_][^/]*' -delete" in (ROOT / "images/operator/Dockerfile").read_text()
    program = (
        "import hyperscale.control.controller.manager, hyperscale.control.apply.client, hyperscale.cli.live, sys; "
        "print(*(getattr(m, '__file__', '') or '' for m in list(sys.modules.values())), sep='\\n')"
    )
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.splitlines()
    assert any("/kubernetes/aio/client/" in file for file in loaded)
    assert [file for file in loaded if re.search(r"/kubernetes/.*client/.*(api|models)/[^_/][^/]*$", file)] == []


def test_the_operators_image_carries_no_tests_of_its_dependencies() -> None:
    removed, built = (ROOT / "images/operator/Dockerfile").read_text().split("-name tests -prune -exec rm -rf {} +")
    assert "pip --python /opt/hyperscale/bin/python install" in removed
    assert "install" not in built, "packages that are installed after the removal keep their tests"
    assert "compileall" in built, "compiled first, the tests' bytecode would be built for nothing"


def test_the_check_of_images_names_what_is_not_compiled(tmp_path: Path) -> None:
    package = tmp_path / "hyperscale"
    (package / "plan").mkdir(parents=True)
    for name in ("__init__.py", "_whole.pyi", "_whole.cpython-311-x86_64-linux-gnu.so", "plan/_left.pyi"):
        (package / name).touch()
    command = [sys.executable, "-S", str(ROOT / "images/compiled.py")]
    ended = subprocess.run(command, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr.strip() == f"{package}: not compiled: plan/_left.pyi"


def test_the_operators_user_is_the_one_that_the_chart_asks_for() -> None:
    values = yaml.safe_load((ROOT / "charts/hyperscale/values.yaml").read_text())
    user, group = re.findall(r"^USER (\d+):(\d+)$", (ROOT / "images/operator/Dockerfile").read_text(), re.MULTILINE)[-1]
    assert (int(user), int(group)) == (values["podSecurityContext"]["runAsUser"], values["podSecurityContext"]["runAsGroup"])


def test_the_workers_user_port_and_key_path_are_the_ones_that_are_rendered() -> None:
    text = (ROOT / "images/worker/Dockerfile").read_text()
    assert re.findall(r"^USER (\d+):", text, re.MULTILINE)[-1] == str(security.USER_ID)
    assert re.findall(r"^EXPOSE (\d+)$", text, re.MULTILINE) == [str(commands.SSH_PORT)]
    assert f" {commands.SSH_PATH}" in text


AGENT = ROOT / "images/agent"
IMPORTS = """
import importlib, importlib.abc, pkgutil, sys
allowed = set(sys.argv[2].split(","))
class Refusal(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in sys.stdlib_module_names and top not in allowed:
            raise ModuleNotFoundError(f"No module named {name!r} in the image", name=name)
sys.meta_path.insert(0, Refusal())
sys.path.insert(0, sys.argv[1])
import hyperscale.agent
assert hyperscale.agent.__file__.startswith(sys.argv[1])
for found in pkgutil.iter_modules(hyperscale.agent.__path__):
    importlib.import_module("hyperscale.agent." + found.name)
"""


def names_of(lock: Path) -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", lock.read_text(), re.MULTILINE))


def test_the_agents_packages_are_few_and_pinned_as_elsewhere() -> None:
    pins = names_of(AGENT / "agent.lock")
    assert pins.items() <= names_of(ROOT / "requirements/agent.lock").items()
    needed = [Requirement(text) for name in pins for text in importlib.metadata.requires(name) or ()]
    missing = [str(one) for one in needed if one.name not in pins and (one.marker is None or one.marker.evaluate({"extra": ""}))]
    assert not missing
    assert len(pins) <= 5


def test_the_agents_image_holds_everything_that_the_agent_imports(tmp_path: Path) -> None:
    packages = {top for name in names_of(AGENT / "agent.lock") for top in tops(name)}
    for sources in re.findall(r"^COPY (operator/\S+(?: operator/\S+)*) ", (AGENT / "Dockerfile").read_text(), re.MULTILINE):
        for source in sources.split():
            target = tmp_path / Path(source).relative_to("operator")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(ROOT / source)
    command = [sys.executable, "-c", IMPORTS, str(tmp_path), ",".join(sorted(packages | {"hyperscale"}))]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr


def tops(distribution: str) -> set[str]:
    """What a distribution lets one import."""
    files = importlib.metadata.files(distribution) or ()
    return {file.parts[0].partition(".")[0] for file in files if file.suffix in (".py", ".so")}


def test_the_agents_user_ports_and_base_are_the_ones_that_the_chart_asks_for() -> None:
    text = (AGENT / "Dockerfile").read_text()
    values = yaml.safe_load((ROOT / "charts/hyperscale/values.yaml").read_text())
    assert re.findall(r"^USER (\d+):(\d+)$", text, re.MULTILINE) == [(str(values["podSecurityContext"]["runAsUser"]),) * 2]
    assert re.findall(r"^EXPOSE (.+)$", text, re.MULTILINE) == ["9465 9466"]


def test_what_the_worker_image_takes_away_after_compiling_is_in_no_lock_of_what_it_runs() -> None:
    removed = re.findall(r"pip uninstall --yes ([a-z -]+) \\$", (ROOT / "images/worker/Dockerfile").read_text(), re.MULTILINE)
    assert removed
    kept = names_of(ROOT / "requirements/worker.lock").keys() | names_of(ROOT / "images/worker/horovod.lock").keys()
    assert not kept & {name for names in removed for name in names.split()}


def test_every_image_that_can_be_built_is_tried_afterwards() -> None:
    assert sorted(images.TRIES) == [dockerfile.parent.name for dockerfile in DOCKERFILES]
