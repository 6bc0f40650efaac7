from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pynvml
import pytest

from hyperscale.agent.gpus.gpu_reading import Reading
from hyperscale.agent.gpus.nvml import CODE_NAMES, Nvml
from hyperscale.agent.gpus.nvml_calls import Reach, reach
from hyperscale.agent.state import FIXES, DriverCondition
from tests.unit.agent.fakenvml import FakeNvml

UNHEARD_OF = 77
CODES = [*sorted(CODE_NAMES), UNHEARD_OF]
FUNCTIONS = sorted(set(re.findall(r"^int (nvml\w+)\(", (Path(__file__).with_name("fake_nvml.c")).read_text(), re.MULTILINE)))
OPENING = {"nvmlInitWithFlags", "nvmlSystemGetDriverVersion", "nvmlDeviceGetCount_v2"}
NAMING = {"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetUUID", "nvmlDeviceGetPciInfo_v3"}
CLOSING = {"nvmlEventSetFree", "nvmlShutdown"}
LIBRARY = {
    pynvml.NVML_ERROR_UNINITIALIZED: DriverCondition.UNREADABLE,
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: DriverCondition.NO_DRIVER,
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: DriverCondition.NO_LIBRARY,
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: DriverCondition.VERSION_MISMATCH,
}
AT_ONCE = LIBRARY | {
    pynvml.NVML_ERROR_NO_PERMISSION: DriverCondition.NO_PERMISSION,
    pynvml.NVML_ERROR_GPU_IS_LOST: DriverCondition.GPU_LOST,
    pynvml.NVML_ERROR_RESET_REQUIRED: DriverCondition.RESET_REQUIRED,
}
NO_GPU = {pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_ERROR_GPU_NOT_FOUND}


def read_twice() -> Reading:
    """Two readings, so that calls which only a second one makes are made."""
    reader = Nvml()
    reader.read(100.0)
    reading = reader.read(110.0)
    reader.close()
    return reading


def test_pynvml_knows_the_thirty_one_codes_that_were_thought_of() -> None:
    assert len(CODE_NAMES) == 31, "pynvml has a new error code: say in nvmlcalls how far it reaches"
    assert len(FUNCTIONS) > 30


@pytest.mark.parametrize("code", CODES)
def test_opening_nvml_ends_in_a_named_state(nvml: FakeNvml, code: int) -> None:
    for function in OPENING:
        nvml.load({f"error.{function}": code})
        reading = read_twice()
        expected = DriverCondition.NO_GPU if code in NO_GPU else AT_ONCE.get(code, DriverCondition.UNREADABLE)
        assert reading.state.condition is expected, function
        assert reading.state.message
        assert "\n" not in reading.state.line
        assert reading.gpus == ()
        assert reading.paths == ()


def readings_with(nvml: FakeNvml, code: int) -> Iterator[tuple[str, Reading]]:
    """Each call that reads a figure or a state, and the reading of two GPUs when it fails with the code for the first."""
    for function in sorted(set(FUNCTIONS) - OPENING - NAMING - CLOSING - {"nvmlEventSetWait_v2"}):
        nvml.load({f"gpu0.error.{function}": code})
        yield function, read_twice()


def is_of_the_library(code: int, reading: Reading) -> bool:
    """Whether the code says that NVML itself fails, and the call was one in which the reader believes it."""
    return code in LIBRARY and reading.state.condition is not DriverCondition.READY


@pytest.mark.parametrize("code", CODES)
def test_an_error_of_the_library_in_any_call_is_its_state_and_leaves_no_gpu(nvml: FakeNvml, code: int) -> None:
    for function, reading in readings_with(nvml, code):
        if is_of_the_library(code, reading):
            assert reading.state.condition is LIBRARY[code], function
            assert reading.gpus == ()


@pytest.mark.parametrize("code", CODES)
def test_any_other_error_of_any_call_costs_the_other_gpu_nothing(nvml: FakeNvml, code: int) -> None:
    for function, reading in readings_with(nvml, code):
        if not is_of_the_library(code, reading):
            assert reading.gpus[1].state.condition is DriverCondition.READY, function
            assert reading.gpus[1].figures.keys() >= {"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED"}


@pytest.mark.parametrize("code", CODES)
def test_any_other_error_of_any_call_costs_its_gpu_a_figure_or_all_where_the_gpu_is_lost(nvml: FakeNvml, code: int) -> None:
    for function, reading in readings_with(nvml, code):
        if is_of_the_library(code, reading):
            continue
        if reading.gpus[0].state.condition is DriverCondition.READY:
            assert len(reading.gpus[0].figures) > 15, function
        else:
            assert reach(pynvml.NVMLError(code)) is Reach.GPU
            assert reading.gpus[0].figures == {}
            assert reading.gpus[0].state.condition in {DriverCondition.GPU_LOST, DriverCondition.RESET_REQUIRED}
            assert reading.state == reading.gpus[0].state


@pytest.mark.parametrize("code", CODES)
def test_a_gpu_that_cannot_be_named_is_gone_and_says_why(nvml: FakeNvml, code: int) -> None:
    for function in sorted(NAMING):
        nvml.load({f"gpu0.error.{function}": code})
        reading = read_twice()
        if code in LIBRARY:
            assert reading.state.condition is LIBRARY[code]
            continue
        lost = DriverCondition.GPU_LOST if code == pynvml.NVML_ERROR_GPU_NOT_FOUND else AT_ONCE.get(code, DriverCondition.UNREADABLE)
        assert reading.gpus[0].state.condition is lost, function
        assert reading.gpus[0].figures == {}
        assert reading.gpus[1].figures
        assert reading.state.condition is lost
        assert function.removesuffix("_v2").removesuffix("_v3") in reading.state.message


@pytest.mark.parametrize("code", [code for code in CODES if code not in LIBRARY and code != pynvml.NVML_ERROR_TIMEOUT])
def test_events_that_fail_cost_no_figure_but_the_xid(nvml: FakeNvml, code: int) -> None:
    for function in ("nvmlEventSetCreate", "nvmlEventSetWait_v2"):
        nvml.load({f"error.{function}": code})
        reading = read_twice()
        assert reading.state.condition is DriverCondition.READY, function
        assert {"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_POWER_USAGE"} <= reading.gpus[0].figures.keys()
    nvml.load({"error.nvmlEventSetCreate": code})
    assert "DCGM_FI_DEV_XID_ERRORS" not in read_twice().gpus[0].figures


@pytest.mark.parametrize("code", CODES)
def test_letting_go_of_nvml_never_fails(nvml: FakeNvml, code: int) -> None:
    for function in sorted(CLOSING):
        nvml.load({f"error.{function}": code})
        assert read_twice().state.condition is DriverCondition.READY


@pytest.mark.parametrize("code", CODES)
def test_a_field_with_an_error_of_its_own_is_absent(nvml: FakeNvml, code: int) -> None:
    nvml.load({"gpu0.field.82.error": code, "gpu0.field.138.error": code})
    figures = read_twice().gpus[0].figures
    assert not {"DCGM_FI_DEV_MEMORY_TEMP", "DCGM_FI_PROF_NVLINK_TX_BYTES", "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL"} & figures.keys()
    assert figures["DCGM_FI_PROF_NVLINK_RX_BYTES"] == 0


def test_what_is_not_normal_is_counted_by_code_and_what_is_only_missing_is_not(nvml: FakeNvml) -> None:
    nvml.load({"gpu0.error.nvmlDeviceGetPowerUsage": pynvml.NVML_ERROR_UNKNOWN, "gpu1.error.nvmlDeviceGetClockInfo": UNHEARD_OF})
    assert read_twice().errors == {"NVML_ERROR_UNKNOWN": 2, f"NVML_ERROR_{UNHEARD_OF}": 4}
    nvml.load({"gpu0.error.nvmlDeviceGetPowerUsage": pynvml.NVML_ERROR_NOT_SUPPORTED})
    assert read_twice().errors == {}


def test_a_driver_that_comes_later_is_found(nvml: FakeNvml) -> None:
    nvml.load({"error.nvmlInitWithFlags": pynvml.NVML_ERROR_DRIVER_NOT_LOADED})
    reader = Nvml()
    assert reader.read(100.0).state.condition is DriverCondition.NO_DRIVER
    nvml.load()
    assert reader.read(130.0).state.condition is DriverCondition.READY
    reader.close()


def test_a_driver_that_goes_takes_every_series_along_until_it_is_back(nvml: FakeNvml) -> None:
    reader = Nvml()
    assert reader.read(100.0).gpus
    nvml.load({"gpu1.error.nvmlDeviceGetPowerUsage": pynvml.NVML_ERROR_UNINITIALIZED})
    assert reader.read(110.0).gpus == ()
    nvml.load()
    assert len(reader.read(120.0).gpus) == 2
    reader.close()


def test_no_gpu_is_a_state(nvml: FakeNvml) -> None:
    nvml.load({"count": 0})
    assert read_twice().state.condition is DriverCondition.NO_GPU


def test_a_lost_gpu_that_is_reset_comes_back(nvml: FakeNvml) -> None:
    reader = Nvml()
    reader.read(100.0)
    nvml.load({"gpu1.error.nvmlDeviceGetUUID": pynvml.NVML_ERROR_GPU_IS_LOST})
    lost = reader.read(110.0)
    assert (lost.state.condition, [bool(gpu.figures) for gpu in lost.gpus], lost.paths) == (DriverCondition.GPU_LOST, [True, False], ())
    nvml.load()
    assert reader.read(120.0).state.condition is DriverCondition.READY
    reader.close()


def test_a_name_that_is_no_text_is_a_gpu_that_cannot_be_read(nvml: FakeNvml) -> None:
    nvml.load_bytes(b"gpu0.uuid \xff\xfe\xfd\n")
    reading = read_twice()
    assert [gpu.state.condition for gpu in reading.gpus] == [DriverCondition.UNREADABLE, DriverCondition.READY]


def test_every_state_that_a_person_must_mend_says_how() -> None:
    expected = set(DriverCondition) - {DriverCondition.STARTING, DriverCondition.READY, DriverCondition.LEFT_TO_DCGM, DriverCondition.OFF}
    assert set(FIXES) == expected
