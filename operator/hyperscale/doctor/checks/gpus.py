"""GPUs as the cluster offers them: device plugin or DRA, health, GPU Feature Discovery. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hyperscale.doctor.checks.gpu_claims import LEAVE, NOT_PLANNED, ONE_OR_OTHER, by_claim, claim_driver
from hyperscale.doctor.checks.gpu_sharing import by_name, gpus_of, parts_of, sharing
from hyperscale.doctor.common import gpu_nodes, labels_of, name_of, named, policy_set
from hyperscale.doctor.facts import Facts, Unread, WorkloadFacts, or_empty
from hyperscale.doctor.faults import Fault, FindingState
from hyperscale.doctor.findings import CheckResult, Finding, finding, plural, some
from hyperscale.model import constants
from hyperscale.observe.kube.fields import node_view
from hyperscale.observe.kube.node_labels import gpu_memory_bytes, gpu_product
from hyperscale.planner.problem.speeds import gpu_speed
from hyperscale.spec.written import write

PLUGIN: Final = (
    "helm repo add nvdp https://nvidia.github.io/k8s-device-plugin && "
    "helm upgrade -i nvdp nvdp/nvidia-device-plugin -n nvidia-device-plugin --create-namespace --set gfd.enabled=true"
)
ASSUMED_GIGAFLOPS: Final = 10_000
"""Stands in the command for the figure that the reader measures."""


def device_plugin(facts: Facts) -> CheckResult:
    """Every node with GPUs offers all of them, and whole."""
    with_gpus = gpu_nodes(facts)
    if not with_gpus:
        return "no GPU nodes", [_no_nodes(facts)]
    parts = by_name(with_gpus)
    offered = sum(gpus_of(node, "allocatable") for node in with_gpus if name_of(node) not in parts)
    summary = f"{plural(len(with_gpus), 'GPU node')}, {plural(offered, 'GPU')} offered"
    empty = [name_of(node) for node in with_gpus if not gpus_of(node, "allocatable") and not gpus_of(node, "capacity")]
    silent = [name for name in empty if name not in parts]
    return summary, [_silent(facts, silent, offered), *sharing(with_gpus, parts), _unhealthy(with_gpus), _not_ready(with_gpus)]


def discovery(facts: Facts) -> CheckResult:
    """GPU Feature Discovery tells product and memory, and the product's speed is known."""
    with_gpus = gpu_nodes(facts)
    whole = tuple(node for node in with_gpus if parts_of(node) is None)
    bare = [name_of(node) for node in whole if gpu_product(labels_of(node)) is None or gpu_memory_bytes(labels_of(node)) is None]
    products = {product for node in with_gpus if (product := gpu_product(labels_of(node)))}
    summary = f"{len(with_gpus) - len(bare)} of {plural(len(with_gpus), 'GPU node')} labelled: {some(products) or 'no product'}"
    return summary, [_bare(facts, bare), _unknown_speed(facts, whole)]


def _no_nodes(facts: Facts) -> Finding:
    message = f"none of {plural(len(or_empty(facts.nodes)), 'node')} offers {constants.GPU_RESOURCE} or is labelled as having GPUs"
    if (driver := claim_driver(facts)) is not None:
        cause = f"there is no GPU node now, or DRA gives the GPUs by ResourceClaims (DaemonSet {driver.place}), {NOT_PLANNED}"
        return finding(Fault.NO_GPU_NODES, message, cause, LEAVE)
    fix = f"install NVIDIA's driver and container toolkit on the GPU nodes, then the device plugin: {PLUGIN}"
    return finding(Fault.NO_GPU_NODES, message, "there is no GPU node, or neither device plugin nor GFD runs", fix)


def _silent(facts: Facts, nodes: list[str], offered: int) -> Finding | None:
    """Nodes that are labelled as having GPUs and offer none; offered: whole GPUs of the other nodes."""
    if not nodes:
        return None
    offer = "offers" if len(nodes) == 1 else "offer"
    shown = f"{plural(len(nodes), 'node')} labelled as having GPUs {offer} no {constants.GPU_RESOURCE}: {some(nodes)}"
    plugin = next((one for one in named(facts, "device-plugin") if one.kind == "DaemonSet"), None)
    driver = claim_driver(facts)
    # A plugin without pods for these nodes is kept off them on purpose, as in a cluster that moves to DRA node by node.
    if driver is not None and (plugin is None or plugin.wanted <= len(gpu_nodes(facts)) - len(nodes)):
        return by_claim(driver, shown, nodes, offered > 0)
    if plugin is None and not isinstance(facts.workloads, Unread):
        return finding(Fault.DEVICE_PLUGIN_MISSING, shown, "no DaemonSet of NVIDIA's device plugin is in the cluster", PLUGIN, nodes)
    cause, fix = _why_silent(plugin)
    if driver is not None:
        cause = f"{cause}; or DRA gives the GPUs there ({driver.place})"
        fix = f"{fix}; where DRA gives the GPUs, keep the device plugin off: {ONE_OR_OTHER}"
    return finding(Fault.DEVICE_PLUGIN_SILENT, shown, cause, fix, nodes)


def _why_silent(plugin: WorkloadFacts | None) -> tuple[str, str]:
    """Cause and fix where the device plugin, if it could be looked up, offers no GPU of a node."""
    place = f"-n {plugin.namespace} {plugin.name}" if plugin else "of the device plugin"
    pods = f"{plugin.place} has {plugin.ready} of {plugin.wanted} pods ready; " if plugin else ""
    cause = "its pod does not run there (selector, taint), or it finds no driver: nvidia-smi fails or the nvidia runtime is not the default"
    fix = (
        f"kubectl describe daemonset {place}; kubectl logs on the pod of such a node; on the node: nvidia-smi, nvidia-ctk runtime configure"
    )
    return f"{pods}{cause}", fix


def _unhealthy(nodes: tuple[dict[str, Any], ...]) -> Finding | None:
    short = {name_of(node): lost for node in nodes if (lost := gpus_of(node, "capacity") - gpus_of(node, "allocatable")) > 0}
    if not short:
        return None
    return finding(
        Fault.GPUS_UNHEALTHY,
        f"{plural(sum(short.values()), 'GPU')} on {plural(len(short), 'node')} cannot be allocated: {some(short)}",
        "the device plugin holds them for unhealthy (a critical XID), or it has just restarted",
        "see `dmesg | grep Xid` and nvidia-smi on the node; reset the GPU or drain and reboot the node",
        short,
    )


def _not_ready(nodes: tuple[dict[str, Any], ...]) -> Finding | None:
    """GPU nodes that take no pods because they are not Ready."""
    lost = [name_of(node) for node in nodes if not _ready(node)]
    if not lost:
        return None
    return finding(
        Fault.GPU_NODES_NOT_READY,
        f"{len(lost)} of {plural(len(nodes), 'GPU node')} not Ready: {some(lost)}",
        "the kubelet is silent or reports a fault",
        f"kubectl describe node {min(lost)}",
        lost,
        state=FindingState.ERROR if len(lost) == len(nodes) else None,
    )


def _bare(facts: Facts, nodes: list[str]) -> Finding | None:
    if not nodes:
        return None
    discovered = named(facts, "gpu-feature-discovery", "gfd")
    cause = "GPU Feature Discovery does not run in the cluster"
    if discovered:
        cause = f"{discovered[0].place} has {discovered[0].ready} of {discovered[0].wanted} pods ready"
    by_hand = f"kubectl label node {min(nodes)} nvidia.com/gpu.product=NVIDIA-A100-SXM4-80GB nvidia.com/gpu.memory=81920"
    return finding(
        Fault.GPU_LABELS_MISSING,
        f"{plural(len(nodes), 'GPU node')} without nvidia.com/gpu.product or nvidia.com/gpu.memory: {some(nodes)}",
        f"{cause}; speed and memory of those GPUs are assumed",
        by_hand if claim_driver(facts) is not None else f"{PLUGIN}; or by hand: {by_hand}",
        nodes,
    )


def _unknown_speed(facts: Facts, nodes: tuple[dict[str, Any], ...]) -> Finding | None:
    speeds = ((gpu_product(labels_of(node)), gpu_speed(node_view(node, {}, (), ()), facts.policy)) for node in nodes)
    unknown = {product for product, speed in speeds if product is not None and speed.assumed}
    if not unknown:
        return None
    assumed = ({"product": product, "gigaflops": ASSUMED_GIGAFLOPS} for product in sorted(unknown))
    entry = {"gpus": [*map(write, facts.policy.gpus), *assumed]}
    return finding(
        Fault.GPU_SPEED_UNKNOWN,
        f"the speed of {some(unknown)} is in no table",
        "plans assume a common speed for them",
        f"{policy_set(facts, entry)} with the GFLOP/s that they sustain in place of {ASSUMED_GIGAFLOPS}",
        unknown,
    )


def _ready(node: Mapping[str, Any]) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)
