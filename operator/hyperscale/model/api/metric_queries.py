"""PromQL of every figure: the type behind `PlannerPolicy.spec.queries`."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from hyperscale.model.api.job import Spec

CARDS: Final = 'device!~"lo|bonding_masters|(veth|cali|cilium|lxc|docker|br-|cni|flannel|tunl|vxlan|kube-|nodelocal|virbr|dummy|ifb|wg).*"'
"""Leaves out of node-exporter's devices those that are no network cards of the machine."""
Query = Annotated[str, Meta(max_length=1024)]


class MetricQueries(Spec, frozen=True):
    """PromQL by figure; an empty string switches the figure off."""

    gpu_utilization: Query = "DCGM_FI_DEV_GPU_UTIL"
    """Percent, 0..100."""
    memory_used: Query = "DCGM_FI_DEV_FB_USED"
    """MiB."""
    memory_free: Query = "DCGM_FI_DEV_FB_FREE"
    """MiB."""
    memory_reserved: Query = "DCGM_FI_DEV_FB_RESERVED"
    """MiB."""
    temperature: Query = "DCGM_FI_DEV_GPU_TEMP"
    """Degrees Celsius."""
    power: Query = "DCGM_FI_DEV_POWER_USAGE"
    """Watts."""
    xid: Query = "DCGM_FI_DEV_XID_ERRORS"
    """Number of the last XID error."""
    link_latency: Query = "hyperscale_link_latency_seconds"
    """Seconds one way, labels source and destination."""
    link_bandwidth: Query = "hyperscale_link_bandwidth_bytes_per_second"
    """Bytes a second, labels source and destination."""
    link_loss: Query = "hyperscale_link_probe_loss_ratio"
    """Part of the probes that got no answer, 0..1; 1 is a dead link; labels source and destination."""
    agent_state: Query = "hyperscale_agent_state"
    """Any series of the node agents: tells theirs from other exporters'."""
    gpu_paths: Query = "min by (node, kind) (hyperscale_gpu_path)"
    """Fewest NVLinks between two GPUs of a node, 1 for other ways; labels node and kind."""
    network_speed: Query = f"node_network_speed_bytes{{{CARDS}}}"
    """Bytes a second that a network card can carry."""
    network_received: Query = f"rate(node_network_receive_bytes_total{{{CARDS}}}[2m])"
    """Bytes a second that a network card receives."""
    network_sent: Query = f"rate(node_network_transmit_bytes_total{{{CARDS}}}[2m])"
    """Bytes a second that a network card sends."""
    infiniband_speed: Query = "node_infiniband_rate_bytes_per_second"
    """Bytes a second that an InfiniBand port can carry."""
    infiniband_received: Query = "rate(node_infiniband_port_data_received_bytes_total[2m])"
    """Bytes a second that an InfiniBand port receives."""
    infiniband_sent: Query = "rate(node_infiniband_port_data_transmitted_bytes_total[2m])"
    """Bytes a second that an InfiniBand port sends."""
