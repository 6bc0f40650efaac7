from __future__ import annotations

import os
from pathlib import Path

import pytest

from hyperscale.agent.__main__ import main
from hyperscale.agent.agent_settings import AgentSettings, AgentSettingsError, from_environment, variable
from hyperscale.agent.gpus.exposition_gpus import families
from hyperscale.agent.gpus.gpu_figures import FIGURES
from hyperscale.agent.gpus.gpu_reading import GpuPath, GpuReading, Reading
from hyperscale.agent.state import AgentState, DriverCondition


def test_without_variables_the_defaults_hold() -> None:
    assert from_environment({}) == AgentSettings()
    assert from_environment({"HYPERSCALE_AGENT_METRICS_PORT": "", "NODE_NAME": ""}) == AgentSettings()


def test_every_field_has_a_variable() -> None:
    given = {
        "NODE_NAME": "gpu-a",
        "POD_NAMESPACE": "hyperscale-system",
        "POD_IP": "10.0.0.7",
        "HYPERSCALE_AGENT_METRICS_PORT": "1",
        "HYPERSCALE_AGENT_PROBE_PORT": "2",
        "HYPERSCALE_AGENT_GPU": "Always",
        "HYPERSCALE_AGENT_DCGM_URL": "http://[fd00::7]:9400/metrics",
        "HYPERSCALE_AGENT_INTERVAL_SECONDS": "2.5",
        "HYPERSCALE_AGENT_NVML_DEADLINE_SECONDS": "1",
        "HYPERSCALE_AGENT_RETRY_SECONDS": "60",
    }
    expected = AgentSettings("gpu-a", "hyperscale-system", "10.0.0.7", 1, 2, "Always", "http://[fd00::7]:9400/metrics", 2.5, 1.0, 60.0)
    assert from_environment(given) == expected
    assert len(given) == len(AgentSettings.__struct_fields__)


BAD = [
    ("HYPERSCALE_AGENT_METRICS_PORT", "ninety", "write e.g. 9465"),
    ("HYPERSCALE_AGENT_METRICS_PORT", "70000", "write e.g. 9465"),
    ("HYPERSCALE_AGENT_PROBE_PORT", "0", "write e.g. 9466"),
    ("HYPERSCALE_AGENT_GPU", "maybe", "write e.g. Auto"),
    ("HYPERSCALE_AGENT_INTERVAL_SECONDS", "0", "write e.g. 10.0"),
    ("HYPERSCALE_AGENT_INTERVAL_SECONDS", "nan", "write e.g. 10.0"),
    ("HYPERSCALE_AGENT_NVML_DEADLINE_SECONDS", "-1", "write e.g. 5.0"),
    ("HYPERSCALE_AGENT_RETRY_SECONDS", "1e9", "write e.g. 30.0"),
    ("HYPERSCALE_AGENT_DCGM_URL", "file:///etc/passwd", "write e.g. http://10.0.0.7:9400/metrics"),
    ("HYPERSCALE_AGENT_DCGM_URL", "http://host:port/", "write e.g. http://10.0.0.7:9400/metrics"),
    ("NODE_NAME", "n" * 254, "write e.g. node-a"),
]


@pytest.mark.parametrize(("variable", "value", "hint"), BAD)
def test_a_bad_value_is_one_line_that_says_what_to_write(variable: str, value: str, hint: str) -> None:
    with pytest.raises(AgentSettingsError) as caught:
        from_environment({variable: value})
    message = str(caught.value)
    assert message.startswith(f"{variable}: ")
    assert message.endswith(hint)
    assert "\n" not in message


BAD_AT_THE_DOOR = [
    ("HYPERSCALE_AGENT_GPU", "maybe"),
    ("HYPERSCALE_AGENT_LINKS", "maybe"),
    ("HYPERSCALE_AGENT_PEERS", "nonsense"),
    ("HYPERSCALE_AGENT_PEERS", "a=h o:9466"),
    ("HYPERSCALE_AGENT_PEERS", f"{'a' * 254}=host:9466"),
    ("HYPERSCALE_AGENT_LINK_ADDRESS", "nonsense"),
    ("HYPERSCALE_AGENT_LINK_ADDRESS", "224.0.0.1"),
    ("POD_IP", "10.0.0.256"),
    ("POD_NAMESPACE", "Two words"),
    ("HYPERSCALE_AGENT_SERVICE", "a b/c"),
    ("HYPERSCALE_AGENT_GROUP_LABELS", "topology.kubernetes.io/zone,not a label"),
    ("HYPERSCALE_AGENT_BUDGET_BYTES_PER_SECOND", "inf"),
    ("HYPERSCALE_AGENT_KEEP_SECONDS", "nan"),
    ("HYPERSCALE_AGENT_TRAINING_URLS", "file:///etc/passwd"),
    ("HYPERSCALE_AGENT_PROBE_PORT", "9465"),
    ("NODE_NAME", ""),
    ("NODE_NAME", "two words"),
]


@pytest.mark.parametrize(("variable", "value"), BAD_AT_THE_DOOR)
def test_the_process_ends_with_2_and_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], variable: str, value: str
) -> None:
    monkeypatch.setattr(os, "environ", {"NODE_NAME": "gpu-a", "HYPERSCALE_AGENT_PEERS": "gpu-b=10.0.0.8:9466", variable: value})
    assert main([]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"{variable}: ")
    assert "write" in said or "set" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    "given", [{}, {"KUBERNETES_SERVICE_HOST": "10.96.0.1"}, {"POD_NAMESPACE": "hyperscale-system"}, {"HYPERSCALE_AGENT_PEERS": " , "}]
)
def test_links_without_a_cluster_or_a_list_of_peers_end_with_2_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], given: dict[str, str]
) -> None:
    monkeypatch.setattr(os, "environ", {"NODE_NAME": "gpu-a", "HYPERSCALE_AGENT_GPU": "Never", **given})
    assert main([]) == 2
    said = capsys.readouterr().err
    assert said.startswith("HYPERSCALE_AGENT_PEERS: ")
    assert "HYPERSCALE_AGENT_LINKS=off" in said


def test_by_hand_links_need_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(os, "environ", {"HYPERSCALE_AGENT_GPU": "Never"})
    monkeypatch.setattr("hyperscale.agent.__main__.configure_logging", lambda _: None)  # of the whole process, with all its tests
    assert main(["--once"]) == 0
    assert 'state="Off"' in capsys.readouterr().out


@pytest.fixture(scope="module")
def page() -> str:
    """What users read about the agent."""
    docs = Path(__file__).resolve().parents[3] / "docs"
    return (docs / "explanation/agent.md").read_text() + (docs / "reference/settings.md").read_text()


def test_the_page_about_the_agent_names_every_setting(page: str) -> None:
    settings = set(AgentSettings.__struct_fields__) - {"probe_port"}
    assert {field for field in settings if variable(field) not in page} == set()


def test_the_page_about_the_agent_names_every_state_of_a_driver(page: str) -> None:
    assert [condition.value for condition in DriverCondition if f"`{condition.value}`" not in page] == []


def test_the_page_about_the_agent_names_every_metric(page: str) -> None:
    reading = Reading(
        0.0, gpus=(GpuReading(0, AgentState(DriverCondition.READY)),), paths=(GpuPath(0, 1, "NVLink", 4),), errors={"NVML_ERROR_UNKNOWN": 1}
    )
    served = [family.name for family in families(reading, "gpu-a", reading.state, 0.1) if family.lines]
    assert [name for name in served if name not in page] == []


def test_the_page_about_the_agent_names_every_figure_of_a_gpu(page: str) -> None:
    assert [name for name in FIGURES if not all(part in page for part in name.removeprefix("DCGM_FI_").split("_")[1:])] == []
