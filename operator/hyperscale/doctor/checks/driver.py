"""Nodes and GPUs of which the node agents say that they cannot read them. Pure."""

from __future__ import annotations

from typing import Final

from hyperscale.doctor.facts import Facts
from hyperscale.doctor.faults import Fault, FindingState
from hyperscale.doctor.findings import Finding, finding, plural, some

UNREAD: Final = {
    "NoLibrary": (
        "the driver's library is not in the agent's pod",
        "set agent.runtimeClassName=nvidia in the chart, or run dcgm-exporter",
    ),
    "NoDriver": ("the NVIDIA driver is not loaded", "load it: nvidia-smi on the node says what it lacks"),
    "NoGPU": ("the driver sees no GPU", "keep agents off such nodes with agent.nodeSelector, or look at the node's PCI bus"),
    "NoPermission": ("the pod may not open /dev/nvidia*", "let the pods' user open /dev/nvidiactl and /dev/nvidia*"),
    "VersionMismatch": ("the driver was exchanged under a running pod", "restart the agent's pod, or the node if that does not help"),
    "GPULost": ("a GPU fell off the bus", "drain the node and reset or replace the GPU"),
    "ResetRequired": ("a GPU wants a reset", "drain the node and reset the GPU: nvidia-smi --gpu-reset"),
    "Stalled": ("a call into the driver does not return", "look for XIDs in the kernel's log, drain and reboot the node"),
    "Unreadable": (
        "NVML answers with an error",
        "see the code in the agent's log, and whether nvidia-smi on the node meets it too; if so, drain and reboot the node",
    ),
}
"""The states of docs/explanation/agent.md that are faults to cause and fix."""
_LATER: Final = ("the agent knows a state that this command does not", "use the command of the agent's version; see the agent's log")
_LINKS_ONLY: Final = ("NoLibrary", "NoGPU")
"""Links are measured all the same, and the check of queries reports a missing exporter."""


def unread_gpus(facts: Facts) -> list[Finding | None]:
    """One finding for each state that some agent is in, or that it reports of one of its GPUs."""
    states = {*facts.metrics.agent_states, *facts.metrics.gpu_states}
    return [_finding(facts, state) for state in sorted(states, key=lambda state: ([*UNREAD, state].index(state), state))]


def _finding(facts: Facts, state: str) -> Finding:
    gpus: dict[str, list[str]] = {}
    for node, gpu in facts.metrics.gpu_states.get(state, ()):
        gpus.setdefault(node, []).append(gpu)
    nodes = {*facts.metrics.agent_states.get(state, ()), *gpus}
    shown = some(f"{node} (GPU {' '.join(sorted(gpus[node], key=_number))})" if node in gpus else node for node in nodes)
    cause, fix = UNREAD.get(state, _LATER)
    return finding(
        Fault.AGENT_READS_NO_GPU,
        f"{plural(len(nodes), 'agent')} cannot read GPUs of the node: {state}: {shown}",
        cause,
        fix,
        nodes,
        state=FindingState.INFO if state in _LINKS_ONLY else FindingState.WARNING,
    )


def _number(gpu: str) -> tuple[int, str]:
    """Order of GPUs by their numbers, which have no leading zeros."""
    return len(gpu), gpu
