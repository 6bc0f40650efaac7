"""How far a prediction may be trusted: the fallbacks behind its figures and the range that follows. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
import numpy as np

from hyperscale.model.api.job import Architecture
from hyperscale.model.cluster import Node
from hyperscale.model.graph import IntArray
from hyperscale.model.history.corrections import COST_MODEL, Corrections, PredictedPart
from hyperscale.model.history.step_curves import ABSURD_RATIO, Step, StepTime, placed
from hyperscale.model.plan import MIN_SPREAD, Calibration, Correction, Plan, Prediction
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.check.artifact import rounded
from hyperscale.planner.choice.bounded_by import ESTIMATED
from hyperscale.planner.choice.confidence import link_confidence, use_confidence
from hyperscale.planner.choice.slower_ways import FABRIC_NOT_REQUESTED, fabric_not_requested, shared_by_pods, slower_exchange_seconds
from hyperscale.planner.choice.stated_epoch import StatedEpoch
from hyperscale.planner.choice.used_nodes import UsedNodes
from hyperscale.planner.cost.objective import Breakdown
from hyperscale.planner.cost.steptime import predict
from hyperscale.planner.problem.corrections import applied, log_error
from hyperscale.planner.problem.placement_problem import Problem

LINKS_ESTIMATED: Final = "LinksEstimatedFromLabels"
UTILIZATION_UNKNOWN: Final = "UtilizationUnknown"
SPEED_ASSUMED: Final = "GPUSpeedAssumed"
TOPOLOGY_UNKNOWN: Final = "TopologyUnknown"
INTRA_NODE_LINK_ASSUMED: Final = "IntraNodeLinkAssumed"

COMPUTE_RANGE: Final = (0.75, 1.35)
"""Of compute time with every figure known: the cost model's own error on published epoch times (docs/explanation/planner.md)."""
UNSURE_COMPUTE_RANGE: Final = (0.4, 2.6)
"""The same for GAT, whose published times the model misses by so much, for Custom and a script's own sampler, which it cannot see."""
UTILIZATION_RANGE: Final = (0.8, 2.0)
"""More where the utilization of the GPUs is unknown."""
SPEED_RANGE: Final = (0.33, 2.0)
"""More where the card is in no table."""
MEASURED_LINK_RANGE: Final = (0.8, 1.5)
"""Of communication time over measured links: others use them as well."""
ESTIMATED_LINK_RANGE: Final = (0.3, 3.0)
"""Of communication time over links estimated from labels: networks of one tier differ by so much. Insides of nodes too."""


NOTABLE_HOPE: Final = 0.02
"""Of the epoch, from which a plan says that it explores."""
MIN_RUNS_OF_RANGE: Final = 5
"""Finished runs of an architecture from which their errors are the range of its corrected plans."""
CALIBRATED_SPREADS: Final = 2.0
"""Spreads about the median that a calibrated prediction spans: 95 % of runs where their logarithms are normal."""
IDLE_UTILIZATION: Final = 0.1
"""Of planned GPUs, up to which a curve speaks of them: it was learnt from runs that had theirs for themselves."""


def correction(problem: Problem, order: IntArray, figures: Breakdown, stated: StatedEpoch) -> Correction | None:
    """What finished runs teach about ranks on the candidates `order` (k,), predicted at `figures`; None where they teach nothing.

    stated: the epoch without the corrections that the search worked with, and as they expect it
    The curve of the workload where it reaches the placement; else those corrections; else one factor for the architecture on such GPUs.
    """
    calibration, corrections = _calibration(problem, order), problem.request.corrections
    works = 0.0 < stated.seconds < math.inf and 0.0 < figures.epoch_seconds < math.inf
    searched = rounded(figures.epoch_seconds / stated.seconds) if corrections is not None and works else 1.0
    if calibration is not None and works and (by_curve := _by_curve(problem, order, figures, calibration, searched)) is not None:
        return by_curve
    if corrections is not None:
        products = mix(problem.graph.nodes[problem.nodes[member]].gpu_product for member in order)
        expected = rounded(stated.expected_seconds / stated.seconds) if works else 1.0
        return Correction(products, expected, rounded(corrections.spread), corrections.runs, search_factor=searched)
    return Correction(calibration.products, calibration.factor, calibration.spread, calibration.runs) if calibration is not None else None


def _by_curve(problem: Problem, order: IntArray, figures: Breakdown, calibration: Calibration, searched: float) -> Correction | None:
    """The workload's own curve where it reaches the placement, and is not absurdly far from the cost model there.

    searched: what the search multiplied its seconds with
    """
    curve = calibration.curve
    seconds = _curve_seconds(problem, order, curve) if curve is not None else None
    if curve is None or seconds is None:
        return None
    factor = rounded(seconds / figures.epoch_seconds * searched)
    if not 1.0 / ABSURD_RATIO <= factor <= ABSURD_RATIO:
        return None
    return Correction(calibration.products, factor, curve.log_error, curve.runs, by_curve=True, search_factor=searched)


def shown_ratio(correction: Correction | None) -> float:
    """What the planners' own seconds are multiplied with to be shown: their corrections are in them already."""
    return correction.factor / correction.search_factor if correction is not None else 1.0


def source(predicted: Prediction, problem: Problem, order: IntArray) -> tuple[str, ...]:
    """What an epoch waits for, and sentences on what finished runs changed: the factors of the search, the curve of the epoch."""
    correction, corrections = predicted.calibration, problem.request.corrections
    sentences = [f"An epoch waits longest for {predicted.bound_by}."]
    if predicted.bound_by.endswith(ESTIMATED):
        sentences.append("That link was not measured: have the agent measure it, or state it in the PlannerPolicy's overrides.links.")
    if _probed_beside_fabric(problem, order):
        sentences.append("Its nodes are on one fabric, so that the fabric's rate counts and not what agents measured on the pod network.")
    sentences += _by_history(corrections, correction, problem, order) if corrections is not None else []
    if correction is not None and correction.by_curve:
        gpus = correction.products or "such GPUs"
        sentences.append(
            f"Its epoch is predicted from steps of {correction.runs} finished runs of this workload on {gpus}, not by the cost model alone."
        )
    elif _lacks_agreement(problem, order):
        sentences.append(
            "No two namespaces that agree have run this workload on such a placement: the cost model predicts it, and its range counts too."
        )
    return tuple(sentences)


def _probed_beside_fabric(problem: Problem, order: IntArray) -> bool:
    """True where figures of links between the nodes do not count, because agents took them on the pod network."""
    links = problem.graph.links
    if links.answered is None or problem.graph.machine.fabric is None:
        return False
    ends = links.key[links.answered & np.isnan(links.bandwidth_bytes_per_second)]
    used, count = problem.nodes[np.unique(order)], len(problem.graph.nodes)
    return bool((np.isin(ends // count, used) & np.isin(ends % count, used)).any())


def _by_history(corrections: Corrections, correction: Correction | None, problem: Problem, order: IntArray) -> list[str]:
    """Sentences on the factors that chose, and on what the search hoped for."""
    sentences = [applied(corrections, [problem.graph.nodes[position] for position in problem.nodes[np.unique(order)]])]
    hope = shown_ratio(correction) - 1.0 if correction is not None and not correction.by_curve else 0.0
    if hope > NOTABLE_HOPE:
        sentences.append(f"Few runs have tried such hardware: the search counted it {100.0 * hope:.0f} % faster than expected, to learn.")
    return sentences


def held_fast(request: PlanRequest, plan: Plan) -> PlanRequest:
    """The question with factors only, that of the plan in force where a curve made it: fresh measurements must show, whatever they change.

    A curve knows what placements took on other days; whether this one has become slower since is the cost model's to say.
    A factor of an earlier cost model's seconds says nothing of today's.
    No running job moves in the hope for what was not tried.
    """
    used = plan.predicted.calibration
    by_products = {one.products: msgspec.structs.replace(one, curve=None) for one in request.calibration}
    if used is not None and used.by_curve and plan.predicted.cost_model == COST_MODEL:
        by_products[used.products] = Calibration(used.products, used.factor, used.spread, used.runs)
    corrections = msgspec.structs.replace(request.corrections, explores=False) if request.corrections is not None else None
    return msgspec.structs.replace(request, calibration=tuple(by_products.values()), corrections=corrections)


def _calibration(problem: Problem, order: IntArray) -> Calibration | None:
    products = mix(problem.graph.nodes[problem.nodes[member]].gpu_product for member in order)
    return next((calibration for calibration in problem.request.calibration if calibration.products == products), None)


def _curve_seconds(problem: Problem, order: IntArray, curve: StepTime) -> float | None:
    """Of one epoch; None where no such placement was measured, or others keep its GPUs busy, of which the curve knows nothing."""
    if float(problem.utilization[order].max()) > IDLE_UTILIZATION:
        return None
    step, steps = _placed(problem, order)
    return steps * float(predict(curve, [step])[0]) if curve.reaches(step.gpus) else None


def _placed(problem: Problem, order: IntArray) -> tuple[Step, int]:
    gpus: dict[str, int] = {}
    for member in order:
        name = problem.names[member]
        gpus[name] = gpus.get(name, 0) + problem.demand.gpus
    return placed(gpus, problem.workload.vertices, problem.workload.batch_size)


def _lacks_agreement(problem: Problem, order: IntArray) -> bool:
    """Whether the curve that several namespaces taught does not reach the placement: a single one of them would decide there."""
    calibration = _calibration(problem, order)
    curve = calibration.curve if calibration is not None else None
    return curve is not None and curve.most_nodes > 0 and not curve.reaches(_placed(problem, order)[0].gpus)


def mix(products: Iterable[str | None]) -> str:
    """`Calibration.products` of workers on such GPUs."""
    return "+".join(sorted({product for product in products if product}))


def corrected_range(correction: Correction, figures: Breakdown, doubt: float = 0.0) -> tuple[float, float]:
    """Low and high epoch seconds by how much finished runs differed.

    doubt: standard error of ln(seconds) of the placement's own factors, which adds to the spread in squares
    """
    width = math.exp(CALIBRATED_SPREADS * math.hypot(max(correction.spread, MIN_SPREAD), doubt))
    middle = shown_ratio(correction) * figures.epoch_seconds
    return middle / width, middle * width


def stated_range(used: UsedNodes, figures: Breakdown, correction: Correction | None, parts: Sequence[PredictedPart]) -> tuple[float, float]:
    """Low and high epoch seconds: by finished runs where enough of them taught this architecture, else by what is not known.

    By both, whichever is wider, where namespaces have runs of this workload that do not agree about the placement.
    """
    corrections = used.problem.request.corrections
    low, high = (shown_ratio(correction) * seconds for seconds in prediction_range(used, figures))
    if correction is None or (corrections is not None and not correction.by_curve and corrections.runs < MIN_RUNS_OF_RANGE):
        return low, high
    doubt = log_error(corrections, parts) if corrections is not None and not correction.by_curve else 0.0
    least, most = corrected_range(correction, figures, doubt)
    apart = not correction.by_curve and _lacks_agreement(used.problem, used.order)
    return (min(low, least), max(high, most)) if apart else (least, most)


def fallbacks(used: UsedNodes) -> tuple[str, ...]:
    """Steps down behind the plan on these nodes, in a fixed order; those of nodes not planned do not count."""
    steps: list[str] = []
    problem, members = used.problem, used.members
    if not _links_measured(used):
        steps.append(LINKS_ESTIMATED)
        if not problem.graph.snapshot.levels:
            steps.append(TOPOLOGY_UNKNOWN)
    if not problem.utilization_known[members].all():
        steps.append(UTILIZATION_UNKNOWN)
    assumed = {_kind(problem.graph.nodes[problem.nodes[member]]) for member in members if problem.speeds[member].assumed}
    steps += [f"{SPEED_ASSUMED}:{product}" for product in sorted(assumed)]
    steps += [
        f"{INTRA_NODE_LINK_ASSUMED}:{product}"
        for product in sorted({_kind(problem.graph.nodes[place]) for place in _assumed_insides(used)})
    ]
    return (*steps, FABRIC_NOT_REQUESTED) if fabric_not_requested(used) else tuple(steps)


def prediction_range(used: UsedNodes, figures: Breakdown) -> tuple[float, float]:
    """Low and high epoch seconds: each part of the prediction stretched by what is not known about its figures."""
    problem, members = used.problem, used.members
    model = problem.job.model
    unsure = model.architecture in (Architecture.GAT, Architecture.CUSTOM) or (model.batch_size is not None and model.script is not None)
    low, high = UNSURE_COMPUTE_RANGE if unsure else COMPUTE_RANGE
    places = problem.nodes[members].tolist()
    use_low, use_high = _doubted((1.0, 1.0), UTILIZATION_RANGE, use_confidence(problem.graph, places))
    if not problem.utilization_known[members].all():
        use_low, use_high = UTILIZATION_RANGE
    low, high = low * use_low, high * use_high
    if any(problem.speeds[member].assumed for member in members):
        low, high = low * SPEED_RANGE[0], high * SPEED_RANGE[1]
    link_low, link_high = ESTIMATED_LINK_RANGE
    if _links_measured(used) and not _assumed_insides(used):
        link_low, link_high = _doubted(MEASURED_LINK_RANGE, ESTIMATED_LINK_RANGE, link_confidence(problem.graph, places))
    network = figures.communication_seconds
    rest = max(0.0, figures.epoch_seconds - network)
    slowest = max(network * link_high, slower_exchange_seconds(used) * MEASURED_LINK_RANGE[1])
    return rest * low + network * link_low, rest * high + slowest


def _doubted(sure: tuple[float, float], unsure: tuple[float, float], confidence: float) -> tuple[float, float]:
    """A range between that of sure and that of unknown figures."""
    low, high = (unknown + confidence * (with_measurements - unknown) for with_measurements, unknown in zip(sure, unsure, strict=True))
    return low, high


def _kind(node: Node) -> str:
    """Product, else compute capability, of a GPU that a figure is assumed for."""
    major = node.labels.get("nvidia.com/gpu.compute.major")
    capability = f"compute-{major}.{node.labels.get('nvidia.com/gpu.compute.minor', '0')}" if major else "unlabelled"
    return node.gpu_product or capability


def _links_measured(used: UsedNodes) -> bool:
    """True where every pair of different planned nodes has samples of both figures."""
    return bool((used.links.measured | np.eye(len(used.members), dtype=np.bool_)).all())


def _assumed_insides(used: UsedNodes) -> list[int]:
    """Positions of the nodes where ranks exchange by an inside that neither an agent nor the policy tells, or from pod to pod."""
    problem = used.problem
    nodes, inner = problem.nodes[used.members], used.workers * problem.demand.gpus > 1
    assumed = inner & ~problem.graph.inside.stated[nodes]
    assumed[shared_by_pods(used)] = True
    return [int(place) for place in nodes[assumed]]
