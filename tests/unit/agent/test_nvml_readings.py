from __future__ import annotations

import pynvml
import pytest

from hyperscale.agent.gpus.gpu_figures import FIGURES, PCIE_REPLAYS
from hyperscale.agent.gpus.gpu_reading import GpuPath, Reading
from hyperscale.agent.gpus.nvml import Nvml
from hyperscale.agent.state import DriverCondition
from tests.unit.agent.fakenvml import MIB, UUIDS, FakeNvml

EXPECTED = {
    "DCGM_FI_DEV_SM_CLOCK": 1980,
    "DCGM_FI_DEV_MEM_CLOCK": 2619,
    "DCGM_FI_DEV_MEMORY_TEMP": 52,
    "DCGM_FI_DEV_GPU_TEMP": 41,
    "DCGM_FI_DEV_POWER_USAGE": 333.25,
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": 123_456_789_012,
    PCIE_REPLAYS: 3,
    "DCGM_FI_DEV_GPU_UTIL": 87,
    "DCGM_FI_DEV_MEM_COPY_UTIL": 21,
    "DCGM_FI_DEV_XID_ERRORS": 0,
    "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": 4,
    "DCGM_FI_DEV_FB_FREE": 50_000,
    "DCGM_FI_DEV_FB_USED": 31_049,
    "DCGM_FI_DEV_FB_RESERVED": 510,
    "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": 5,
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": 0,
    "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL": 17,
    "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL": 1,
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": 1,
    "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": 2,
    "DCGM_FI_DEV_ROW_REMAP_PENDING": 1,
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": 0,
    "DCGM_FI_PROF_PCIE_TX_BYTES": 1_500_000,
    "DCGM_FI_PROF_PCIE_RX_BYTES": 2_500_000,
}
NVLINK = {
    "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL": 1.5,
    "DCGM_FI_PROF_NVLINK_TX_BYTES": 1_024_000 * 0.5,
    "DCGM_FI_PROF_NVLINK_RX_BYTES": 1_024_000,
}

LINES_OF = {
    "clock.sm": ("DCGM_FI_DEV_SM_CLOCK",),
    "clock.mem": ("DCGM_FI_DEV_MEM_CLOCK",),
    "field.82": ("DCGM_FI_DEV_MEMORY_TEMP",),
    "temperature": ("DCGM_FI_DEV_GPU_TEMP",),
    "power_mw": ("DCGM_FI_DEV_POWER_USAGE",),
    "energy_mj": ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",),
    "pcie.replay": (PCIE_REPLAYS,),
    "pcie.tx_kb": ("DCGM_FI_PROF_PCIE_TX_BYTES",),
    "pcie.rx_kb": ("DCGM_FI_PROF_PCIE_RX_BYTES",),
    "reasons": ("DCGM_FI_DEV_CLOCKS_EVENT_REASONS",),
    "utilization.gpu": ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_MEM_COPY_UTIL"),
    "memory.used": ("DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_RESERVED"),
    "ecc.sbe.vol": ("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL",),
    "ecc.dbe.vol": ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",),
    "ecc.sbe.agg": ("DCGM_FI_DEV_ECC_SBE_AGG_TOTAL",),
    "ecc.dbe.agg": ("DCGM_FI_DEV_ECC_DBE_AGG_TOTAL",),
    "rows.failed": tuple(name for name in FIGURES if "REMAP" in name),
    "events": ("DCGM_FI_DEV_XID_ERRORS",),
}
UNSIGNED_32, UNSIGNED_64 = 2**32 - 1, 2**64 - 1


def read(now: float = 100.0) -> Reading:
    reader = Nvml()
    reading = reader.read(now)
    reader.close()
    return reading


def test_every_reading_of_a_gpu_has_dcgms_name_and_unit(nvml: FakeNvml) -> None:
    reading = read()
    assert reading.state.condition is DriverCondition.READY
    assert reading.driver == "570.86.10"
    assert [(gpu.index, gpu.uuid, gpu.device, gpu.pci_bus_id, gpu.model) for gpu in reading.gpus] == [
        (0, UUIDS[0], "nvidia0", "00000000:1B:00.0", "NVIDIA H100 80GB HBM3"),
        (1, UUIDS[1], "nvidia1", "00000000:43:00.0", "NVIDIA H100 80GB HBM3"),
    ]
    assert reading.gpus[0].figures == EXPECTED
    assert reading.gpus[1].figures["DCGM_FI_DEV_GPU_UTIL"] == 88
    assert not reading.errors


def test_nvlink_traffic_is_the_growth_between_two_readings(nvml: FakeNvml) -> None:
    reader = Nvml()
    reader.read(100.0)
    nvml.load({"gpu0.field.138": 1_000_000 + 500 * 10, "gpu0.field.139": 2_000_000 + 1000 * 10})
    figures = reader.read(110.0).gpus[0].figures
    assert {name: figures[name] for name in NVLINK} == NVLINK
    assert set(EXPECTED) | set(NVLINK) == set(FIGURES)
    nvml.load({"gpu0.field.138": 5})
    assert "DCGM_FI_PROF_NVLINK_TX_BYTES" not in reader.read(120.0).gpus[0].figures


@pytest.mark.parametrize("line", LINES_OF)
def test_what_the_gpu_does_not_support_is_absent_and_nothing_else(nvml: FakeNvml, line: str) -> None:
    nvml.load(without=(f"gpu0.{line}",))
    reading = read()
    assert reading.gpus[0].figures == {name: value for name, value in EXPECTED.items() if name not in LINES_OF[line]}
    assert reading.gpus[1].figures.keys() == EXPECTED.keys()
    assert reading.state.condition is DriverCondition.READY
    assert not reading.errors


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("clock.sm", UNSIGNED_32),
        ("power_mw", UNSIGNED_32),
        ("pcie.replay", UNSIGNED_32),
        ("pcie.tx_kb", UNSIGNED_32),
        ("energy_mj", UNSIGNED_64),
        ("ecc.sbe.vol", UNSIGNED_64),
        ("temperature", 255),
        ("temperature", -1),
        ("field.82", 2**62),
        ("power_mw", 99_000_000),
    ],
)
def test_not_available_and_nonsense_are_absent_never_zero(nvml: FakeNvml, line: str, value: int) -> None:
    nvml.load({f"gpu0.{line}": value})
    assert not set(LINES_OF[line]) & set(read().gpus[0].figures)


def test_a_utilization_above_a_hundred_is_absent(nvml: FakeNvml) -> None:
    nvml.load({"gpu0.utilization.gpu": 101})
    assert "DCGM_FI_DEV_GPU_UTIL" not in read().gpus[0].figures


def test_a_field_of_a_type_that_is_not_known_is_absent(nvml: FakeNvml) -> None:
    nvml.load({"gpu0.field.82.type": 77})
    assert "DCGM_FI_DEV_MEMORY_TEMP" not in read().gpus[0].figures


@pytest.mark.parametrize(("kind", "shown"), [(0, 0.0), (1, 52.0), (2, 52.0), (3, 52.0), (4, 52.0), (5, 52.0), (6, 52.0)])
def test_a_field_of_every_type_of_nvmls_is_understood(nvml: FakeNvml, kind: int, shown: float) -> None:
    nvml.load({"gpu0.field.82.type": kind})
    assert read().gpus[0].figures["DCGM_FI_DEV_MEMORY_TEMP"] == pytest.approx(shown)


def test_memory_that_does_not_add_up_is_absent(nvml: FakeNvml) -> None:
    nvml.load({"gpu0.memory.used": 90_000 * MIB})
    assert not {name for name in read().gpus[0].figures if "_FB_" in name}


@pytest.mark.parametrize(
    ("function", "changed"),
    [
        (
            "nvmlDeviceGetMemoryInfo_v2",
            {"DCGM_FI_DEV_FB_USED": 31_049 + 510, "DCGM_FI_DEV_FB_FREE": 50_000, "DCGM_FI_DEV_FB_RESERVED": None},
        ),
        ("nvmlDeviceGetTemperatureV", {"DCGM_FI_DEV_GPU_TEMP": 41}),
        ("nvmlDeviceGetCurrentClocksEventReasons", {"DCGM_FI_DEV_CLOCKS_EVENT_REASONS": 4}),
    ],
)
def test_older_drivers_answer_by_the_older_calls(nvml: FakeNvml, function: str, changed: dict[str, float | None]) -> None:
    nvml.load({f"error.{function}": pynvml.NVML_ERROR_FUNCTION_NOT_FOUND})
    figures = read().gpus[0].figures
    assert {name: figures.get(name) for name in changed} == changed


def test_the_last_xid_stays_known_and_belongs_to_its_gpu(nvml: FakeNvml) -> None:
    reader = Nvml()
    reader.read(100.0)
    nvml.xid(1, 63)
    nvml.xid(1, 79)
    assert [gpu.figures["DCGM_FI_DEV_XID_ERRORS"] for gpu in reader.read(110.0).gpus] == [0, 79]
    reader.close()
    assert [gpu.figures["DCGM_FI_DEV_XID_ERRORS"] for gpu in reader.read(120.0).gpus] == [0, 79]
    reader.close()


@pytest.mark.parametrize(
    ("numbers", "served"), [((31, 43), 43), ((79, 45), 79), ((45, 79), 79), ((119, 154, 45, 13), 154), ((154, 119), 119)]
)
def test_a_harmless_xid_does_not_hide_one_that_asks_for_a_reset(nvml: FakeNvml, numbers: tuple[int, ...], served: int) -> None:
    reader = Nvml()
    reader.read(100.0)
    for at, number in enumerate(numbers):
        nvml.xid(1, number)
        if at % 2:
            reader.read(110.0 + at)
    assert [gpu.figures["DCGM_FI_DEV_XID_ERRORS"] for gpu in reader.read(120.0).gpus] == [0, served]
    reader.close()


def test_an_xid_stays_with_its_gpu_when_the_indices_move(nvml: FakeNvml) -> None:
    reader = Nvml()
    reader.read(100.0)
    nvml.xid(1, 79)
    reader.read(110.0)
    reader.close()
    nvml.load({"count": 1, "gpu0.uuid": UUIDS[1], "gpu0.bus": "0000:43:00.0"})
    moved = reader.read(120.0)
    reader.close()
    assert [(gpu.uuid, gpu.figures["DCGM_FI_DEV_XID_ERRORS"]) for gpu in moved.gpus] == [(UUIDS[1], 79)]


def test_without_figures_only_names_and_ways_are_asked_for(nvml: FakeNvml) -> None:
    reader = Nvml()
    reading = reader.read(100.0, figures=False)
    reader.close()
    assert [gpu.uuid for gpu in reading.gpus] == list(UUIDS)
    assert not any(gpu.figures for gpu in reading.gpus)
    assert reading.paths


def test_instances_of_mig_have_their_own_memory(nvml: FakeNvml) -> None:
    mig = {
        "gpu0.mig": 1,
        "gpu0.mig0.instance": 7,
        "gpu0.mig0.name": "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
        "gpu0.mig0.memory.total": 9728 * MIB,
        "gpu0.mig0.memory.free": 9000 * MIB,
        "gpu0.mig0.memory.used": 700 * MIB,
        "gpu0.mig2.instance": 1,
        "gpu0.mig2.name": "NVIDIA H100 80GB HBM3 MIG 1c.3g.40gb",
        "gpu0.mig3.instance": 1,
        "gpu0.mig3.name": "NVIDIA H100 80GB HBM3 MIG 2c.3g.40gb",
        "gpu0.mig4.instance": 9,
        "gpu0.mig4.name": "NVIDIA H100 80GB HBM3",
        "gpu0.mig4.slices": 2,
        "gpu0.mig4.memory_mb": 19968,
    }
    nvml.load(mig)
    reading = read()
    assert [(one.id, one.profile) for one in reading.gpus[0].instances] == [(1, "3g.40gb"), (7, "1g.10gb"), (9, "2g.20gb")]
    assert reading.gpus[0].instances[1].figures == {"DCGM_FI_DEV_FB_FREE": 9000, "DCGM_FI_DEV_FB_USED": 700, "DCGM_FI_DEV_FB_RESERVED": 0}
    assert reading.gpus[0].instances[0].figures == {}
    assert reading.gpus[1].instances == ()


def kinds(reading: Reading) -> list[tuple[int, int, str, int]]:
    return [(path.gpu, path.peer, path.kind, path.links) for path in reading.paths]


def test_nvlinks_between_gpus_are_counted(nvml: FakeNvml) -> None:
    nvml.load({"gpu0.link3": "down"})
    assert read().paths == (GpuPath(0, 1, "NVLink", 3), GpuPath(1, 0, "NVLink", 4))


def test_gpus_on_nvswitches_reach_each_other_with_the_links_of_the_one_that_has_fewer(nvml: FakeNvml) -> None:
    links = {f"gpu{gpu}.link{link}.to": "switch" for gpu in (0, 1) for link in range(4)}
    nvml.load(links | {"gpu1.link0": "down"})
    assert kinds(read()) == [(0, 1, "NVLink", 3), (1, 0, "NVLink", 3)]


@pytest.mark.parametrize(
    ("level", "kind"),
    [(0, "PcieSwitch"), (10, "PcieSwitch"), (20, "PcieBridge"), (30, "Socket"), (40, "Socket"), (50, "System"), (60, None)],
)
def test_gpus_without_nvlink_are_as_near_as_their_common_ancestor(nvml: FakeNvml, level: int, kind: str | None) -> None:
    nvml.load({"gpu0.common.1": level, "gpu1.common.0": 50}, without=("gpu0.link", "gpu1.link"))
    assert kinds(read()) == ([(0, 1, kind, 1)] if kind else []) + [(1, 0, "System", 1)]


@pytest.mark.parametrize(("status", "kind"), [(0, "NVLink"), (6, "PcieSwitch"), (None, "PcieSwitch")])
def test_links_that_lead_nobody_knows_where_count_when_peers_talk_over_nvlink(nvml: FakeNvml, status: int | None, kind: str) -> None:
    over_nvlink = {f"gpu{gpu}.p2p{pynvml.NVML_P2P_CAPS_INDEX_NVLINK}.{1 - gpu}": status for gpu in (0, 1) if status is not None}
    untold = {f"error.nvmlDeviceGetNvLink{part}": 3 for part in ("RemoteDeviceType", "RemotePciInfo_v2")}
    nvml.load(over_nvlink | untold | {"gpu0.link3": "down"})
    links = 3 if kind == "NVLink" else 1
    assert kinds(read()) == [(0, 1, kind, links), (1, 0, kind, links)]


def test_a_link_in_the_middle_that_is_not_supported_hides_no_other(nvml: FakeNvml) -> None:
    nvml.load(without=("gpu0.link1.to",))
    assert kinds(read())[0] == (0, 1, "NVLink", 3)


def test_nvlinks_to_a_processor_are_no_way_between_gpus(nvml: FakeNvml) -> None:
    nvml.load({f"gpu{gpu}.link{link}.to": "cpu" for gpu in (0, 1) for link in range(4)})
    assert {path.kind for path in read().paths} == {"PcieSwitch"}


def test_a_link_that_goes_down_is_seen_within_six_readings(nvml: FakeNvml) -> None:
    reader = Nvml()
    reader.read(100.0)
    nvml.load({"gpu0.link0": "down", "gpu1.link0": "down"})
    readings = [reader.read(110.0 + step) for step in range(6)]
    reader.close()
    assert kinds(readings[-1]) == [(0, 1, "NVLink", 3), (1, 0, "NVLink", 3)]
