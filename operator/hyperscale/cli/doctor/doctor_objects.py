"""Which API objects the operator would set apart: all of them, read with the operator's own parser, in the operator's own order."""

from __future__ import annotations

import time
from typing import Final

from hyperscale.cli.doctor.doctor_api import DoctorCluster, RequestError
from hyperscale.cli.live import BOUND_AND_LIVE
from hyperscale.control.apply import paths
from hyperscale.control.cache.cluster_cache import ClusterCache
from hyperscale.control.cache.intake import JOB, MPIJOB, NODE, POD, POLICY, Intake, Refused
from hyperscale.control.cache.listings import EVERYWHERE
from hyperscale.doctor.facts import Unusable

LISTED: Final = (
    (NODE, paths.nodes()),
    (POLICY, paths.policies()),
    (JOB, paths.jobs()),
    (MPIJOB, paths.mpijobs()),
    (POD, paths.pods()),
)


def unusable(cluster: DoctorCluster) -> tuple[Unusable, ...]:
    """In the order of kinds, then names; raises RequestError."""
    refusals: list[Refused] = []
    cache = ClusterCache(intake=Intake(refusals.append, time.time))
    for kind, path in LISTED:
        listing = cache.listings.begin(kind, EVERYWHERE, 0)
        for resource in cluster.items(path, {"fieldSelector": BOUND_AND_LIVE} if kind == POD else None):
            cache.take_listed(listing, resource)
        cache.replace_listing(listing)
    for choices in (paths.HYPERNODES, paths.KUEUE_TOPOLOGIES):
        _of_others(cluster, cache.intake, choices)
    return tuple(Unusable(one.kind, str(one.key), one.message) for one in refusals if (one.kind, one.key) in cache.intake.refused)


def _of_others(cluster: DoctorCluster, intake: Intake, choices: tuple[str, ...]) -> None:
    """Topology that other operators describe, where it can be read."""
    for path in choices:
        try:
            topologies = list(cluster.items(path))
        except RequestError:
            return
        if topologies:
            switches = path in paths.HYPERNODES
            intake.fabric(topologies if switches else [], [] if switches else topologies)
            return
