"""Each figure of a GPU by DCGM's name and in DCGM's unit: how it is served and what is nonsense. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

KIB: Final = 1024

PCIE_REPLAYS: Final = "hyperscale_gpu_pcie_replays_total"
"""Ours, because promtool refuses a name that has a type in it."""
NVLINK_TX_KIB: Final = "nvlink_tx_kib"
NVLINK_RX_KIB: Final = "nvlink_rx_kib"
"""Running totals in KiB; served as rates only, because DCGM knows no total."""


class GpuFigure(NamedTuple):
    """How a figure is served."""

    kind: str
    """gauge, counter, or untyped: a running total under DCGM's name, which has no small _total as promtool wants of a counter."""
    help: str
    limit: float = 2.0**63
    """Larger values are nonsense and left out."""


FIGURES: Final[Mapping[str, GpuFigure]] = {
    "DCGM_FI_DEV_SM_CLOCK": GpuFigure("gauge", "SM clock frequency (in MHz).", 100_000),
    "DCGM_FI_DEV_MEM_CLOCK": GpuFigure("gauge", "Memory clock frequency (in MHz).", 100_000),
    "DCGM_FI_DEV_MEMORY_TEMP": GpuFigure("gauge", "Memory temperature (in C).", 200),
    "DCGM_FI_DEV_GPU_TEMP": GpuFigure("gauge", "GPU temperature (in C).", 200),
    "DCGM_FI_DEV_POWER_USAGE": GpuFigure("gauge", "Power draw (in W).", 10_000),
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": GpuFigure("untyped", "Total energy consumption since the driver was loaded (in mJ)."),
    PCIE_REPLAYS: GpuFigure("counter", "Total number of PCIe retries (dcgm-exporter: DCGM_FI_DEV_PCIE_REPLAY_COUNTER)."),
    "DCGM_FI_DEV_GPU_UTIL": GpuFigure("gauge", "GPU utilization (in %).", 100),
    "DCGM_FI_DEV_MEM_COPY_UTIL": GpuFigure("gauge", "Memory utilization (in %).", 100),
    "DCGM_FI_DEV_XID_ERRORS": GpuFigure("gauge", "Last XID error since the agent started, one that asks for a reset first; 0 for none."),
    "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": GpuFigure("gauge", "Why the clocks are lowered: NVML's bit mask of clock event reasons."),
    "DCGM_FI_DEV_FB_FREE": GpuFigure("gauge", "Framebuffer memory free (in MiB).", 2.0**24),
    "DCGM_FI_DEV_FB_USED": GpuFigure("gauge", "Framebuffer memory used (in MiB).", 2.0**24),
    "DCGM_FI_DEV_FB_RESERVED": GpuFigure("gauge", "Framebuffer memory reserved (in MiB).", 2.0**24),
    "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": GpuFigure("untyped", "Total number of single-bit volatile ECC errors."),
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": GpuFigure("untyped", "Total number of double-bit volatile ECC errors."),
    "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL": GpuFigure("untyped", "Total number of single-bit persistent ECC errors."),
    "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL": GpuFigure("untyped", "Total number of double-bit persistent ECC errors."),
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": GpuFigure("untyped", "Number of remapped rows for uncorrectable errors."),
    "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": GpuFigure("untyped", "Number of remapped rows for correctable errors."),
    "DCGM_FI_DEV_ROW_REMAP_PENDING": GpuFigure("gauge", "Whether remapping of rows waits for a reset.", 1),
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": GpuFigure("gauge", "Whether remapping of rows has failed.", 1),
    "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL": GpuFigure("gauge", "Traffic of all NVLinks, both directions (in MB/s)."),
    "DCGM_FI_PROF_NVLINK_TX_BYTES": GpuFigure("gauge", "Rate of data sent over NVLink, headers excluded (in B/s)."),
    "DCGM_FI_PROF_NVLINK_RX_BYTES": GpuFigure("gauge", "Rate of data received over NVLink, headers excluded (in B/s)."),
    "DCGM_FI_PROF_PCIE_TX_BYTES": GpuFigure("gauge", "Rate of data sent over PCIe (in B/s)."),
    "DCGM_FI_PROF_PCIE_RX_BYTES": GpuFigure("gauge", "Rate of data received over PCIe (in B/s)."),
}
"""In the order in which they are served. DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL is a gauge although the exporter calls it a counter: it is a
rate in MB/s (dcgm-exporter#417, dcgm-exporter#658)."""


def plausible(figures: Mapping[str, float]) -> dict[str, float]:
    """The figures that can be served: known by name, not negative, not beyond their limit."""
    return {name: float(value) for name, value in figures.items() if name in FIGURES and 0 <= value <= FIGURES[name].limit}


def nvlink_rates(before: Mapping[str, float], after: Mapping[str, float], seconds: float) -> dict[str, float]:
    """Rates from two readings of the running totals; none where a total is missing or went back (a reset, an overflow)."""
    rates = {}
    for name, total in (("DCGM_FI_PROF_NVLINK_TX_BYTES", NVLINK_TX_KIB), ("DCGM_FI_PROF_NVLINK_RX_BYTES", NVLINK_RX_KIB)):
        if total in before and total in after and after[total] >= before[total] and seconds > 0:
            rates[name] = (after[total] - before[total]) * KIB / seconds
    if len(rates) == 2:  # as DCGM computes it: KiB/s over 1000
        rates["DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL"] = sum(rates.values()) / KIB / 1000
    return rates
