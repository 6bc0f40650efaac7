"""Epoch seconds from first principles: compute over ranks, halo exchange by the cut law, allreduce, links inside and between hosts.

For runs without a plan, such as published tables. A plan brings its own physical seconds, per placement, from planner/cost.
"""

from __future__ import annotations

from dataclasses import dataclass

from hyperscale.model.workload import WorkloadProfile


@dataclass(frozen=True, slots=True)
class HostFigures:
    """What hosts of one kind sustain."""

    flops_per_second: float
    """Of one GPU."""
    inside_bytes_per_second: float
    """One way, between two GPUs of a host."""
    between_bytes_per_second: float
    """One way, of one host's network, shared by its GPUs."""
    fetch_bytes_per_second: float
    """Features from the host's memory to one GPU; +inf where they lie in GPU memory."""
    inside_seconds: float = 5e-6
    between_seconds: float = 20e-6
    """Latency of one message."""


@dataclass(frozen=True, slots=True)
class EpochParts:
    """Seconds of one epoch by cause; they do not overlap."""

    compute: float
    fetch: float
    halo: float
    allreduce: float
    overhead: float

    @property
    def seconds(self) -> float:
        """Of the epoch."""
        return self.compute + self.fetch + self.halo + self.allreduce + self.overhead

    @property
    def communication(self) -> float:
        """Of the epoch, waiting for other ranks."""
        return self.halo + self.allreduce


def physical_epoch(work: WorkloadProfile, figures: HostFigures, ranks: int, hosts: int) -> EpochParts:
    """Return the seconds of one epoch on `ranks` GPUs, spread evenly over `hosts`.

    Halo bytes grow with ranks by the cut law of `WorkloadProfile.replication`. A share of (ranks - ranks a host) / (ranks - 1) crosses
    hosts. The ring costs 2 (p - 1) latencies and 2 (p - 1) / p payloads over its slowest hop (Patarasuk & Yuan 2009).
    Raises ValueError where ranks or hosts are below 1, or hosts exceed ranks.
    """
    if not 1 <= hosts <= ranks:
        raise ValueError(f"{hosts} hosts for {ranks} ranks; write 1 <= hosts <= ranks")
    on_host = ranks / hosts
    steps = work.steps(ranks, 1)
    a_rank = work.halo_bytes(ranks, ranks, 1) / ranks
    away = (ranks - on_host) / (ranks - 1) if ranks > 1 else 0.0
    latency = figures.between_seconds if hosts > 1 else figures.inside_seconds
    halo = a_rank * (1.0 - away) / figures.inside_bytes_per_second + a_rank * away * on_host / figures.between_bytes_per_second
    halo += steps * work.exchanges_per_step * latency if ranks > 1 else 0.0
    hop = min(figures.inside_bytes_per_second, figures.between_bytes_per_second) if hosts > 1 else figures.inside_bytes_per_second
    ring = 2.0 * (ranks - 1) * (latency + work.gradient_bytes / (ranks * hop))
    return EpochParts(
        compute=work.epoch_flops / (ranks * figures.flops_per_second),
        fetch=steps * work.fetch_bytes_per_step / figures.fetch_bytes_per_second,
        halo=halo,
        allreduce=steps * ring,
        overhead=steps * work.step_overhead_seconds,
    )
