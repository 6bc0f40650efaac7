"""Network cards of known machines, by the node label node.kubernetes.io/instance-type. Pure.

Cards are those that NCCL uses between GPUs of different nodes, without cards for storage and management. docs/explanation/machines.md has
the address that each figure comes from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

INSTANCE_LABELS: Final = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
GBIT: Final = 1e9 / 8
"""Bytes a second."""
EFA_SECONDS: Final = 75e-6
EFA_V3_SECONDS: Final = 35e-6
"""One way over EFA, as AWS's plugin tells NCCL (aws-ofi-nccl, src/platform-aws.cpp)."""


class InstanceType(NamedTuple):
    """One machine type of a cloud."""

    gpus: int
    cards: int
    """Network cards for traffic between GPUs."""
    gbit: float
    """Gbit/s of one card, one way."""
    nvswitch: bool = True
    hop_seconds: float | None = None
    """One way between two such machines where the cloud's own plugin states it; None leaves it to the topology."""
    fabric: str = ""
    """Network over which a zone's machines with the same one reach each other at the rate of all cards; "" without such a network.

    Google's TCPX and RoCE do not talk to each other. Azure's sizes and Oracle's shapes count as apart: clusters of RDMA are of one."""

    @property
    def card_bytes_per_second(self) -> float:
        """Of one card, one way."""
        return self.gbit * GBIT


AWS: Final[dict[str, InstanceType]] = {
    "p3dn.24xlarge": InstanceType(8, 1, 100, nvswitch=False, hop_seconds=150e-6, fabric="EFA"),
    "p4d.24xlarge": InstanceType(8, 4, 100, hop_seconds=EFA_SECONDS, fabric="EFA"),
    "p4de.24xlarge": InstanceType(8, 4, 100, hop_seconds=EFA_SECONDS, fabric="EFA"),
    "p5.48xlarge": InstanceType(8, 32, 100, hop_seconds=EFA_SECONDS, fabric="EFA"),
    "p5e.48xlarge": InstanceType(8, 32, 100, hop_seconds=EFA_SECONDS, fabric="EFA"),
    "p5en.48xlarge": InstanceType(8, 16, 200, hop_seconds=EFA_V3_SECONDS, fabric="EFA"),
    "p6-b200.48xlarge": InstanceType(8, 8, 400, hop_seconds=EFA_V3_SECONDS, fabric="EFA"),
    "g5.48xlarge": InstanceType(8, 1, 100, nvswitch=False, hop_seconds=EFA_SECONDS, fabric="EFA"),
}
AZURE: Final[dict[str, InstanceType]] = {
    "Standard_ND96asr_v4": InstanceType(8, 8, 200, fabric="NDv4"),
    "Standard_ND96amsr_A100_v4": InstanceType(8, 8, 200, fabric="NDv4-A100"),
    "Standard_ND96isr_H100_v5": InstanceType(8, 8, 400, fabric="NDv5-H100"),
    "Standard_ND96isr_H200_v5": InstanceType(8, 8, 400, fabric="NDv5-H200"),
}
GOOGLE: Final[dict[str, InstanceType]] = {
    "a2-highgpu-1g": InstanceType(1, 1, 24, nvswitch=False),
    "a2-highgpu-2g": InstanceType(2, 1, 32),
    "a2-highgpu-4g": InstanceType(4, 1, 50),
    "a2-highgpu-8g": InstanceType(8, 1, 100),
    "a2-megagpu-16g": InstanceType(16, 1, 100),
    "a2-ultragpu-8g": InstanceType(8, 1, 100),
    "a3-highgpu-8g": InstanceType(8, 4, 200, fabric="TCPX"),
    "a3-megagpu-8g": InstanceType(8, 8, 200, fabric="TCPXO"),
    "a3-ultragpu-8g": InstanceType(8, 8, 400, fabric="a3-ultragpu"),
    "a4-highgpu-8g": InstanceType(8, 8, 400, fabric="a4-highgpu"),
    "a4x-highgpu-4g": InstanceType(4, 4, 400, fabric="a4x-highgpu"),
}
ORACLE: Final[dict[str, InstanceType]] = {
    "BM.GPU4.8": InstanceType(8, 16, 100, fabric="BM.GPU4.8"),
    "BM.GPU.A100-v2.8": InstanceType(8, 16, 100, fabric="BM.GPU.A100-v2.8"),
    "BM.GPU.H100.8": InstanceType(8, 16, 200, fabric="BM.GPU.H100.8"),
    "BM.GPU.H200.8": InstanceType(8, 8, 400, fabric="BM.GPU.H200.8"),
}
INSTANCE_TYPES: Final[dict[str, InstanceType]] = AWS | AZURE | GOOGLE | ORACLE


def instance_type(labels: Mapping[str, str]) -> InstanceType | None:
    """The machine type that a node's labels name; None where there is no label or no entry."""
    for label in INSTANCE_LABELS:
        if (entry := INSTANCE_TYPES.get(labels.get(label, ""))) is not None:
            return entry
    return None
