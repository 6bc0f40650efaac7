from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from e2e.cluster.prometheus import CHECKER, PrometheusMissingError, executable
from hyperscale.agent.exposition import Family, Line, number, render
from hyperscale.agent.expositiongpus import families
from hyperscale.agent.figures import FIGURES
from hyperscale.agent.nvml import Nvml
from hyperscale.agent.state import Condition, State
from hyperscale.model.policy import QualityLimits
from hyperscale.observe.dcgm import MIG_FAULT, gpus_by_node
from hyperscale.observe.identity import NodeIndex
from tests.unit.agent import dcgmtexts
from tests.unit.agent.expositiontext import samples, scraped
from tests.unit.agent.fakenvml import MIB, UUIDS, FakeNvml
from tests.unit.observe.objects import NOW, raw_node

NODE = "gpu-a"
READY = State(Condition.READY)
MIG = {"gpu0.mig": 1, "gpu0.mig0.instance": 7, "gpu0.mig0.name": "NVIDIA H100 MIG 1g.10gb"} | {
    f"gpu0.mig0.memory.{name}": mib * MIB for name, mib in (("total", 9728), ("free", 9000), ("used", 700))
}


def text(*, figures: bool = True) -> str:
    reader = Nvml()
    reader.read(100.0)
    reading = reader.read(110.0)
    reader.close()
    return render(families(reading, NODE, reading.state, 0.25, figures=figures))


def remarks(checked: str) -> list[str]:
    """What promtool has to say of a text; fails where the text cannot be parsed."""
    try:
        promtool: Path = executable(CHECKER)
    except PrometheusMissingError as error:
        pytest.skip(str(error))
    finished = subprocess.run([str(promtool), "check", "metrics"], input=checked, capture_output=True, text=True, timeout=30, check=False)
    assert finished.returncode in {0, 3}, finished.stderr  # 1: not the format; 3: remarks on style only
    return finished.stderr.splitlines()


CAMEL_CASE = "label names should be written in 'snake_case' not 'camelCase'"  # modelName
NO_TOTAL = 'counter metrics should have "_total" suffix'  # it wants small letters
NAMED_COUNTER = "metric name should not include type 'counter'"
REPLAYS = "DCGM_FI_DEV_PCIE_REPLAY_COUNTER"
BANDWIDTH = "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL"


def expected(kinds: Mapping[str, str]) -> set[str]:
    """All that promtool can have against figures of these kinds under DCGM's names and labels."""
    counters = {f"{name} {NO_TOTAL}" for name, kind in kinds.items() if kind == "counter"}
    return {f"{name} {CAMEL_CASE}" for name in kinds} | counters | {f"{name} {NAMED_COUNTER}" for name in kinds if name == REPLAYS}


def test_promtool_reads_the_text_and_minds_only_what_dcgm_prescribes(nvml: FakeNvml) -> None:
    nvml.load(MIG)
    assert set(remarks(text())) == expected({name: figure.kind for name, figure in FIGURES.items()})


def test_promtool_minds_the_same_and_one_thing_more_in_the_exporters_own_text_of_these_figures(nvml: FakeNvml) -> None:
    theirs = set(remarks(dcgmtexts.of_declared(NODE)))
    ours = {line for line in remarks(text()) if line.split(" ", 1)[0] in dcgmtexts.DECLARED}
    assert theirs == expected(dcgmtexts.DECLARED)
    assert theirs - ours == {f"{BANDWIDTH} {NO_TOTAL}"}  # a rate, and no counter with us
    assert ours <= theirs


def test_promtool_has_nothing_against_our_own_metrics(nvml: FakeNvml) -> None:
    assert remarks(text(figures=False)) == []


@pytest.mark.parametrize("kind", ["counter", "gauge", "untyped"])
def test_no_type_contents_promtool_where_the_names_are_dcgms(kind: str) -> None:
    name = [Family(REPLAYS, kind, "Total number of PCIe retries.", (Line({"gpu": "0"}, 1),))]
    assert f"{REPLAYS} {NAMED_COUNTER}" in remarks(render(name))
    label = [Family("DCGM_FI_DEV_GPU_UTIL", kind, "GPU utilization (in %).", (Line({"modelName": "A100"}, 1),))]
    assert f"DCGM_FI_DEV_GPU_UTIL {CAMEL_CASE}" in remarks(render(label))


def test_figures_have_the_type_that_the_exporter_declares_but_for_the_rate_that_it_calls_a_counter() -> None:
    ours = {name: FIGURES[name].kind for name in dcgmtexts.DECLARED}
    assert ours == {**dcgmtexts.DECLARED, BANDWIDTH: "gauge"}


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
        'modelName="NVIDIA H100 80GB HBM3",Hostname="gpu-a",DCGM_FI_DRIVER_VERSION="570.86.10"} 87'
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
    family = Family("a_metric", "gauge", "one\nline \\", (Line({"quote": 'a"b\\c\nd', "empty": ""}, 0.1), Line({}, float("nan"))))
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
