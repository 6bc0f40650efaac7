"""PromQL of every figure: the type behind `PlannerPolicy.spec.queries`."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from hyperscale.model.api.job import Spec

CARDS: Final = 'device!~"lo|bonding_masters|(veth|cali|cilium|lxc|docker|br-|cni|flannel|tunl|vxlan|kube-|nodelocal|virbr|dummy|ifb|wg).*"'
"""Leaves out of node-exporter's devices those that are no network cards of the machine."""


class MetricQueries(Spec, frozen=True):
    """PromQL by figure; an empty string switches the figure off."""

    gpu_utilization: Annotated[str, Meta(max_length=1024, description="Percent, 0..100.")] = "DCGM_FI_DEV_GPU_UTIL"
    memory_used: Annotated[str, Meta(max_length=1024, description="MiB.")] = "DCGM_FI_DEV_FB_USED"
    memory_free: Annotated[str, Meta(max_length=1024, description="MiB.")] = "DCGM_FI_DEV_FB_FREE"
    memory_reserved: Annotated[str, Meta(max_length=1024, description="MiB.")] = "DCGM_FI_DEV_FB_RESERVED"
    temperature: Annotated[str, Meta(max_length=1024, description="Degrees Celsius.")] = "DCGM_FI_DEV_GPU_TEMP"
    power: Annotated[str, Meta(max_length=1024, description="Watts.")] = "DCGM_FI_DEV_POWER_USAGE"
    xid: Annotated[str, Meta(max_length=1024, description="Number of the last XID error.")] = "DCGM_FI_DEV_XID_ERRORS"
    link_latency: Annotated[str, Meta(max_length=1024, description="Seconds one way, labels source and destination.")] = (
        "hyperscale_link_latency_seconds"
    )
    link_bandwidth: Annotated[str, Meta(max_length=1024, description="Bytes a second, labels source and destination.")] = (
        "hyperscale_link_bandwidth_bytes_per_second"
    )

    link_loss: Annotated[
        str,
        Meta(max_length=1024, description="Part of the probes that got no answer, 0..1; 1 is a dead link; labels source and destination."),
    ] = "hyperscale_link_probe_loss_ratio"
    agent_state: Annotated[str, Meta(max_length=1024, description="Any series of the node agents: tells theirs from other exporters'.")] = (
        "hyperscale_agent_state"
    )
    gpu_paths: Annotated[
        str, Meta(max_length=1024, description="Fewest NVLinks between two GPUs of a node, 1 for other ways; labels node and kind.")
    ] = "min by (node, kind) (hyperscale_gpu_path)"
    network_speed: Annotated[str, Meta(max_length=1024, description="Bytes a second that a network card can carry.")] = (
        f"node_network_speed_bytes{{{CARDS}}}"
    )
    network_received: Annotated[str, Meta(max_length=1024, description="Bytes a second that a network card receives.")] = (
        f"rate(node_network_receive_bytes_total{{{CARDS}}}[2m])"
    )
    network_sent: Annotated[str, Meta(max_length=1024, description="Bytes a second that a network card sends.")] = (
        f"rate(node_network_transmit_bytes_total{{{CARDS}}}[2m])"
    )
    infiniband_speed: Annotated[str, Meta(max_length=1024, description="Bytes a second that an InfiniBand port can carry.")] = (
        "node_infiniband_rate_bytes_per_second"
    )
    infiniband_received: Annotated[str, Meta(max_length=1024, description="Bytes a second that an InfiniBand port receives.")] = (
        "rate(node_infiniband_port_data_received_bytes_total[2m])"
    )
    infiniband_sent: Annotated[str, Meta(max_length=1024, description="Bytes a second that an InfiniBand port sends.")] = (
        "rate(node_infiniband_port_data_transmitted_bytes_total[2m])"
    )
