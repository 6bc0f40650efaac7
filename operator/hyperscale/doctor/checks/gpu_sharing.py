"""Nodes that offer parts of GPUs instead of whole ones: MIG slices, time slicing, MPS, vGPUs. Plans leave them out. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from hyperscale.doctor.common import labels_of, name_of
from hyperscale.doctor.faults import Fault, FindingState
from hyperscale.doctor.findings import Finding, finding, plural, some
from hyperscale.model import constants
from hyperscale.model.products import PRODUCT_LABEL, sliced

SLICE_RESOURCE: Final = "nvidia.com/mig-"
INVALID: Final = "-MIG-INVALID"
"""Ends the product's label where GPU Feature Discovery cannot name one slice for all GPUs of a node (mig.strategy single)."""
MIXED_SLICES: Final = f"{PRODUCT_LABEL} ends in {INVALID}: with MIG strategy single all GPUs of the node must be divided alike"

Node = Mapping[str, Any]
Parts = tuple[Fault, str]
"""What divides the GPUs of a node, and how."""


def parts_of(node: Node) -> Parts | None:
    """Return why a node has no whole GPU to offer; None where it has, or has no GPU at all."""
    labels, offered = labels_of(node), gpus_of(node, "allocatable")
    if labels.get(PRODUCT_LABEL, "").strip().endswith(INVALID):
        return Fault.GPUS_SLICED, MIXED_SLICES
    if (divided := sliced(labels, offered)) is not None:
        return (Fault.GPUS_SLICED if divided[0] == "MIGDevice" else Fault.GPUS_SHARED), divided[1]
    slices = [] if offered or gpus_of(node, "capacity") else slices_of(node)
    return (Fault.GPUS_SLICED, f"offers {some(slices)} and no {constants.GPU_RESOURCE}") if slices else None


_TEXTS: Final = {
    Fault.GPUS_SLICED: (
        "with MIG slices",
        "",
        "where ranks should run: kubectl label node {node} nvidia.com/mig.config=all-disabled --overwrite (GPU Operator), or "
        "nvidia-smi -mig 0 on the node and a restart of the device plugin; on GKE a node pool without gpuPartitionSize",
    ),
    Fault.GPUS_SHARED: (
        "whose GPUs several pods or virtual machines share",
        ", and others on it would slow down all ranks",
        "where ranks should run: remove sharing.timeSlicing and sharing.mps from the device plugin's configuration of these nodes "
        "(label nvidia.com/device-plugin.config); on GKE a node pool without GPU sharing; "
        "of vGPUs the profile or size of machine with a whole card (A10-24Q, Azure's NV36ads A10 v5)",
    ),
}


def sharing(nodes: Sequence[Node], parts: Mapping[str, Parts]) -> list[Finding | None]:
    """One finding for MIG slices and one for shared GPUs; errors where none of `nodes`, all with GPUs, has a whole GPU.

    parts: by the name of the node, see `parts_of`
    """
    return [_divided(fault, len(nodes), parts) for fault in _TEXTS]


def _divided(fault: Fault, total: int, parts: Mapping[str, Parts]) -> Finding | None:
    names = sorted(name for name, part in parts.items() if part[0] is fault)
    if not names:
        return None
    which, why, fix = _TEXTS[fault]
    message = f"plans leave out {len(names)} of {plural(total, 'GPU node')} {which}: {some(names)}"
    cause = f"{names[0]}: {parts[names[0]][1]}; a rank needs a whole GPU{why}"
    return finding(fault, message, cause, fix.format(node=names[0]), names, state=FindingState.ERROR if len(parts) == total else None)


def slices_of(node: Node) -> list[str]:
    """Return the resources of MIG slices that a node offers."""
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    return sorted(str(key) for key, value in allocatable.items() if str(key).startswith(SLICE_RESOURCE) and str(value) != "0")


def gpus_of(node: Node, kind: str) -> int:
    """Return the GPUs of a node, allocatable or of its capacity."""
    text = str(((node.get("status") or {}).get(kind) or {}).get(constants.GPU_RESOURCE, "0"))
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0


def by_name(nodes: Sequence[Node]) -> dict[str, Parts]:
    """Return `parts_of` for each node without a whole GPU."""
    return {name_of(node): parts for node in nodes if (parts := parts_of(node)) is not None}
