"""What an evaluation is asked: a job with its plan, the cluster, what is assumed of failures, and what finished runs taught."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from hyperscale.evaluate.forecast.forecast_types import ForecastRun
from hyperscale.evaluate.twin.failure_table import UnitRecord, fitted_laws
from hyperscale.evaluate.twin.twin_types import LifeLaw, exponential, fixed
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.plan import Plan
from hyperscale.model.planning import PlanRequest

DAY_SECONDS: Final = 86_400.0
ASSUMED_FAILURES: Final = 6.50
"""Per 1,000 node-days: RSC-1, 16,000 A100 (arXiv 2410.21680)."""
ASSUMED_REPAIR_SECONDS: Final = 4 * 3600.0
ASSUMED_RESTART_SECONDS: Final = 120.0
"""To detect a failure, create the pods again and load the graph."""
ASSUMED_WRITE_SECONDS: Final = 2.0
"""Of one checkpoint: a GNN's parameters are megabytes; the volume's latency rules."""
FUTURES: Final = 10_000
NO_FAILURES: Final = frozenset({"healthy", "planned"})
"""Causes of a removal that say nothing of a unit's life."""
MAX_UNITS: Final = 16
"""Of a node that are played one by one."""


@dataclass(frozen=True)
class FailureAssumption:
    """How the nodes of a plan fail and are repaired."""

    laws: Mapping[str, LifeLaw]
    """By cause; of one node."""
    repair: LifeLaw
    source: str
    """A sentence for people."""


def constant_rate(per_thousand_node_days: float, source: str) -> FailureAssumption:
    """Return failures without memory at a rate as published fleets state it; raises ValueError for a rate that is none."""
    if not 0.0 <= per_thousand_node_days < math.inf:
        raise ValueError(f"{per_thousand_node_days} failures per 1,000 node-days: write a number from 0")
    laws = {"any": exponential(1_000.0 * DAY_SECONDS / per_thousand_node_days)} if per_thousand_node_days > 0.0 else {}
    return FailureAssumption(laws, fixed(ASSUMED_REPAIR_SECONDS), source)


def assumed_failures() -> FailureAssumption:
    """Return what is taken where nothing is known of the nodes."""
    return constant_rate(
        ASSUMED_FAILURES,
        f"Assumed: {ASSUMED_FAILURES:.2f} failures per 1,000 node-days, as published for 16,000 A100 (arXiv 2410.21680); "
        "say what your nodes do with --failures or --failure-rate.",
    )


def of_table(records: Sequence[UnitRecord]) -> FailureAssumption:
    """Return each cause's law as fitted to a table of events; raises ValueError where nothing in it failed.

    A location `node/unit` is one of several units of its node: a node fails when one of its units does.
    """
    failed = [record for record in records if record.remove_seconds is not None and record.cause not in NO_FAILURES]
    if not failed:
        raise ValueError("no unit was removed for a failure, so no law can be fitted; use --failure-rate instead")
    units = _units_of_a_node(records)
    laws = {
        "/".join(part for part in (unit_class, cause, str(number)) if part): fitted.law
        for (unit_class, cause), fitted in fitted_laws(records).items()
        for number in range(0 if cause in NO_FAILURES else min(units, MAX_UNITS))
    }
    causes = sorted({record.cause for record in failed})
    source = f"Fitted to {len(records)} units, {len(failed)} of which failed ({', '.join(causes[:8])}), {units} on a node."
    return FailureAssumption(laws, fixed(ASSUMED_REPAIR_SECONDS), source)


def _units_of_a_node(records: Sequence[UnitRecord]) -> int:
    """Locations of the node that has most of them."""
    locations = {record.location for record in records}
    return max(Counter(location.partition("/")[0] for location in locations).values())


@dataclass(frozen=True)
class EvaluationQuestion:
    """Everything that an evaluation depends on; the same question gives the same bytes."""

    plan: Plan
    request: PlanRequest
    snapshot: ClusterSnapshot
    failures: FailureAssumption
    deadline_seconds: float | None = None
    """From the start of the job."""
    write_seconds: float = ASSUMED_WRITE_SECONDS
    restart_seconds: float = ASSUMED_RESTART_SECONDS
    runs: tuple[ForecastRun, ...] = ()
    """Finished ones."""
    futures: int = FUTURES
    seed: int = 0
    stages: frozenset[str] = field(default_factory=frozenset)
    """Those to ask; empty asks all."""
