"""Jobs at risk that the benchmark of the twin plays: laws, spares, lemons, preemption, slow nodes; public clusters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from msgspec.structs import replace

from hyperscale.evaluate.twin.twin_types import (
    JobRisk,
    LawFamily,
    LifeLaw,
    NodeRisk,
    PreemptionRisk,
    Slowdown,
    exponential,
    fixed,
)

HOUR = 3600.0
DAY = 24.0 * HOUR
GPUS_PER_NODE = 8

WEIBULL_EARLY = LifeLaw(LawFamily.WEIBULL, 40.0 * DAY, 0.7)
WEIBULL_LATE = LifeLaw(LawFamily.WEIBULL, 20.0 * DAY, 2.6)
PREEMPTION = PreemptionRisk(1.0 / (5.0 * DAY), exponential(2.0 * HOUR))


def job(laws: Mapping[str, LifeLaw], nodes: int = 16, spares: int = 0, aged_days: float = 0.5) -> JobRisk:
    """Ten days of work on nodes of different ages, repairs of one day, a checkpoint each hour."""
    repair = exponential(DAY)
    members = tuple(NodeRisk(f"node-{index}", laws, repair, age_seconds=index * aged_days * DAY) for index in range(nodes))
    extra = tuple(NodeRisk(f"spare-{index}", laws, repair) for index in range(spares))
    return JobRisk(members, 10.0 * DAY, HOUR, 300.0, 900.0, extra)


def with_lemon(at_risk: JobRisk, factor: float) -> JobRisk:
    """The same with the fourth node a lemon."""
    nodes = list(at_risk.nodes)
    nodes[3] = replace(nodes[3], lemon_factor=factor)
    return replace(at_risk, nodes=tuple(nodes))


def with_slow_node(at_risk: JobRisk) -> JobRisk:
    """The same with the fifth node slow for four days."""
    nodes = list(at_risk.nodes)
    nodes[4] = replace(nodes[4], slowdowns=(Slowdown(1.5, HOUR, 4.0 * DAY),))
    return replace(at_risk, nodes=tuple(nodes))


def oracle_cases() -> dict[str, JobRisk]:
    """Jobs by name: each law alone, and with spares, a lemon, preemption and a slow node."""
    plain = {"gpu": exponential(40.0 * DAY)}
    early, late = {"gpu": WEIBULL_EARLY}, {"gpu": WEIBULL_LATE}
    mixed = {"gpu": LifeLaw(LawFamily.LOGNORMAL, 40.0 * DAY, 1.2), "network": LifeLaw(LawFamily.GAMMA, 30.0 * DAY, 2.2)}
    return {
        "exponential": job(plain),
        "exponential, spare, lemon, preemption": replace(with_lemon(job(plain, spares=1), 4.0), preemption=PREEMPTION),
        "Weibull 0.7": job(early),
        "Weibull 0.7, 2 spares, lemon, slow node": with_slow_node(with_lemon(job(early, spares=2), 3.0)),
        "Weibull 2.6": job(late),
        "Weibull 2.6, spare, lemon, preemption, slow node": replace(
            with_slow_node(with_lemon(job(late, spares=1), 2.0)), preemption=PREEMPTION
        ),
        "1,024 GPUs, Weibull 0.7, 2 spares": large(replace(WEIBULL_EARLY, scale_seconds=200.0 * DAY), 5.0),
        "lognormal and gamma, preemption of one hour": replace(job(mixed), preemption=PreemptionRisk(1.0 / (3.0 * DAY), fixed(HOUR))),
    }


def large(law: LifeLaw, days: float = 14.0, spares: int = 2) -> JobRisk:
    """A job of 1,024 GPUs: 128 nodes of 8, one day between their ages."""
    return replace(job({"gpu": law}, 128, spares, aged_days=1.0), work_seconds=days * DAY, write_seconds=180.0, restart_seconds=600.0)


def unreliable(law: LifeLaw) -> JobRisk:
    """Two new nodes that are repaired at once; with lives of half a day the law's shape shows. A checkpoint takes 5 minutes."""
    return replace(
        job({"gpu": law}, 2),
        nodes=tuple(NodeRisk(f"node-{index}", {"gpu": law}, fixed(0.0)) for index in range(2)),
        work_seconds=5.0 * DAY,
        restart_seconds=300.0,
    )


class PublicCluster(NamedTuple):
    """A published failure figure, and what its source says of a size. None: it says nothing."""

    name: str
    per_node_day: float
    gpus: int
    mttf_hours: float | None
    ettr: float | None
    remark: str


RSC_1, RSC_2 = 6.50e-3, 2.34e-3
LLAMA_3 = 419 / 54 / (16384 / GPUS_PER_NODE)
PUBLIC = (
    PublicCluster("RSC-1", RSC_1, 1024, 7.9, None, "measured"),
    PublicCluster("RSC-1", RSC_1, 16384, 1.8, None, "projected"),
    PublicCluster("RSC-1", RSC_1, 131072, 0.23, None, "projected"),
    PublicCluster("RSC-2", RSC_2, 1024, None, None, ""),
    PublicCluster("RSC-2", RSC_2, 16384, None, None, ""),
    PublicCluster("Llama 3", LLAMA_3, 16384, 3.09, 0.90, "measured, ETTR is a lower bound"),
    PublicCluster("ByteRobust, at Llama 3's rate", LLAMA_3, 9600, None, 0.97, "measured, its rate is not published"),
)
"""arXiv 2410.21680 (RSC-1, RSC-2), the Llama 3 paper, arXiv 2509.16293 (ByteRobust)."""


def public_job(per_node_day: float, gpus: int, interval_seconds: float, restart_seconds: float, write_seconds: float) -> JobRisk:
    """Fourteen days of work; repairs end at once, as if spares never ran out."""
    nodes = gpus // GPUS_PER_NODE
    law = {"any": exponential(DAY / per_node_day)}
    members = tuple(NodeRisk(f"node-{index}", law) for index in range(nodes))
    return JobRisk(members, 14.0 * DAY, interval_seconds, write_seconds, restart_seconds)
