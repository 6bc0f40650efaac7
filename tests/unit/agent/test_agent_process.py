from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path

import pytest

from e2e.cluster.ports import free_ports
from tests.unit.agent.expositiontext import samples
from tests.unit.agent.fakenvml import UUIDS, as_text, whole

AGENT = [sys.executable, "-m", "hyperscale.agent"]
SMI = """#!/bin/sh
case "$1" in --query-gpu=uuid,name,pci.bus_id,*) ;; *) exit 2 ;; esac
echo "{uuid0}, NVIDIA H100 80GB HBM3, 00000000:1B:00.0, 87, 21, 31049, 50000, 510, 41, 52, 333.25, 1980, 2619, 5, 0, 17, 1"
echo "{uuid1}, NVIDIA H100 80GB HBM3, 00000000:43:00.0, 88, 21, {used}, 50000, 510, 42, [N/A], [Not Supported], 1980, 2619, 5, 0, 17, 1"
"""


def environment(library: Path | None, folder: Path, **more: str) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("HYPERSCALE_") and key != "LD_LIBRARY_PATH"}
    readings = folder / "readings.txt"
    readings.write_text(as_text(whole()))
    found = {"LD_LIBRARY_PATH": str(library.parent), "FAKE_NVML": str(readings)} if library else {}
    return {**kept, **found, "NODE_NAME": "gpu-a", **more}


def run(given: list[str], variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*AGENT, *given], env=dict(variables), capture_output=True, text=True, timeout=60, check=False)


def test_once_prints_everything_with_the_library_found_by_its_name(library: Path, tmp_path: Path) -> None:
    finished = run(["--once"], environment(library, tmp_path))
    assert (finished.returncode, finished.stderr) == (0, "")
    found = samples(finished.stdout)
    assert [labels["UUID"] for labels, _ in found["DCGM_FI_DEV_GPU_UTIL"]] == list(UUIDS)
    assert found["DCGM_FI_PROF_NVLINK_TX_BYTES"][0][1] == 0
    assert found["hyperscale_agent_state"] == [({"node": "gpu-a", "state": "Ready"}, 1)]


def test_without_a_library_the_state_says_so_and_what_to_do(tmp_path: Path) -> None:
    finished = run(["--once"], environment(None, tmp_path))
    if 'state="Ready"' in finished.stdout:
        pytest.skip("this machine has an NVIDIA driver")
    assert finished.returncode == 1
    assert samples(finished.stdout)["hyperscale_agent_state"][0][0]["state"] in {"NoLibrary", "NoDriver", "NoGPU"}
    assert finished.stderr.count("\n") == 1
    assert "Traceback" not in finished.stderr


def test_the_agent_serves_until_it_is_told_to_leave(library: Path, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    variables = environment(library, tmp_path, HYPERSCALE_AGENT_METRICS_PORT=str(port), HYPERSCALE_AGENT_LINKS="off")
    with subprocess.Popen(AGENT, env=variables, stderr=subprocess.PIPE, text=True) as process:
        try:
            text = wait_for(f"http://127.0.0.1:{port}/metrics", 'hyperscale_agent_state{node="gpu-a",state="Ready"} 1')
            assert len(samples(text)["DCGM_FI_DEV_POWER_USAGE"]) == 2
            assert wait_for(f"http://127.0.0.1:{port}/readyz", "Ready") == "Ready\n"
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def test_a_driver_that_hangs_holds_up_neither_once_nor_the_end(library: Path, tmp_path: Path) -> None:
    variables = environment(library, tmp_path, HYPERSCALE_AGENT_NVML_DEADLINE_SECONDS="3")
    (tmp_path / "readings.txt").write_text(as_text(whole() | {"hang.nvmlDeviceGetPowerUsage": 1}))
    finished = run(["--once"], variables)
    assert finished.returncode == 1
    assert finished.stderr.startswith("Stalled: nvmlDeviceGetPowerUsage of GPU 0 has not returned for ")


def test_a_port_that_is_taken_is_one_line(library: Path, tmp_path: Path) -> None:
    with socket.create_server(("", 0)) as taken:
        port = str(taken.getsockname()[1])
        finished = run([], environment(library, tmp_path, HYPERSCALE_AGENT_METRICS_PORT=port, HYPERSCALE_AGENT_LINKS="off"))
    assert finished.returncode == 2
    assert finished.stderr.startswith("HYPERSCALE_AGENT_METRICS_PORT: ")


@pytest.mark.parametrize(("used", "code"), [("31049", 0), ("60000", 1)])
def test_figures_are_compared_with_nvidia_smis(library: Path, tmp_path: Path, used: str, code: int) -> None:
    tool = tmp_path / "bin" / "nvidia-smi"
    tool.parent.mkdir()
    tool.write_text(SMI.format(uuid0=UUIDS[0], uuid1=UUIDS[1], used=used))
    tool.chmod(0o755)
    variables = environment(library, tmp_path)
    finished = run(["--compare"], variables | {"PATH": f"{tool.parent}:{variables['PATH']}"})
    assert finished.returncode == code, finished.stderr
    lines = [line for line in finished.stdout.splitlines() if "memory.used" in line]
    assert [line.split()[-1] for line in lines] == ["equal", "equal" if code == 0 else "differs"]
    assert sum(line.endswith("only ours") for line in finished.stdout.splitlines()) == 2


def test_an_nvidia_smi_that_fails_says_why_in_one_line(library: Path, tmp_path: Path) -> None:
    tool = tmp_path / "bin" / "nvidia-smi"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho 'Field \"memory.reserved\" is not a valid field to query.'\nexit 2\n")
    tool.chmod(0o755)
    variables = environment(library, tmp_path)
    finished = run(["--compare"], variables | {"PATH": f"{tool.parent}:{variables['PATH']}"})
    assert finished.returncode == 2
    assert finished.stderr == 'nvidia-smi gives nothing to compare with: Field "memory.reserved" is not a valid field to query.\n'


def test_figures_of_this_machines_own_gpus_are_nvidia_smis(tmp_path: Path) -> None:
    if shutil.which("nvidia-smi") is None:
        pytest.skip("no nvidia-smi on this machine")
    finished = run(["--compare"], {**os.environ, "NODE_NAME": "gpu-a"})
    if finished.returncode == 2:
        pytest.skip(finished.stderr)
    assert finished.returncode == 0, finished.stdout


def test_without_nvidia_smi_there_is_nothing_to_compare_with(library: Path, tmp_path: Path) -> None:
    finished = run(["--compare"], environment(library, tmp_path) | {"PATH": str(tmp_path)})
    assert (finished.returncode, finished.stderr) == (2, "nvidia-smi is not on PATH: nothing to compare with\n")


def wait_for(url: str, text: str) -> str:
    """The page, once it has the text."""
    until = time.monotonic() + 60
    answer = ""
    while time.monotonic() < until:
        try:
            with urllib.request.urlopen(url, timeout=5) as page:  # noqa: S310 - loopback
                answer = page.read().decode()
        except OSError:
            pass
        if text in answer:
            return answer
        time.sleep(0.05)
    pytest.fail(f"{url} never said {text!r}: {answer[-500:]}")
