"""What an agent serves of GPUs that it cannot read, and what the doctor makes of that: from NVML's error to the fix."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import pynvml
import pytest

from hyperscale.agent.exposition import render
from hyperscale.agent.gpus.exposition_gpus import families
from hyperscale.agent.gpus.gpu_reading import GpuReading, Reading
from hyperscale.agent.gpus.nvml import Nvml
from hyperscale.agent.state import FIXES, AgentState, DriverCondition
from hyperscale.cli.doctor.doctor_metrics import QueryAsked
from hyperscale.doctor.checks.driver import UNREAD
from hyperscale.doctor.diagnose import diagnose
from hyperscale.doctor.faults import Fault
from hyperscale.doctor.faults import FindingState as Level
from hyperscale.doctor.findings import Finding
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.metrics_reading import Series
from hyperscale.observe.identity import NodeIndex
from hyperscale.observe.prometheus.reader import QueryError
from tests.unit.agent.expositiontext import samples
from tests.unit.agent.fakenvml import FakeNvml, played
from tests.unit.doctor.doctor_facts import facts, metrics

GOOD = {DriverCondition.STARTING, DriverCondition.READY, DriverCondition.LEFT_TO_DCGM, DriverCondition.OFF}
SELECTOR = re.compile(r'^(\w+)\{(\w+)(!~|!=)"([^"]*)"\} == 1$')
ERRORS = {
    "GPULost": ({"error.nvmlDeviceGetUUID": pynvml.NVML_ERROR_GPU_IS_LOST}, "drain the node and reset or replace"),
    "ResetRequired": ({"error.nvmlDeviceGetMemoryInfo_v2": pynvml.NVML_ERROR_RESET_REQUIRED}, "nvidia-smi --gpu-reset"),
    "NoPermission": ({"error.nvmlDeviceGetHandleByIndex_v2": pynvml.NVML_ERROR_NO_PERMISSION}, "/dev/nvidiactl"),
    "VersionMismatch": ({"error.nvmlInitWithFlags": pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH}, "restart the agent's pod"),
    "NoDriver": ({"error.nvmlInitWithFlags": pynvml.NVML_ERROR_DRIVER_NOT_LOADED}, "load it"),
    "NoLibrary": ({"error.nvmlInitWithFlags": pynvml.NVML_ERROR_LIBRARY_NOT_FOUND}, "runtimeClassName"),
    "NoGPU": ({"error.nvmlDeviceGetCount_v2": pynvml.NVML_ERROR_NOT_FOUND}, "agent.nodeSelector"),
    "Unreadable": ({"error.nvmlInitWithFlags": pynvml.NVML_ERROR_UNKNOWN}, "the agent's log"),
}


@pytest.fixture
def nvml() -> Iterator[FakeNvml]:
    """pynvml in this process, on a library that the test steers."""
    with played() as fake:
        yield fake


def found(texts: Mapping[str, str]) -> list[Finding]:
    """Findings on the texts of agents, read with the doctor's own queries by what stands in for Prometheus."""
    stored = [(name, labels, value) for text in texts.values() for name, rows in samples(text).items() for labels, value in rows]

    def ask(query: str) -> list[Series]:
        if query == "vector(time())":
            return [Series({}, 1000.0, 1000.0)]
        matched = SELECTOR.match(query)
        if matched is None:
            raise QueryError("PrometheusRefused", "not asked here")
        metric, label, operator, pattern = matched.groups()
        shut = re.compile(pattern if operator == "!~" else re.escape(pattern))
        return [
            Series({"__name__": name, **labels}, value, 1000.0)
            for name, labels, value in stored
            if name == metric and value == 1 and not shut.fullmatch(labels.get(label, ""))
        ]

    asked = QueryAsked(ask, PolicySpec(), NodeIndex([]), frozenset(), lambda _: None).metrics("http://p:9090", "directly")
    told = facts(metrics=metrics(agent_states=asked.agent_states, gpu_states=asked.gpu_states))
    return [one for one in diagnose(told, "https://c").findings if one.fault is Fault.AGENT_READS_NO_GPU]


def text(reading: Reading, node: str) -> str:
    return render(families(reading, node, reading.state, 0.1))


def read(node: str) -> str:
    reader = Nvml()
    reader.read(100.0)
    reading = reader.read(110.0)
    reader.close()
    return text(reading, node)


def test_every_state_of_an_agent_is_good_or_has_a_cause_and_a_fix() -> None:
    assert {condition.value for condition in DriverCondition} - {one.value for one in GOOD} == set(UNREAD)
    assert {one.value for one in FIXES} == set(UNREAD)


@pytest.mark.parametrize("state", sorted(ERRORS))
def test_an_error_of_nvml_ends_in_a_finding_that_names_node_and_fix(nvml: FakeNvml, state: str) -> None:
    lines, fix = ERRORS[state]
    nvml.load(lines)
    broken = read("gpu-2")
    nvml.load()
    (one,) = found({"gpu-1": read("gpu-1"), "gpu-2": broken})
    assert f"cannot read GPUs of the node: {state}: gpu-2" in one.message
    assert one.where == ("gpu-2",)
    assert fix in one.fix
    assert one.state is (Level.INFO if state in ("NoLibrary", "NoGPU") else Level.WARNING)


def test_a_stalled_driver_is_found() -> None:
    (one,) = found({"gpu-1": text(Reading(0.0, AgentState(DriverCondition.STALLED, "nvmlInit has not returned for 9 s")), "gpu-1")})
    assert "Stalled: gpu-1" in one.message
    assert "reboot" in one.fix


@pytest.mark.parametrize("condition", [one for one in DriverCondition if one in GOOD])
def test_agents_that_are_well_or_left_out_are_no_finding(condition: DriverCondition) -> None:
    assert found({"gpu-1": text(Reading(0.0, AgentState(condition)), "gpu-1")}) == []


def test_each_gpu_that_is_lost_is_named_and_what_ails_its_neighbour_is_not_hidden() -> None:
    states = [DriverCondition.GPU_LOST, DriverCondition.READY, DriverCondition.RESET_REQUIRED, *[DriverCondition.GPU_LOST] * 9]
    gpus = tuple(GpuReading(index, AgentState(condition)) for index, condition in enumerate(states))
    first, second = found({"gpu-1": text(Reading(0.0, AgentState(DriverCondition.GPU_LOST), gpus=gpus), "gpu-1")})
    assert first.message.endswith("GPULost: gpu-1 (GPU 0 3 4 5 6 7 8 9 10 11)")
    assert second.message.endswith("ResetRequired: gpu-1 (GPU 2)")
    assert "reset" in second.fix


def test_a_state_of_a_later_agent_is_told_and_not_passed_over() -> None:
    (one,) = found({"gpu-1": 'hyperscale_agent_state{node="gpu-1",state="Melting"} 1\n'})
    assert "Melting: gpu-1" in one.message
    assert one.state is Level.WARNING
    assert one.fix
