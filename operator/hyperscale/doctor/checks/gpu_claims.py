"""GPUs that ResourceClaims give to pods (Dynamic Resource Allocation, DRA) in place of the device plugin. Plans leave them out. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hyperscale.doctor.common import named
from hyperscale.doctor.facts import Facts, WorkloadFacts
from hyperscale.doctor.faults import Fault, FindingState
from hyperscale.doctor.findings import Finding, finding
from hyperscale.model import constants

_DRIVERS: Final = ("dra-driver", "dra-kubelet-plugin")
_OF_GPUS: Final = ("nvidia", "gpu")
"""In the name or image of a driver of GPUs: there are DRA drivers for processors and network cards, too."""
ONE_OR_OTHER: Final = "a node must have one or the other for its GPUs, not both: each would hand out the same GPUs"
NOT_PLANNED: Final = f"which HyperScale does not plan: it needs the device plugin's {constants.GPU_RESOURCE}"
LEAVE: Final = (
    "leave such nodes to pods with ResourceClaims, or take the DRA driver off them before the device plugin serves them; "
    f"{ONE_OR_OTHER}; where the driver serves ComputeDomains alone (resources.gpus.enabled=false), the device plugin is missing"
)
"""No command that installs the device plugin: it would give GPUs away that claims hold already."""


def claim_driver(facts: Facts) -> WorkloadFacts | None:
    """Return the DaemonSet of a DRA driver of GPUs; None where there is none."""
    return next((one for one in named(facts, *_DRIVERS) if one.kind == "DaemonSet" and _gives_gpus(one)), None)


def by_claim(driver: WorkloadFacts, message: str, nodes: Sequence[str], planned: bool) -> Finding:
    """Return the finding for `nodes` whose GPUs `driver` gives; planned: whether other nodes have GPUs that can be planned."""
    pods = f"{driver.ready} of {driver.wanted} pods ready"
    cause = f"DRA gives their GPUs by ResourceClaims (DaemonSet {driver.place}, {pods}), {NOT_PLANNED}"
    return finding(Fault.GPUS_BY_CLAIM, message, cause, LEAVE, nodes, state=None if planned else FindingState.ERROR)


def _gives_gpus(driver: WorkloadFacts) -> bool:
    return any(part in text for part in _OF_GPUS for text in (driver.name, *driver.images))
