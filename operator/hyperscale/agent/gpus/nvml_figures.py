"""The NVML call behind each figure of a GPU; a figure that NVML cannot give is not in the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import pynvml

from hyperscale.agent.gpus.gpu_figures import NVLINK_RX_KIB, NVLINK_TX_KIB, PCIE_REPLAYS
from hyperscale.agent.gpus.nvml_calls import Call, field_number

MIB: Final = 2**20
_ALL_LINKS: Final = 2**32 - 1
"""Scope of a field that sums over all NVLinks."""
_NOT_AVAILABLE: Final = frozenset({2**32 - 1, 2**64 - 1})
"""NVML_VALUE_NOT_AVAILABLE (-1) as unsigned numbers of 32 and 64 bits."""


def _utilization(call: Call, handle: Any) -> dict[str, float]:  # noqa: ANN401 - an NVML handle
    rates = call("nvmlDeviceGetUtilizationRates", handle)
    return {"DCGM_FI_DEV_GPU_UTIL": rates.gpu, "DCGM_FI_DEV_MEM_COPY_UTIL": rates.memory}


def memory(call: Call, handle: Any) -> dict[str, float]:  # noqa: ANN401 - an NVML handle
    """Framebuffer of a GPU or a MIG device; drivers without the second version of the call count reserved memory as used."""
    try:
        info = call("nvmlDeviceGetMemoryInfo", handle, pynvml.nvmlMemory_v2)
        reserved = {"DCGM_FI_DEV_FB_RESERVED": info.reserved / MIB}
    except (pynvml.NVMLError_FunctionNotFound, pynvml.NVMLError_ArgumentVersionMismatch):
        info, reserved = call("nvmlDeviceGetMemoryInfo", handle), {}
    if info.used > info.total or info.free > info.total:
        return {}
    return {"DCGM_FI_DEV_FB_USED": info.used / MIB, "DCGM_FI_DEV_FB_FREE": info.free / MIB, **reserved}


def _temperature(call: Call, handle: Any) -> dict[str, float]:  # noqa: ANN401 - an NVML handle
    try:
        celsius = call("nvmlDeviceGetTemperatureV", handle, pynvml.NVML_TEMPERATURE_GPU)
    except (pynvml.NVMLError_FunctionNotFound, pynvml.NVMLError_ArgumentVersionMismatch):
        celsius = call("nvmlDeviceGetTemperature", handle, pynvml.NVML_TEMPERATURE_GPU)
    return {"DCGM_FI_DEV_GPU_TEMP": celsius}


def _power(call: Call, handle: Any) -> dict[str, float]:  # noqa: ANN401 - an NVML handle
    milliwatts = call("nvmlDeviceGetPowerUsage", handle)
    return {} if milliwatts in _NOT_AVAILABLE else {"DCGM_FI_DEV_POWER_USAGE": milliwatts / 1000}


def _event_reasons(call: Call, handle: Any) -> dict[str, float]:  # noqa: ANN401 - an NVML handle
    try:
        mask = call("nvmlDeviceGetCurrentClocksEventReasons", handle)
    except pynvml.NVMLError_FunctionNotFound:  # the name before driver 535
        mask = call("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
    return {"DCGM_FI_DEV_CLOCKS_EVENT_REASONS": mask}


def _remapped_rows(call: Call, handle: Any) -> dict[str, float]:  # noqa: ANN401 - an NVML handle
    correctable, uncorrectable, pending, failed = call("nvmlDeviceGetRemappedRows", handle)
    return {
        "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": correctable,
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": uncorrectable,
        "DCGM_FI_DEV_ROW_REMAP_PENDING": pending,
        "DCGM_FI_DEV_ROW_REMAP_FAILURE": failed,
    }


def _fields(call: Call, handle: Any) -> dict[str, float]:  # noqa: ANN401 - an NVML handle
    """Figures that NVML has as fields only; each brings an error code of its own."""
    wanted = {
        "DCGM_FI_DEV_MEMORY_TEMP": (pynvml.NVML_FI_DEV_MEMORY_TEMP, 0),
        NVLINK_TX_KIB: (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, _ALL_LINKS),
        NVLINK_RX_KIB: (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, _ALL_LINKS),
    }
    values = call("nvmlDeviceGetFieldValues", handle, list(wanted.values()))
    numbers = {name: field_number(value) for name, value in zip(wanted, values, strict=True)}
    return {name: number for name, number in numbers.items() if number is not None}


def _single(name: str, function: str, *arguments: int, factor: float = 1) -> Reader:
    """Reader of a call that answers with one number."""

    def read(call: Call, handle: Any) -> dict[str, float]:  # noqa: ANN401 - an NVML handle
        number = call(function, handle, *arguments)
        return {} if number in _NOT_AVAILABLE else {name: number * factor}

    return read


Reader = Callable[[Call, Any], Mapping[str, float]]

_CORRECTED, _UNCORRECTED = pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
_VOLATILE, _AGGREGATE = pynvml.NVML_VOLATILE_ECC, pynvml.NVML_AGGREGATE_ECC

READERS: Final[tuple[Reader, ...]] = (
    _utilization,
    memory,
    _temperature,
    _power,
    _single("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "nvmlDeviceGetTotalEnergyConsumption"),
    _single("DCGM_FI_DEV_SM_CLOCK", "nvmlDeviceGetClockInfo", pynvml.NVML_CLOCK_SM),
    _single("DCGM_FI_DEV_MEM_CLOCK", "nvmlDeviceGetClockInfo", pynvml.NVML_CLOCK_MEM),
    _event_reasons,
    _single("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "nvmlDeviceGetTotalEccErrors", _CORRECTED, _VOLATILE),
    _single("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "nvmlDeviceGetTotalEccErrors", _UNCORRECTED, _VOLATILE),
    _single("DCGM_FI_DEV_ECC_SBE_AGG_TOTAL", "nvmlDeviceGetTotalEccErrors", _CORRECTED, _AGGREGATE),
    _single("DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", "nvmlDeviceGetTotalEccErrors", _UNCORRECTED, _AGGREGATE),
    _remapped_rows,
    _fields,
    _single(PCIE_REPLAYS, "nvmlDeviceGetPcieReplayCounter"),
    # NVML counts PCIe traffic over 20 ms and answers in KB/s.
    _single("DCGM_FI_PROF_PCIE_TX_BYTES", "nvmlDeviceGetPcieThroughput", pynvml.NVML_PCIE_UTIL_TX_BYTES, factor=1000),
    _single("DCGM_FI_PROF_PCIE_RX_BYTES", "nvmlDeviceGetPcieThroughput", pynvml.NVML_PCIE_UTIL_RX_BYTES, factor=1000),
)
"""All of them, cheapest first; each may fail on its own."""
