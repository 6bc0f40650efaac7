"""A reading of the GPUs as metrics: DCGM's names and labels, and what DCGM does not have under ours. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from hyperscale import __version__
from hyperscale.agent.exposition import ExpositionLine, Family
from hyperscale.agent.gpus.gpu_figures import FIGURES
from hyperscale.agent.gpus.gpu_reading import GpuReading, Reading
from hyperscale.agent.state import AgentState

_MIG_SHARED: Final = frozenset({"DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_RESERVED"})
"""Figures that instances have of their own; the others are the whole GPU's and repeated for each instance, as DCGM does."""


def families(reading: Reading, node: str, state: AgentState, seconds: float, *, figures: bool = True) -> tuple[Family, ...]:
    """All families of a reading of `node`; without `figures` those that a DCGM exporter serves are left out.

    state: of the readings as a whole; seconds: what the reading took.
    """
    served = _figures(reading, node) if figures else ()
    return (*served, _paths(reading, node), *_own(reading, node, state, seconds))


def _figures(reading: Reading, node: str) -> tuple[Family, ...]:
    families = []
    for name, figure in FIGURES.items():
        lines = tuple(line for gpu in reading.gpus for line in _lines(gpu, name, node, reading.driver))
        families.append(Family(name, figure.kind, figure.help, lines))
    return tuple(families)


def _lines(gpu: GpuReading, name: str, node: str, driver: str) -> Iterator[ExpositionLine]:
    """One figure of one GPU, or of each of its instances."""
    if not gpu.instances:
        if name in gpu.figures:
            yield ExpositionLine(_labels(gpu, node, driver), gpu.figures[name])
        return
    for instance in gpu.instances:
        figures = instance.figures if name in _MIG_SHARED else gpu.figures
        if name in figures:
            yield ExpositionLine(_labels(gpu, node, driver, instance.profile, str(instance.id)), figures[name])


def _labels(gpu: GpuReading, node: str, driver: str, profile: str = "", instance: str = "") -> dict[str, str]:
    """Labels as dcgm-exporter up to 4.5 writes them, in its order; but the model as its series of NVLinks spell it, for promtool's sake."""
    return {
        "gpu": str(gpu.index),
        "UUID": gpu.uuid,
        "pci_bus_id": gpu.pci_bus_id,
        "device": gpu.device,
        "model_name": gpu.model,
        "GPU_I_PROFILE": profile,
        "GPU_I_ID": instance,
        "Hostname": node,
        "DCGM_FI_DRIVER_VERSION": driver,
    }


def _paths(reading: Reading, node: str) -> Family:
    uuids: Mapping[int, str] = {gpu.index: gpu.uuid for gpu in reading.gpus}
    lines = tuple(
        ExpositionLine(
            {
                "node": node,
                "gpu": str(path.gpu),
                "peer": str(path.peer),
                "kind": path.kind,
                "uuid": uuids.get(path.gpu, ""),
                "peer_uuid": uuids.get(path.peer, ""),
            },
            path.links,
        )
        for path in reading.paths
    )
    return Family("hyperscale_gpu_path", "gauge", "Best way between two GPUs of a node: number of NVLinks, or 1.", lines)


def _own(reading: Reading, node: str, state: AgentState, seconds: float) -> Iterator[Family]:
    """About the agent itself."""
    condition = (ExpositionLine({"node": node, "state": state.condition.value}, 1),)
    yield Family("hyperscale_agent_state", "gauge", "State of the agent's GPU readings, as a label.", condition)
    gpus = tuple(
        ExpositionLine({"node": node, "gpu": str(gpu.index), "uuid": gpu.uuid, "state": gpu.state.condition.value}, 1)
        for gpu in reading.gpus
    )
    yield Family("hyperscale_agent_gpu_state", "gauge", "State of each GPU that the driver lists, as a label.", gpus)
    errors = tuple(ExpositionLine({"node": node, "code": code}, count) for code, count in sorted(reading.errors.items()))
    yield Family("hyperscale_agent_nvml_errors_total", "counter", "NVML calls that failed abnormally, by NVML's code.", errors)
    if seconds > 0:
        took = (ExpositionLine({"node": node}, seconds),)
        yield Family("hyperscale_agent_reading_seconds", "gauge", "What the last finished reading of the GPUs took.", took)
    yield Family(
        "hyperscale_agent_build_info", "gauge", "Version of this agent.", (ExpositionLine({"node": node, "version": __version__}, 1),)
    )
