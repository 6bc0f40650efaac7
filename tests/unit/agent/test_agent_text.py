from __future__ import annotations

import asyncio
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pynvml
import pytest

from e2e.cluster.prometheus import CHECKER, PrometheusMissingError, executable
from hyperscale.agent.__main__ import NodeAgent
from hyperscale.agent.agent_settings import AgentSettings
from hyperscale.agent.exposition import ExpositionLine, Family, number, render
from hyperscale.agent.gpus.exposition_gpus import families
from hyperscale.agent.gpus.gpu_figures import FIGURES, PCIE_REPLAYS
from hyperscale.agent.gpus.nvml import Nvml
from hyperscale.agent.probe.probe_metrics import LinkCollector, ProbeSeries
from hyperscale.agent.state import AgentState, DriverCondition
from hyperscale.model.api.policy import QualityLimits
from hyperscale.observe.identity import NodeIndex
from hyperscale.observe.series.dcgm import MIG_FAULT, gpus_by_node
from tests.unit.agent.expositiontext import samples, scraped
from tests.unit.agent.fakenvml import MIB, UUIDS, FakeNvml
from tests.unit.observe.objects import NOW, raw_node

NODE = "gpu-a"
READY = AgentState(DriverCondition.READY)
MIG: dict[str, object] = {"gpu0.mig": 1, "gpu0.mig0.instance": 7, "gpu0.mig0.name": "NVIDIA H100 MIG 1g.10gb"} | {
    f"gpu0.mig0.memory.{name}": mib * MIB for name, mib in (("total", 9728), ("free", 9000), ("used", 700))
}


def text(*, figures: bool = True) -> str:
    reader = Nvml()
    reader.read(100.0)
    reading = reader.read(110.0)
    reader.close()
    return render(families(reading, NODE, reading.state, 0.25, figures=figures))


@dataclass
class Measured:
    series: dict[str, ProbeSeries]
    sent: int
    lost: int


def whole_text(*, left_to_dcgm: bool = False) -> str:
    """All that /metrics serves: two readings of the GPUs, and a destination with every figure of a link."""
    agent = NodeAgent(AgentSettings(node=NODE))
    links = LinkCollector(NODE, Measured({"gpu-b": ProbeSeries(3e-5, 1.25e9, 1.25e9, loss_ratio=0.1)}, sent=9, lost=1), {"wrong token": 2})
    links.peers, links.spent_bytes = 1, 8192.0
    agent.registry.register(links)
    agent.poller.left_to_dcgm = left_to_dcgm
    for _ in range(2):
        asyncio.run(agent.poller.poll())
    return agent.text()


def checked(served: str) -> tuple[int, str]:
    """promtool's exit code and what it has to say of a text: 1 is not the format, 3 remarks on style."""
    try:
        promtool: Path = executable(CHECKER)
    except PrometheusMissingError as error:
        pytest.skip(str(error))
    finished = subprocess.run([str(promtool), "check", "metrics"], input=served, capture_output=True, text=True, timeout=30, check=False)
    return finished.returncode, finished.stdout + finished.stderr


NO_REMARK = (0, "")
FAILING: dict[str, object] = {"gpu1.error.nvmlDeviceGetPowerUsage": 999}
SERVED: dict[str, tuple[dict[str, object], bool]] = {
    "whole GPUs": ({}, False),
    "a GPU that MIG splits": (MIG, False),
    "a call that fails": (FAILING, False),
    "figures left to a dcgm-exporter": ({}, True),
}


@pytest.mark.parametrize("case", SERVED)
def test_promtool_has_no_remark_on_anything_the_agent_serves(nvml: FakeNvml, case: str) -> None:
    changes, left_to_dcgm = SERVED[case]
    nvml.load(changes)
    served = whole_text(left_to_dcgm=left_to_dcgm)
    names = samples(served).keys()
    assert not left_to_dcgm or not FIGURES.keys() & names
    assert left_to_dcgm or FIGURES.keys() <= names
    assert "hyperscale_link_probe_loss_ratio" in names
    assert ("hyperscale_agent_nvml_errors_total" in names) == (changes is FAILING)
    assert checked(served) == NO_REMARK


def test_promtool_has_no_remark_on_an_agent_without_a_driver(nvml: FakeNvml) -> None:
    nvml.load({"error.nvmlInitWithFlags": pynvml.NVML_ERROR_DRIVER_NOT_LOADED})
    served = whole_text()
    assert samples(served)["hyperscale_agent_state"] == [({"node": NODE, "state": "NoDriver"}, 1)]
    assert checked(served) == NO_REMARK


@pytest.mark.parametrize(
    ("name", "kind", "label"),
    [
        ("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "counter", "gpu"),
        ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "untyped", "gpu"),
        ("DCGM_FI_DEV_GPU_UTIL", "gauge", "modelName"),
    ],
)
def test_what_the_agent_does_otherwise_than_dcgm_exporter_is_what_promtool_minds(name: str, kind: str, label: str) -> None:
    code, said = checked(render([Family(name, kind, "As the exporter has it.", (ExpositionLine({label: "0"}, 1),))]))
    assert (code, said.count("\n")) == (3, 1)
    assert said.startswith(f"{name} ")


def test_running_totals_under_dcgms_names_have_no_type_and_all_else_is_a_gauge() -> None:
    ecc = {f"DCGM_FI_DEV_ECC_{kind}_{since}_TOTAL" for kind in ("SBE", "DBE") for since in ("VOL", "AGG")}
    rows = {f"DCGM_FI_DEV_{kind}_REMAPPED_ROWS" for kind in ("UNCORRECTABLE", "CORRECTABLE")}
    totals = dict.fromkeys(ecc | rows | {"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"}, "untyped") | {PCIE_REPLAYS: "counter"}
    assert {name: figure.kind for name, figure in FIGURES.items()} == dict.fromkeys(FIGURES, "gauge") | totals


def test_every_figure_has_help_type_and_a_line_for_each_gpu(nvml: FakeNvml) -> None:
    served = text()
    for name, figure in FIGURES.items():
        assert f"# HELP {name} {figure.help}\n# TYPE {name} {figure.kind}\n{name}{{" in served
        assert len(samples(served)[name]) == 2
    assert served.endswith("\n")
    assert not re.search(r"\n\n", served)


def test_labels_are_dcgms_in_dcgms_order(nvml: FakeNvml) -> None:
    line = next(line for line in text().splitlines() if line.startswith("DCGM_FI_DEV_GPU_UTIL{"))
    assert line == (
        f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",UUID="{UUIDS[0]}",pci_bus_id="00000000:1B:00.0",device="nvidia0",'
        'model_name="NVIDIA H100 80GB HBM3",Hostname="gpu-a",DCGM_FI_DRIVER_VERSION="570.86.10"} 87'
    )


def test_instances_of_mig_carry_profile_and_id_and_repeat_the_gpus_own_figures(nvml: FakeNvml) -> None:
    nvml.load(MIG)
    found = samples(text())
    labels, value = found["DCGM_FI_DEV_FB_USED"][0]
    assert (labels["GPU_I_PROFILE"], labels["GPU_I_ID"], value) == ("1g.10gb", "7", 700)
    labels, value = found["DCGM_FI_DEV_GPU_TEMP"][0]
    assert (labels["GPU_I_ID"], value) == ("7", 41)
    assert "GPU_I_ID" not in found["DCGM_FI_DEV_FB_USED"][1][0]


def test_the_operator_reads_the_agents_series(nvml: FakeNvml) -> None:
    index = NodeIndex([raw_node(NODE), raw_node("gpu-b")])
    found, notes = gpus_by_node(scraped(text(), {"job": "agents", "instance": "10.244.1.9:9465"}), index, QualityLimits(), NOW)
    assert notes == ()
    gpu = found[NODE][0]
    assert (gpu.uuid, gpu.utilization_ratio.value, gpu.power_watts.value, gpu.last_xid.value) == (UUIDS[0], 0.87, 333.25, 0)
    assert gpu.memory_total_bytes.value == 81_559 * MIB
    nvml.load(MIG)
    found, _ = gpus_by_node(scraped(text(), {}), index, QualityLimits(), NOW)
    assert [one.utilization_ratio.fault for one in found[NODE]] == [MIG_FAULT, None]


def test_where_dcgm_serves_only_what_it_lacks_is_left(nvml: FakeNvml) -> None:
    served = samples(text(figures=False))
    assert not [name for name in served if name.startswith("DCGM")]
    assert served["hyperscale_gpu_path"][0] == (
        {"node": NODE, "gpu": "0", "peer": "1", "kind": "NVLink", "uuid": UUIDS[0], "peer_uuid": UUIDS[1]},
        4,
    )
    assert served["hyperscale_agent_state"] == [({"node": NODE, "state": "Ready"}, 1)]


def test_values_and_labels_are_escaped_as_prometheus_wants() -> None:
    family = Family(
        "a_metric", "gauge", "one\nline \\", (ExpositionLine({"quote": 'a"b\\c\nd', "empty": ""}, 0.1), ExpositionLine({}, float("nan")))
    )
    written = render([family, Family("b_metric", "gauge", "has no samples", ())])
    assert written == '# HELP a_metric one\\nline \\\\\n# TYPE a_metric gauge\na_metric{quote="a\\"b\\\\c\\nd"} 0.1\na_metric NaN\n'
    assert samples(written)["a_metric"][0] == ({"quote": 'a"b\\c\nd'}, 0.1)


@pytest.mark.parametrize(
    ("value", "written"),
    [(3.0, "3"), (0.1, "0.1"), (float("inf"), "+Inf"), (float("-inf"), "-Inf"), (1e300, None), (2.0**53, "9007199254740992")],
)
def test_numbers_come_back_as_they_were(value: float, written: str | None) -> None:
    assert float(number(value)) == value
    assert written is None or number(value) == written
