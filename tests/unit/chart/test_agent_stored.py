"""What Prometheus stores of the agents' series: by the PodMonitor's rules, and by the manual's for pods scraped by annotations."""

from __future__ import annotations

import contextlib
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster.ports import LOOPBACK, free_ports
from e2e.cluster.prometheus import CHECKER, PrometheusMissingError, executable, query
from hyperscale.agent.exposition import CONTENT_TYPE, render
from hyperscale.agent.gpus.exposition_gpus import families
from hyperscale.agent.gpus.gpu_figures import FIGURES, PCIE_REPLAYS
from hyperscale.agent.gpus.gpu_reading import GpuReading, MigInstance, Reading
from hyperscale.agent.state import AgentState, DriverCondition
from tests.builders.answering import answering
from tests.unit.agent import dcgmtexts

Render = Callable[..., list[dict[str, Any]]]
Rules = list[dict[str, Any]]
Labels = frozenset[tuple[str, str]]
MODEL = "NVIDIA H100 80GB HBM3"
INSTALL = (Path(__file__).resolve().parents[3] / "docs/install.md").read_text()


def agents_text() -> str:
    """A whole GPU and one that MIG splits, each with every figure."""
    ready, figures = AgentState(DriverCondition.READY), dict.fromkeys(FIGURES, 3.0)
    instance = MigInstance(7, "1g.10gb", {"DCGM_FI_DEV_FB_USED": 700.0})
    whole = GpuReading(0, ready, "GPU-0", "00000000:1B:00.0", "nvidia0", MODEL, figures)
    split = GpuReading(1, ready, "GPU-1", "00000000:43:00.0", "nvidia1", MODEL, figures, (instance,))
    return render(families(Reading(0.0, ready, "570.86.10", (whole, split)), "gpu-a", ready, 0.25))


def others_text() -> str:
    """What other pods of the same scrape job serve: dcgm-exporter's own link series, and a model server's."""
    return dcgmtexts.with_links("gpu-b") + '# TYPE served_total counter\nserved_total{model_name="gpt",modelName="gpt"} 1\n'


def rules_of_pod_monitor(render: Render) -> Rules:
    """As the Prometheus Operator writes them into a scrape job."""
    resources = render({"agent": {"metrics": {"podMonitor": {"enabled": True}}}})
    (monitor,) = [resource for resource in resources if resource["kind"] == "PodMonitor"]
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    return [
        {re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", key): rule[key] for key in rule} for rule in endpoint["metricRelabelings"]
    ]


def rules_of_manual() -> Rules:
    (block,) = re.findall(r"```yaml\n(metric_relabel_configs:.*?)```", INSTALL, re.DOTALL)
    return list(yaml.safe_load(block)["metric_relabel_configs"])


@contextmanager
def prometheus(folder: Path, port: int, wanted: Mapping[str, tuple[str, Rules]]) -> Iterator[str]:
    """A server that scrapes a page of that port by those rules for each job, its configuration checked by promtool first; its URL."""
    try:
        binary, promtool = executable(), executable(CHECKER)
    except PrometheusMissingError as error:
        pytest.skip(str(error))
    targets = [{"targets": [f"{LOOPBACK}:{port}"]}]
    jobs = [
        {"job_name": job, "metrics_path": page, "static_configs": targets, "metric_relabel_configs": rules}
        for job, (page, rules) in wanted.items()
    ]
    configuration = folder / "prometheus.yml"
    configuration.write_text(yaml.safe_dump({"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}, "scrape_configs": jobs}))
    subprocess.run([str(promtool), "check", "config", str(configuration)], check=True, capture_output=True, timeout=30)
    address = f"{LOOPBACK}:{free_ports(1)[0]}"
    command = [str(binary), f"--config.file={configuration}", f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address={address}"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield f"http://{address}"
        finally:
            process.terminate()


def stored(url: str, job: str) -> set[Labels]:
    """Labels of all series that the job's target gave, the target's own left out."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        with contextlib.suppress(OSError):
            if any(float(one["value"][1]) for one in query(url, f'scrape_samples_scraped{{job="{job}"}}')):
                rows = query(url, f'{{job="{job}",__name__!~"up|scrape_.*"}}')
                return {frozenset((key, value) for key, value in row["metric"].items() if key not in {"job", "instance"}) for row in rows}
        time.sleep(0.1)
    pytest.fail(f"Prometheus has no series of {job}")


def test_prometheus_stores_the_agents_figures_as_dcgm_exporter_spells_them_and_nobody_elses(render: Render, tmp_path: Path) -> None:
    manual = rules_of_manual()
    wanted = {
        "as served": ("/agent", []),
        "monitored": ("/agent", rules_of_pod_monitor(render)),
        "annotated": ("/agent", manual),
        "others as served": ("/others", []),
        "others annotated": ("/others", manual),
    }
    pages = {"/agent": agents_text(), "/others": others_text()}
    with answering(lambda request: (200, CONTENT_TYPE, pages[request.path].encode())) as port, prometheus(tmp_path, port, wanted) as url:
        found = {job: stored(url, job) for job in wanted}
    assert {dict(labels)["__name__"] for labels in found["as served"]} >= FIGURES.keys()
    assert found["monitored"] == found["annotated"] == {dcgms_spelling(labels) for labels in found["as served"]}
    assert len(found["monitored"]) == len(found["as served"])
    assert found["others annotated"] == found["others as served"]


def dcgms_spelling(labels: Labels) -> Labels:
    keys, values = {"model_name": "modelName"}, {PCIE_REPLAYS: "DCGM_FI_DEV_PCIE_REPLAY_COUNTER"}
    return frozenset((keys.get(key, key), values.get(value, value)) for key, value in labels)
