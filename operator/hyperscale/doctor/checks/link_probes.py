"""Links between GPU nodes, the agents that measure them, and the labels that stand in for measurements. Pure."""

from __future__ import annotations

from typing import Final

from hyperscale.doctor.checks.driver import unread_gpus
from hyperscale.doctor.checks.gpu_interconnect import gpu_paths
from hyperscale.doctor.common import agents, gpu_nodes, helm, labels_of, name_of, policy_set, query_of
from hyperscale.doctor.facts import Facts, Unread, WorkloadFacts
from hyperscale.doctor.faults import Fault, FindingState
from hyperscale.doctor.findings import CheckResult, Finding, finding, plural, some
from hyperscale.observe.kube.node_labels import detect_levels

DENSE_NODES: Final = 12
"""Up to here every pair should be measured; beyond, agents sample pairs and the rest is estimated."""
FULL_SHARE: Final = 0.9
AGENT_LABEL: Final = "app.kubernetes.io/component=agent"
TOPOGRAPH: Final = "https://github.com/NVIDIA/topograph"


def links(facts: Facts) -> CheckResult:
    """How many pairs are measured, and whether the agents run."""
    nodes = [name_of(node) for node in gpu_nodes(facts)]
    pairs = len(nodes) * (len(nodes) - 1)
    running = agents(facts)
    latency, bandwidth = facts.metrics.pairs
    share = f", {latency / pairs:.0%} with latency, {bandwidth / pairs:.0%} with bandwidth" if pairs else ""
    daemon = next(iter(running), None)
    agent = f"; agent on {daemon.ready} of {daemon.wanted} nodes" if daemon else "; no agent"
    findings = [
        _agent(facts, daemon),
        *_coverage(facts, nodes, pairs, daemon),
        _refused(facts, daemon),
        *unread_gpus(facts),
        *gpu_paths(facts),
    ]
    return f"{plural(pairs, 'ordered pair')} of GPU nodes{share}{agent}", findings


def _coverage(facts: Facts, nodes: list[str], pairs: int, daemon: WorkloadFacts | None) -> list[Finding | None]:
    """Nothing measured, or some nodes without a single link."""
    metrics = facts.metrics
    if not pairs or not metrics.url or metrics.failure is not None:
        return []
    if not any(metrics.pairs):
        return [_none(facts, daemon)]
    alone = [name for name in nodes if name not in metrics.linked]
    latency, bandwidth = (count / pairs for count in metrics.pairs)
    thin = len(nodes) <= DENSE_NODES and min(latency, bandwidth) < FULL_SHARE
    return [_partial(alone, latency, bandwidth)] if alone or thin else []


def _partial(alone: list[str], latency: float, bandwidth: float) -> Finding:
    """Some pairs are not measured.

    alone:              nodes without any measured link
    latency, bandwidth: measured share of the pairs, 0..1
    """
    what = f"{plural(len(alone), 'node')} without any measured link: {some(alone)}" if alone else "some pairs are not measured"
    cause = (
        "no agent runs there, or port 9466 is closed between nodes"
        if alone
        else "some agents cannot reach each other, or have just started"
    )
    return finding(
        Fault.LINKS_PARTIAL,
        f"latency known for {latency:.0%}, bandwidth for {bandwidth:.0%} of the pairs; {what}",
        f"{cause}; the rest is estimated",
        "let TCP and UDP 9466 pass between the nodes' agents (NetworkPolicy, firewall); "
        "kubectl get pods -A -l app.kubernetes.io/component=agent -o wide",
        alone,
    )


def _none(facts: Facts, daemon: WorkloadFacts | None) -> Finding:
    message = "no link between GPU nodes is measured: plans go by topology labels alone"
    if not query_of(facts.policy, "link_latency") and not query_of(facts.policy, "link_bandwidth"):
        cause, fix = "both link queries are switched off", "remove linkLatency and linkBandwidth from spec.queries of the PlannerPolicy"
    elif daemon is None:
        cause, fix = "nothing measures them: the node agent is not installed", helm(facts, "agent.enabled=true")
    elif facts.metrics.names is not None and not any(name.startswith("hyperscale_") for name in facts.metrics.names):
        cause = "the agents run, but Prometheus has no series of theirs: they are not scraped"
        fix = f"{helm(facts, 'agent.metrics.podMonitor.enabled=true')}; or a scrape job for port 9465 of pods labelled {AGENT_LABEL}"
    else:
        cause = "the agents are scraped, but measure nothing: they do not find or reach each other, or their tokens differ"
        fix = f"kubectl -n {daemon.namespace} logs daemonset/{daemon.name}; let TCP and UDP 9466 pass between nodes"
    return finding(Fault.LINKS_MISSING, message, cause, fix)


def _agent(facts: Facts, daemon: WorkloadFacts | None) -> Finding | None:
    """An agent that is missing is no fault where others measure."""
    if isinstance(facts.workloads, Unread):
        return None
    if daemon is None:
        if any(facts.metrics.pairs):
            return None
        message = "the node agent is not installed"
        cause = "agent.enabled is false, or the release is older than the agent"
        return finding(Fault.AGENT_MISSING, message, cause, helm(facts, "agent.enabled=true"))
    if daemon.ready >= daemon.wanted and daemon.wanted:
        return None
    cause = daemon.message or (
        "its nodeSelector matches no node" if not daemon.wanted else "pods are not scheduled, not started or not ready"
    )
    return finding(
        Fault.AGENT_PARTIAL,
        f"the node agent is ready on {daemon.ready} of {daemon.wanted} nodes",
        cause,
        f"kubectl -n {daemon.namespace} get pods -l {AGENT_LABEL} -o wide; kubectl -n {daemon.namespace} describe daemonset {daemon.name}",
        (daemon.place,),
    )


def _refused(facts: Facts, daemon: WorkloadFacts | None) -> Finding | None:
    """Probes that agents turn away."""
    refused = {reason: count for reason, count in facts.metrics.refused.items() if count >= 1 and reason not in _NORMAL_REFUSALS}
    if not refused:
        return None
    shown = ", ".join(f"{count:.0f} × {reason}" for reason, count in sorted(refused.items()))
    place = f"-n {daemon.namespace} daemonset/{daemon.name}" if daemon else "-n hyperscale-system daemonset/hyperscale-agent"
    return finding(
        Fault.PROBES_REFUSED,
        f"agents refused link probes in the last 10 minutes: {shown}",
        "agents hold different tokens, as after the Secret was changed, or another program sends to port 9466",
        f"kubectl rollout restart {place}",
        refused,
    )


_NORMAL_REFUSALS: Final = ("budget", "busy", "occupied", "full")
"""An agent that has enough to do already says so, and is asked again later."""


def topology(facts: Facts) -> CheckResult:
    """Labels that say which nodes are close."""
    nodes = gpu_nodes(facts)
    levels = facts.policy.topology_levels or detect_levels([labels_of(node) for node in nodes])
    bare = {level: [name_of(node) for node in nodes if not labels_of(node).get(level)] for level in levels}
    shown = ", ".join(f"{level} on {len(nodes) - len(names)}" for level, names in bare.items())
    summary = f"levels of {plural(len(nodes), 'GPU node')}: {shown or 'none'}"
    return summary, _levels(facts, bare, [name_of(node) for node in nodes]) if len(nodes) > 1 else []


def _levels(facts: Facts, bare: dict[str, list[str]], nodes: list[str]) -> list[Finding]:
    """bare: nodes without a label, by level."""
    if not bare:
        return [_no_levels(nodes[0])]
    configured = bool(facts.policy.topology_levels)
    return [_level(facts, level, names, len(nodes), configured) for level, names in bare.items() if names]


def _no_levels(node: str) -> Finding:
    return finding(
        Fault.TOPOLOGY_LABELS_MISSING,
        "no GPU node carries a topology label that is known",
        "neither the cloud nor topograph nor an administrator labelled the nodes; links that are not measured all look alike",
        f"label zones and racks, e.g. kubectl label node {node} topology.kubernetes.io/zone=hall-1 cloud.provider.com/topology-rack=r1; "
        f"or install topograph ({TOPOGRAPH}); labels of your own: spec.topologyLevels of the PlannerPolicy",
    )


def _level(facts: Facts, level: str, bare: list[str], total: int, configured: bool) -> Finding:
    """A label that some of the nodes lack; bare: those that do."""
    if len(bare) == total:
        return finding(
            Fault.TOPOLOGY_LEVEL_UNKNOWN,
            f"spec.topologyLevels names {level}, which no GPU node carries",
            "a typing error, or topograph renamed its labels (network.topology.nvidia.com/… is now fabric.topograph.run/…)",
            f"correct spec.topologyLevels of the PlannerPolicy, or let levels be detected: {policy_set(facts, {'topologyLevels': []})}",
        )
    return finding(
        Fault.TOPOLOGY_LABELS_PARTIAL,
        f"{len(bare)} of {plural(total, 'GPU node')} lack {level}: {some(bare)}",
        "nodes were added after the others were labelled, or topograph does not run there",
        f"kubectl label node {min(bare)} {level}=VALUE",
        bare,
        state=FindingState.WARNING if configured or 2 * len(bare) <= total else FindingState.INFO,
    )
