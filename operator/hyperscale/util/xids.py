"""Which XIDs, the error numbers of NVIDIA's driver, mean that a GPU is of no use until a reset. The planner and the agent go by them."""

from __future__ import annotations

from typing import Final

HARDWARE_XIDS: Final = frozenset(
    {
        *(48, 63, 64, 92, 94, 95, 140, 156),  # broken memory, or cells that a reset replaces
        *(74, 136, 149, 150),  # NVLink; 149: most of its causes ask for a reset
        *(46, 62, 79, 110, 143, 151, 158),  # the GPU stopped, fell off the bus or does not start
        # A GSP that does not answer fails each later call into the driver, and so the next job too. The catalogue asks for a reset at once.
        *(119, 120),
        # The driver's summary of another XID, where a reset, a drain or a reboot is due. Its number hides the other one.
        154,
    }
)
"""XIDs for which NVIDIA's catalogue asks for a reset of the GPU or a restart of the node, and those of broken memory and NVLinks.

They stay until a reset. Left out with a purpose:

- 45 follows from another error or from an ended program. It may hide a fatal one: DCGM_FI_DEV_XID_ERRORS holds the last number only.
- 109 (a context switch takes too long): programs cause it too, and NVIDIA's device plugin keeps offering such a GPU.
- 144 to 148: only some of their causes ask for a reset, and then 154 follows.
- 155 counts links that were closed on purpose, too.
"""


def graver(before: int, after: int) -> int:
    """The XID to remember of two of one GPU: the later one, unless it is harmless and the earlier one is not."""
    return before if before in HARDWARE_XIDS and after not in HARDWARE_XIDS else after
