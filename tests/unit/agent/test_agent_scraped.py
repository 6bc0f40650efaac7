from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from e2e.cluster.ports import free_ports
from e2e.cluster.prometheus import PrometheusMissingError, executable
from hyperscale.model.api.policy import PolicySpec, QualityLimits
from hyperscale.model.cluster import Gpu
from hyperscale.observe.identity import NodeIndex
from hyperscale.observe.prometheus.reader import PrometheusReader
from hyperscale.observe.series.dcgm import gpus_by_node
from tests.unit.agent.fakenvml import MIB, UUIDS
from tests.unit.agent.test_agent_process import AGENT, environment
from tests.unit.observe.objects import raw_node

INDEX = NodeIndex([raw_node("gpu-a")])


def test_the_operator_reads_the_agents_gpus_through_a_real_prometheus(library: Path, tmp_path: Path) -> None:
    try:
        prometheus = executable()
    except PrometheusMissingError as error:
        pytest.skip(str(error))
    agent_port, port = free_ports(2)
    job = {"job_name": "agents", "static_configs": [{"targets": [f"127.0.0.1:{agent_port}"]}]}
    configuration = tmp_path / "prometheus.yml"
    configuration.write_text(yaml.safe_dump({"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}, "scrape_configs": [job]}))
    variables = environment(library, tmp_path, HYPERSCALE_AGENT_METRICS_PORT=str(agent_port), HYPERSCALE_AGENT_LINKS="off")
    command = [
        str(prometheus),
        f"--config.file={configuration}",
        f"--storage.tsdb.path={tmp_path / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (
        subprocess.Popen(AGENT, env=variables, stderr=subprocess.DEVNULL) as agent,
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server,
    ):
        try:
            gpus = wait_for_gpus(f"http://127.0.0.1:{port}")
        finally:
            agent.terminate()
            server.terminate()
    assert [gpu.uuid for gpu in gpus] == list(UUIDS)
    shown = [(gpu.utilization_ratio.value, gpu.power_watts.value, gpu.temperature_celsius.value, gpu.last_xid.value) for gpu in gpus]
    assert shown == [(0.87, 333.25, 41, 0), (0.88, 333.25, 42, 0)]
    assert [gpu.memory_total_bytes.value for gpu in gpus] == [81_559 * MIB] * 2


def wait_for_gpus(url: str) -> tuple[Gpu, ...]:
    """The node's GPUs once Prometheus has them."""
    reader = PrometheusReader(url)
    until = time.monotonic() + 60
    while time.monotonic() < until:
        reading = reader.read(PolicySpec(), time.time())
        found, _ = gpus_by_node(reading, INDEX, QualityLimits(), time.time())
        gpus = found.get("gpu-a", ())
        if len(gpus) == 2 and all(None not in (gpu.utilization_ratio.value, gpu.last_xid.value) for gpu in gpus):
            return gpus
        time.sleep(0.2)
    sys.stderr.write(f"{reading.state}\n")
    pytest.fail("Prometheus never had both GPUs")
