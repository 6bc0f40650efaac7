"""How the GPUs of a node reach each other: NVLinks, else the narrowest part of the PCIe tree that has both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pynvml

from hyperscale.agent.gpus.gpu_reading import GpuPath, PathKind
from hyperscale.agent.gpus.nvml_calls import Call, Reach, reach

_KINDS: Final[tuple[tuple[int, PathKind], ...]] = (
    (pynvml.NVML_TOPOLOGY_SINGLE, "PcieSwitch"),  # PIX in nvidia-smi; also two GPUs on one board
    (pynvml.NVML_TOPOLOGY_MULTIPLE, "PcieBridge"),  # PXB: several switches, not over the processor
    (pynvml.NVML_TOPOLOGY_NODE, "Socket"),  # PHB, NODE
    (pynvml.NVML_TOPOLOGY_SYSTEM, "System"),  # SYS: between sockets
)

_OVER_NVLINK: Final = pynvml.NVML_P2P_CAPS_INDEX_NVLINK

SWITCH: Final = "switch"
"""Where links to NVSwitches lead."""
ELSEWHERE: Final = "elsewhere"
"""Where links lead of which NVML does not say more."""


def paths(call: Call, handles: Mapping[int, Any], bus_ids: Mapping[int, str]) -> tuple[GpuPath, ...]:
    """Paths between the GPUs with these handles and PCI bus ids, by index, both ways; a pair that NVML says nothing of is left out."""
    links = {index: _links(call, handle, index) for index, handle in handles.items()}
    pairs = [(gpu, peer) for gpu in sorted(handles) for peer in sorted(handles) if gpu != peer]
    return tuple(path for gpu, peer in pairs if (path := _path(call, handles, bus_ids, links, gpu, peer)))


def _path(
    call: Call, handles: Mapping[int, Any], bus_ids: Mapping[int, str], links: Mapping[int, Mapping[str, int]], gpu: int, peer: int
) -> GpuPath | None:
    direct = links[gpu].get(bus_ids[peer], 0)
    # Every GPU on NVSwitches reaches every other with all its links; the one with fewer of them (some may be down) decides.
    switched = min(links[gpu].get(SWITCH, 0), links[peer].get(SWITCH, 0))
    if direct or switched:
        return GpuPath(gpu, peer, "NVLink", max(direct, switched))
    call.subject = f"GPU {gpu} and GPU {peer}"
    active = min(sum(links[gpu].values()), sum(links[peer].values()))
    if active and call.optional("nvmlDeviceGetP2PStatus", handles[gpu], handles[peer], _OVER_NVLINK) == pynvml.NVML_P2P_STATUS_OK:
        return GpuPath(gpu, peer, "NVLink", active)  # drivers that do not tell what their links lead to
    level = call.optional("nvmlDeviceGetTopologyCommonAncestor", handles[gpu], handles[peer])
    kind = next((kind for limit, kind in _KINDS if level <= limit), None) if level is not None else None
    return GpuPath(gpu, peer, kind, 1) if kind else None


def _links(call: Call, handle: Any, index: int) -> dict[str, int]:  # noqa: ANN401 - an NVML handle
    """Active NVLinks of a GPU by the bus id of the GPU at their other end; those to a switch under SWITCH."""
    call.subject = f"GPU {index}"
    counts: dict[str, int] = {}
    for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
        try:
            end = _other_end(call, handle, link)
        except pynvml.NVMLError as error:
            if reach(error) in {Reach.GPU, Reach.LIBRARY}:
                raise
            if not link or error.value == pynvml.NVML_ERROR_INVALID_ARGUMENT:
                break  # no NVLink here, or beyond the last
            continue
        if end:
            counts[end] = counts.get(end, 0) + 1
    return counts


def _other_end(call: Call, handle: Any, link: int) -> str:  # noqa: ANN401 - an NVML handle
    """Where an active link leads: a bus id, SWITCH or ELSEWHERE; empty for one that is down or leads to a processor."""
    if call("nvmlDeviceGetNvLinkState", handle, link) != pynvml.NVML_FEATURE_ENABLED:
        return ""
    kind = call.optional("nvmlDeviceGetNvLinkRemoteDeviceType", handle, link)
    if kind == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
        return SWITCH
    if kind == pynvml.NVML_NVLINK_DEVICE_TYPE_IBMNPU:
        return ""
    there = call.optional("nvmlDeviceGetNvLinkRemotePciInfo", handle, link)
    return ELSEWHERE if there is None else normal_bus_id(there.busId)


def normal_bus_id(text: str | bytes) -> str:
    """A PCI bus id as DCGM writes it: eight digits of domain, capitals."""
    decoded = text.decode("ascii", "replace") if isinstance(text, bytes) else text
    domain, colon, rest = decoded.strip().upper().partition(":")
    return f"{domain.zfill(8)}:{rest}" if colon and rest.count(":") == 1 else decoded.strip().upper()
