"""What an evaluation is asked: a job with its plan, the cluster, what is assumed of failures, and what finished runs taught."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from hyperscale.evaluate.calibration.calibration_report import CalibrationReport
from hyperscale.evaluate.calibration.past_run import PastRun
from hyperscale.evaluate.forecast.forecast_types import ForecastRun
from hyperscale.evaluate.forecast.run_facts import RunFacts
from hyperscale.evaluate.impact.queue_figures import QueueFigures
from hyperscale.evaluate.twin.failure_table import NO_FAILURES, UnitRecord, fitted_laws, pooled
from hyperscale.evaluate.twin.fit_laws import FittedLaw
from hyperscale.evaluate.twin.twin_types import LifeLaw, exponential
from hyperscale.model.api.evaluation_policy import EvaluationPolicy
from hyperscale.model.api.job import JobSpec
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.api.preflight_report import PreflightReport
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.evaluation import ProductFit
from hyperscale.model.plan import Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.util.rfc3339 import duration_text

BUILT_IN: Final = EvaluationPolicy()
DAY_SECONDS: Final = 86_400.0
ASSUMED_FAILURES: Final = 6.50
"""Per 1,000 node-days: RSC-1, 16,000 A100 (arXiv 2410.21680)."""
ASSUMED_REPAIR_SECONDS: Final = 14_400.0
ASSUMED_RESTART_SECONDS: Final = float(BUILT_IN.restart_seconds)
"""To detect a failure, create the pods again and load the graph."""
ASSUMED_WRITE_SECONDS: Final = BUILT_IN.checkpoint_write_seconds
"""Of one checkpoint: a GNN's parameters are megabytes; the volume's latency rules."""
FUTURES: Final = 10_000
MAX_UNITS: Final = 128
"""Of a node: each of them is played."""
MAX_CAUSES: Final = 8
"""That have a law of their own each; rarer ones share one."""
MAX_CAUSE: Final = 40
"""Characters of a cause in a sentence."""


@dataclass(frozen=True)
class FailureAssumption:
    """How the nodes of a plan fail and are repaired."""

    laws: Mapping[str, LifeLaw]
    """By cause; of one node."""
    source: str
    """A sentence for people."""
    repair_seconds: float = ASSUMED_REPAIR_SECONDS
    """From a failure until the node can take part again, as a new one."""
    age_seconds: float = 0.0
    """Of the nodes at the start of the job."""


def constant_rate(per_thousand_node_days: float, source: str) -> FailureAssumption:
    """Return failures without memory at a rate as published fleets state it; raises ValueError for a rate that is none."""
    if not 0.0 <= per_thousand_node_days < math.inf:
        raise ValueError(f"{per_thousand_node_days} failures per 1,000 node-days: write a number from 0")
    laws = {"any": exponential(1_000.0 * DAY_SECONDS / per_thousand_node_days)} if per_thousand_node_days > 0.0 else {}
    return FailureAssumption(laws, source)


def assumed_failures() -> FailureAssumption:
    """Return what is taken where nothing is known of the nodes."""
    return constant_rate(
        ASSUMED_FAILURES,
        f"Assumed: {ASSUMED_FAILURES:.2f} failures per 1,000 node-days, as published for 16,000 A100 (arXiv 2410.21680); "
        "say what your nodes do with --failures or --failure-rate, or in the PlannerPolicy.",
    )


def failures_of(policy: EvaluationPolicy) -> FailureAssumption:
    """Return what the policy says of failures and repairs; the published rate where it says none."""
    rate = policy.failures_per_thousand_node_days
    taken = assumed_failures() if rate is None else constant_rate(rate, f"By the PlannerPolicy: {rate:g} failures per 1,000 node-days.")
    return with_repair(taken, policy)


def with_repair(failures: FailureAssumption, policy: EvaluationPolicy) -> FailureAssumption:
    """Return the failures with the repair time that the policy states, if it states one."""
    return failures if policy.repair_seconds is None else replace(failures, repair_seconds=float(policy.repair_seconds))


def of_table(records: Sequence[UnitRecord], until_seconds: float | None = None) -> FailureAssumption:
    """Return each cause's law as fitted to a table of events; raises ValueError where nothing in it failed.

    until_seconds: end of the records; None takes the latest time in them.
    Of many causes the rare ones are taken as one: a fit takes time, and every law of every unit is played.
    A location `node/unit` is one of several units of its node, which fails when one of them does. Units of a class are alike.
    """
    if not any(record.failed for record in records):
        raise ValueError("no unit was removed for a failure, so no law can be fitted; use --failure-rate instead")
    records, rare = pooled(records, MAX_CAUSES)
    units = _units_by_class(records)
    fits = {names: fitted for names, fitted in fitted_laws(records, until_seconds).items() if names[1].lower() not in NO_FAILURES}
    laws = {
        "/".join(filter(None, (*names, str(number)))): fitted.law for names, fitted in fits.items() for number in range(units[names[0]])
    }
    age = _age_seconds(records, until_seconds)
    return FailureAssumption(laws, _source(records, rare, sum(units.values()), age, fits), age_seconds=age)


def _source(records: Sequence[UnitRecord], rare: int, units: int, age: float, fits: Mapping[tuple[str, str], FittedLaw]) -> str:
    """What was fitted. rare: causes that are taken as one; units: on a node; age: of the nodes, in seconds."""
    failed = [record.cause for record in records if record.failed]
    shown = f"{duration_text(age)} old" if age > 0.0 else "new"
    source = (
        f"Fitted to {len(records)} rows, {len(failed)} of which are failures ({_names(failed)}), {units} units on a node; "
        f"nodes are taken as {shown}."
    )
    if rare:
        source += f" The {MAX_CAUSES} most frequent causes have a law each; {rare} rarer ones are taken as one."
    if alike := _names(cause for (_, cause), fitted in fits.items() if fitted.alike):
        source += f" All failures of {alike} came at one age: a constant rate is taken, as one age shows no spread."
    return source


def _names(causes: Iterable[str]) -> str:
    return ", ".join(sorted({cause[:MAX_CAUSE] for cause in causes})[: MAX_CAUSES + 1])


def _units_by_class(records: Sequence[UnitRecord]) -> dict[str, int]:
    """Most units of each class on a node. Raises ValueError for nodes of several kinds, and for more units than can be played."""
    counts: dict[str, Counter[str]] = {}
    for record in {record.location: record for record in records}.values():
        node = record.location.rpartition("/")[0] or record.location
        counts.setdefault(node, Counter())[record.unit_class] += 1
    kinds = {tuple(sorted(each)) for each in counts.values()}
    if len(kinds) > 1:
        shown = " and ".join("+".join(kind) for kind in sorted(kinds)[:3])
        raise ValueError(f"nodes of several kinds ({shown[:200]}); give the rows of the kind that the job is planned on")
    most = {unit_class: max(each[unit_class] for each in counts.values()) for kind in kinds for unit_class in kind}
    if sum(most.values()) > MAX_UNITS:
        raise ValueError(f"{sum(most.values())} units on one node; give at most {MAX_UNITS}, or rows of whole nodes")
    return most


def _age_seconds(records: Sequence[UnitRecord], until_seconds: float | None) -> float:
    """Median age of the units in service at the end of the records; 0 where none is."""
    ends = (record.insert_seconds if record.remove_seconds is None else record.remove_seconds for record in records)
    last = max(ends) if until_seconds is None else until_seconds
    ages = sorted(last - record.insert_seconds for record in records if record.remove_seconds is None)
    return max(0.0, ages[len(ages) // 2]) if ages else 0.0


class OwnDeadline(NamedTuple):
    """The deadline that a job states itself."""

    seconds: float | None = None
    """From its first epoch on; None without one."""
    note: str = ""
    """What was taken off for its start; empty without a deadline."""


def first_epoch_deadline(job: JobSpec, start_seconds: float = ASSUMED_RESTART_SECONDS) -> OwnDeadline:
    """Return the job's own deadline from its first epoch on; its clock also counts the start of its pods, about one restart."""
    active = job.run_policy.active_deadline_seconds
    if active is None:
        return OwnDeadline()
    left = active - start_seconds
    off = f"{duration_text(start_seconds)} are taken off for the start of its pods, as for a restart"
    note = (
        f"Of its runPolicy.activeDeadlineSeconds of {duration_text(active)}, {off}{'' if left >= 1.0 else ', and nothing is left'}. "
        "Say what a start takes with --restart-seconds or in the PlannerPolicy."
    )
    return OwnDeadline(max(1.0, left), note)


@dataclass(frozen=True)
class TriedJob:
    """A preflight, and what follows from it for the plan."""

    report: PreflightReport
    too_small: tuple[str, ...] = ()
    """A sentence for each GPU product of the plan that the job is predicted not to fit."""
    fits: tuple[ProductFit, ...] = ()


@dataclass(frozen=True)
class EvaluationQuestion:
    """Everything that an evaluation depends on; the same question gives the same bytes."""

    plan: Plan
    request: PlanRequest
    snapshot: ClusterSnapshot
    failures: FailureAssumption
    deadline_seconds: float | None = None
    """From the start of the job."""
    deadline_note: str = ""
    """Where the deadline came from, for people; empty for one that was given."""
    write_seconds: float = ASSUMED_WRITE_SECONDS
    restart_seconds: float = ASSUMED_RESTART_SECONDS
    queue: QueueFigures | None = None
    """None where it is not known who runs and who waits."""
    policy: PolicySpec = field(default_factory=PolicySpec)
    runs: tuple[ForecastRun, ...] = ()
    """Finished ones that teach."""
    past: tuple[PastRun, ...] = ()
    """Predictions of finished runs with what happened, oldest first."""
    report: CalibrationReport | None = None
    """What finished runs say of the stages; None judges them by `past`."""
    facts: tuple[RunFacts, ...] = ()
    """What is known of finished runs, failed ones too, oldest first."""
    given_by: PolicySpec | None = None
    """Of a plan from a file: the policy to compute its figures again by. None for a plan that was made just now."""
    model_faults: tuple[str, ...] = ()
    """Why the model does not train, as the command line found out."""
    model_notes: tuple[str, ...] = ()
    """What else is known of the model."""
    futures: int = FUTURES
    seed: int = 0
    stages: frozenset[str] = field(default_factory=frozenset)
    """Those to ask; empty asks all but the preflight, which runs the author's code."""
    preflight: TriedJob | None = None
    """What a preflight said; only where it was asked for."""
