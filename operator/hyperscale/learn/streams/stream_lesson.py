"""`hyperscale learn streams`: the agent over the stream of jobs, from nothing to judged weights."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
from safetensors.numpy import save
from torch.utils.tensorboard import SummaryWriter

from hyperscale.learn.lesson import Assignment, LessonError, LessonProgress, LessonVerdict
from hyperscale.learn.publish import replace_file
from hyperscale.learn.streams import guard_streams, tuning
from hyperscale.learn.streams.compare import Compared, cases, compare, completions, outcomes
from hyperscale.learn.streams.episodes import Training
from hyperscale.learn.streams.gradient import parts_by_name
from hyperscale.learn.streams.guard_streams import HARD, HARD_CONDITIONS, PLAIN, held_out
from hyperscale.learn.streams.policy_guard import PolicyVerdict
from hyperscale.learn.streams.scenario import FAMILIES
from hyperscale.learn.streams.simulator import MASK_PATIENCE, OPERATORS_RULE, SHORTEST_FIRST, Network, Policy, RuleKnobs, agent, index
from hyperscale.learn.streams.training import train as learn
from hyperscale.learn.topologies import VALIDATION_SEEDS
from hyperscale.planner.queue import features, rule
from hyperscale.planner.queue.likeness import JudgedStreams
from hyperscale.planner.queue.queue_agent import NAME, TENSORS, AgentManifest, AgentUnavailableError, Prior, QueueAgent, load_agent
from hyperscale.planner.queue.wait_bounds import LONG_RUNS

VALIDATION_STREAMS: Final = 125
LARGEST_P: Final = 0.01
WORST: Final = 1.25
"""Largest ratio of a stream's time to its time under the rule."""
MAX_TO_REFUSED: Final = 1.02
"""Largest ratio to weights in use that today's guard refuses: in their place the rule would decide."""
TUNING_STREAMS: Final = 75
HARDENING: Final = Training(
    steps=80,
    sequences=24,
    jobs=120,
    mixed=0.4,
    least_bound=8.0,
    most_bound=20.0,
    low_load=0.5,
    high_load=1.3,
    rate=4e-4,
    entropy=0.005,
    wait_price=1.0,
    wait_target=0.89,
    risk=2.0,
    mixed_jobs=True,
)
"""How weights are trained further (--start): six times the streams a step, harder ones, where bad streams and long waits count more."""


def train(assignment: Assignment, report: Callable[[LessonProgress], None]) -> tuple[Path, ...]:
    """Learn, validate, write weights and manifest into the assignment's folder. Raises LessonError."""
    config, start = Training(seed=assignment.seed), None
    if assignment.start is not None:
        start, config = weights_to_start(assignment.start, dataclasses.replace(HARDENING, seed=assignment.seed))
    if assignment.steps is not None:
        config = dataclasses.replace(config, steps=assignment.steps)
    with SummaryWriter(str(assignment.folder / "curves")) as curves:

        def tell(progress: LessonProgress) -> None:
            for name, figure in progress.figures.items():
                curves.add_scalar(f"streams/{name}", figure, progress.step)
            report(progress)

        network = learn(config, assignment.folder, tell, assignment.resume, start)
    return write(network, config, assignment.folder)


def weights_to_start(folder: Path, config: Training) -> tuple[Network, Training]:
    """The network in `folder`, and the configuration that names it; the rule among its inputs is today's. Raises LessonError."""
    try:
        start, _ = network_of(load_agent(folder))
    except AgentUnavailableError as error:
        raise LessonError(f"cannot start from {folder}: {error}; name a folder with weights of the agent") from None
    return start, dataclasses.replace(config, start=hashlib.sha256(start.tobytes()).hexdigest())


def weights_to_judge(candidate: Path, in_use: Path | None) -> tuple[tuple[Network, RuleKnobs], tuple[Network, RuleKnobs] | None]:
    """Both networks with their rules; None where none are in use. Raises LessonError, which names the folder that cannot be read."""
    try:
        own = network_of(load_agent(candidate))
    except AgentUnavailableError as error:
        raise LessonError(f"cannot judge {candidate}: {error}; train first, or name the folder that a training wrote") from None
    try:
        return own, None if in_use is None else network_of(load_agent(in_use))
    except AgentUnavailableError as error:
        raise LessonError(f"the weights in use in {in_use} cannot be read: {error}; name another folder with --baseline") from None


def guarded(network: Network, knobs: RuleKnobs) -> tuple[PolicyVerdict, JudgedStreams]:
    """The guard's verdict on the agent on held-out streams of the shipped families, and what those are like."""
    streams = {PLAIN: held_out(), HARD: held_out(HARD_CONDITIONS)}
    return guard_streams.guarded(agent(network, knobs), streams, "generated families: " + ", ".join(FAMILIES))


def write(network: Network, config: Training, folder: Path, command: str = "") -> tuple[Path, ...]:
    """Weights and manifest of a trained network, with the figures of its validation against the rule and the `command` that made it."""
    content = save(parts_by_name(network))
    figures = validate(network, config.knobs)
    verdict, streams = guarded(network, config.knobs)
    manifest = AgentManifest(
        sha256=hashlib.sha256(content).hexdigest(),
        features=features.VERSION,
        prior=Prior(rule.QueueOrder.SECONDS if config.knobs.order == 0 else rule.QueueOrder.AREA, *config.knobs[1:]),
        patience=MASK_PATIENCE,
        long_runs=LONG_RUNS,
        command=command
        or f"hyperscale learn streams --seed {config.seed} --steps {config.steps}{' --start WEIGHTS' if config.start else ''}",
        start=config.start,
        seed=config.seed,
        figures={
            "ratio": figures.ratio,
            "low": figures.low,
            "high": figures.high,
            "p": figures.p,
            "worst": figures.worst,
            **verdict.figures,
        },
        judged=streams if verdict.accepted else None,
        refusals=verdict.refusals,
    )
    return write_files(folder, content, manifest)


def write_files(folder: Path, content: bytes, manifest: AgentManifest) -> tuple[Path, ...]:
    """Weights and manifest into `folder`, each in one step; their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    files = folder / f"{NAME}.safetensors", folder / f"{NAME}.json"
    replace_file(files[0], content)
    replace_file(files[1], msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")
    return files


def validate(network: Network, knobs: RuleKnobs, against: Policy | None = None) -> Compared:
    """Weighted completion times of the agent over those of the rule (or another policy), on streams that no training has seen."""
    policies = {"agent": agent(network, knobs), "other": index(knobs) if against is None else against}
    runs = outcomes(policies, cases(VALIDATION_STREAMS), VALIDATION_SEEDS)
    return compare(completions(runs["agent"]).tolist(), completions(runs["other"]).tolist())


def judge(candidate: Path, in_use: Path | None, seed: int) -> LessonVerdict:
    """Better than the operator's and a freshly tuned rule beyond chance, on no stream much worse, and no worse than the weights in use.

    Weights in use that today's guard refuses may be better by a little: in their place the rule decides.
    """
    (own, knobs), used = weights_to_judge(candidate, in_use)
    fresh = tuning.tune(seed, TUNING_STREAMS)[0].knobs
    policies = {"agent": agent(own, knobs), "default": index(OPERATORS_RULE), "fresh": index(fresh), "shortest": index(SHORTEST_FIRST)}
    if used is not None:
        policies["used"] = agent(*used)
    runs = {name: completions(ended).tolist() for name, ended in outcomes(policies, cases(VALIDATION_STREAMS), VALIDATION_SEEDS).items()}
    strongest = min(("default", "fresh"), key=lambda name: float(np.log(runs[name]).mean()))
    by_rule = compare(runs["agent"], runs[strongest])
    worst = compare(runs["agent"], runs["default"]).worst  # the rule that decides where the agent does not
    figures = {
        "ratio_to_rule": by_rule.ratio,
        "p": by_rule.p,
        "worst": worst,
        "ratio_to_shortest_first": compare(runs["agent"], runs["shortest"]).ratio,
    }
    to_used = compare(runs["agent"], runs["used"]).ratio if used is not None else 1.0
    if used is not None:
        figures["ratio_to_used"] = to_used
    verdict, _ = guarded(own, knobs)
    figures |= verdict.figures
    no_loss = used is None or to_used <= _most_to(used, to_used)
    accepted = by_rule.ratio < 1.0 and by_rule.p < LARGEST_P and worst <= WORST and no_loss and verdict.accepted
    reason = (
        f"{by_rule.ratio:.3f} of the stronger rule's weighted completion time (p = {by_rule.p:.1g}), worst of {VALIDATION_STREAMS} "
        f"streams {worst:.2f} of the operator's rule, {to_used:.3f} of the weights in use; needed: below 1, p < {LARGEST_P}, "
        f"worst <= {WORST}, at most 1 ({MAX_TO_REFUSED} where the guard refuses those)"
    )
    reason = "; ".join((reason, *verdict.refusals))
    return LessonVerdict(accepted, reason, figures)


def _most_to(used: tuple[Network, RuleKnobs], ratio: float) -> float:
    """The largest ratio to the weights in use; the guard is asked only where it matters."""
    return 1.0 if ratio <= 1.0 or ratio > MAX_TO_REFUSED or guarded(*used)[0].accepted else MAX_TO_REFUSED


def network_of(loaded: QueueAgent) -> tuple[Network, RuleKnobs]:
    """The flat weights of the simulator, and the rule that is among the inputs."""
    prior = loaded.manifest.prior
    flat = np.concatenate([loaded.weights[name].ravel() for name in TENSORS]).astype(np.float32)
    order = 0 if prior.order is rule.QueueOrder.SECONDS else 1
    return flat, RuleKnobs(type(OPERATORS_RULE.order)(order), *msgspec.structs.astuple(prior)[1:])
