"""`hyperscale learn queue --history URL`: the agent trained further on streams like one cluster's own, judged on its later ones."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
from safetensors.numpy import save

from hyperscale.learn.lesson import Assignment, LessonError, LessonProgress, LessonVerdict, PastRun
from hyperscale.learn.publish import replace_file
from hyperscale.learn.streams import guard_streams
from hyperscale.learn.streams.compare import compare, completions
from hyperscale.learn.streams.episodes import OwnStreams, Training
from hyperscale.learn.streams.gradient import parts_by_name
from hyperscale.learn.streams.guard_streams import GuardStream
from hyperscale.learn.streams.history_streams import ClusterHistory, history_of, judging_streams, resampled, split
from hyperscale.learn.streams.own_cluster import judged_there, of_usual_workers, own_nodes, usual_gpus
from hyperscale.learn.streams.policy_guard import PolicyVerdict, apart
from hyperscale.learn.streams.scenario import RecordedJobs
from hyperscale.learn.streams.simulator import MASK_PATIENCE, Network, RuleKnobs, agent
from hyperscale.learn.streams.stream_lesson import MAX_TO_REFUSED, weights_to_judge, weights_to_start, write_files
from hyperscale.learn.streams.training import check_checkpoint
from hyperscale.learn.streams.training import train as learn
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.observe.files.bounded import SnapshotError
from hyperscale.observe.files.snapshot_files import encode_snapshot, read_snapshot
from hyperscale.planner.queue import features, rule
from hyperscale.planner.queue.likeness import JudgedStreams
from hyperscale.planner.queue.queue_agent import AgentManifest, Prior
from hyperscale.planner.queue.wait_bounds import LONG_RUNS

HISTORY: Final = "history.json"
"""The runs, in the folder of the training: judged again without the database."""
CLUSTER: Final = "cluster.json"
"""The snapshot, beside it, where one was named."""
RECORDED: Final = "later history"
DRAWN: Final = "streams drawn from the later history"
RETRAINING: Final = Training(
    seed=0,
    steps=300,
    sequences=48,
    jobs=150,
    mixed=0.25,
    least_bound=8.0,
    most_bound=20.0,
    rate=4e-4,
    entropy=0.004,
    wait_price=1.5,
    wait_target=0.86,
)
USUAL_NODES: Final = 24
"""With as many, a training takes some 20 minutes on two cores."""
MAX_TO_USED: Final = 1.0
"""Ratio to the weights in use on the later history."""


def train(assignment: Assignment, report: Callable[[LessonProgress], None]) -> tuple[Path, ...]:
    """Train the weights in use further on the earlier history; weights and manifest with the guard's verdict. Raises LessonError."""
    runs = assignment.history or _kept(assignment.folder)
    snapshot = assignment.snapshot or (None if assignment.history else _kept_snapshot(assignment.folder))
    history = _history(runs, snapshot)
    earlier, later = split(history)
    start, config = weights_to_start(assignment.start or _shipped(), dataclasses.replace(RETRAINING, seed=assignment.seed))
    low, high = max(0.4, earlier.load - 0.2), min(1.4, earlier.load + 0.2)
    config = dataclasses.replace(config, low_load=low, high_load=high, nodes=history.nodes, history=earlier.digest)
    config = dataclasses.replace(config, sequences=sequences_on(history.nodes))
    if assignment.steps is not None:
        config = dataclasses.replace(config, steps=assignment.steps)
    if assignment.resume:  # before the folder's own history and cluster are replaced
        check_checkpoint(config, assignment.folder)
    _keep(assignment.folder, runs, snapshot)

    def jobs(rng: np.random.Generator) -> RecordedJobs:
        return resampled(earlier, config.jobs, rng)

    network = learn(config, assignment.folder, report, assignment.resume, start, OwnStreams(jobs, history.cluster))
    return _write(network, config, later, assignment.folder)


def sequences_on(nodes: int) -> int:
    """Of one step: a sequence takes longer on more nodes, and a training stays within about an hour on two cores."""
    return min(RETRAINING.sequences, RETRAINING.sequences * USUAL_NODES // nodes)


def _keep(folder: Path, runs: tuple[PastRun, ...], snapshot: ClusterSnapshot | None) -> None:
    """History and cluster, for `judge` and for another go. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    if snapshot is None:
        (folder / CLUSTER).unlink(missing_ok=True)
    else:
        replace_file(folder / CLUSTER, encode_snapshot(snapshot))
    replace_file(folder / HISTORY, msgspec.json.encode(runs))


def _history(runs: tuple[PastRun, ...], snapshot: ClusterSnapshot | None) -> ClusterHistory:
    """On the cluster itself, where that is known."""
    if snapshot is None:
        return history_of(runs)
    history_of(runs)  # says what is wrong with them
    usual = usual_gpus(runs, snapshot)
    return history_of(of_usual_workers(runs, usual)).on(own_nodes(snapshot, usual))


def streams_to_judge(later: ClusterHistory) -> dict[str, list[GuardStream]]:
    """What a policy is judged on, by source."""
    recorded, drawn = judging_streams(later)
    return {RECORDED: recorded, DRAWN: drawn}


def guarded(network: Network, knobs: RuleKnobs, streams: dict[str, list[GuardStream]]) -> tuple[PolicyVerdict, JudgedStreams]:
    """The guard's verdict on the cluster's own streams, and what those are like."""
    return guard_streams.guarded(agent(network, knobs), streams, "the cluster's later history")


def judge(candidate: Path, in_use: Path | None, seed: int) -> LessonVerdict:
    """The guard on the later history, and no worse than the weights in use, a little where it refuses those. Raises LessonError."""
    own, used = weights_to_judge(candidate, in_use)
    parts = split(_history(_kept(candidate), _kept_snapshot(candidate)))
    streams = streams_to_judge(parts[1])
    verdict, _ = guarded(*own, streams)
    refusals, figures = list(verdict.refusals), {**verdict.figures, **loads_told(parts)}
    if used is not None:
        figures["ratio to the weights in use"] = to_used = ratio(own, used, streams[RECORDED])
        most = MAX_TO_USED if to_used <= MAX_TO_USED or guarded(*used, streams)[0].accepted else MAX_TO_REFUSED
        if not to_used <= most:
            refusals.append(f"{apart(to_used, most, 3)} of the weights in use, at most {most:g} is allowed")
    reason = "; ".join(refusals) or "better than the rule on the cluster's later streams, and no worse than the weights in use"
    return LessonVerdict(not refusals, reason, figures)


def loads_told(parts: tuple[ClusterHistory, ClusterHistory]) -> dict[str, float]:
    """Loads of the earlier and the later part that are simulated as another: seen and used."""
    named = zip(("earlier history", RECORDED), parts, strict=True)
    both = [(name, part) for name, part in named if part.load_seen != part.load]
    return {f"{name}: load {what}": load for name, part in both for what, load in (("seen", part.load_seen), ("used", part.load))}


def ratio(own: tuple[Network, RuleKnobs], other: tuple[Network, RuleKnobs], streams: list[GuardStream]) -> float:
    """Geometric mean over streams of one agent's weighted completion over another's."""
    runs = [one.simulator() for one in streams]
    first, second = (completions([simulator.run(agent(*each)) for simulator in runs]) for each in (own, other))
    return compare(first.tolist(), second.tolist()).ratio


def _write(network: Network, config: Training, later: ClusterHistory, folder: Path) -> tuple[Path, ...]:
    streams = streams_to_judge(later)
    verdict, like = guarded(network, config.knobs, streams)
    snapshot = _kept_snapshot(folder)
    if snapshot is not None:
        like = judged_there(like, snapshot, usual_gpus(_kept(folder), snapshot))
    source = "URL" if snapshot is None else "URL --snapshot FILE"
    content = save(parts_by_name(network))
    manifest = AgentManifest(
        sha256=hashlib.sha256(content).hexdigest(),
        features=features.VERSION,
        prior=Prior(rule.QueueOrder.SECONDS if config.knobs.order == 0 else rule.QueueOrder.AREA, *config.knobs[1:]),
        patience=MASK_PATIENCE,
        long_runs=LONG_RUNS,
        command=f"hyperscale learn queue --history {source} --seed {config.seed} --steps {config.steps}",
        start=config.start,
        seed=config.seed,
        figures=verdict.figures,
        judged=like if verdict.accepted else None,
        refusals=verdict.refusals,
    )
    return write_files(folder, content, manifest)


def _kept(folder: Path) -> tuple[PastRun, ...]:
    try:
        return msgspec.json.decode((folder / HISTORY).read_bytes(), type=tuple[PastRun, ...])
    except OSError:
        raise LessonError(f"{folder} has no {HISTORY}; name the cluster's history with --history URL or FILE") from None
    except msgspec.DecodeError as error:
        raise LessonError(f"{folder / HISTORY} is damaged ({error}); name the cluster's history with --history again") from None


def _kept_snapshot(folder: Path) -> ClusterSnapshot | None:
    """None where the training was of generated clusters."""
    if not (folder / CLUSTER).exists():
        return None
    try:
        return read_snapshot(folder / CLUSTER)
    except SnapshotError as error:
        raise LessonError(f"{folder / CLUSTER} is damaged ({error}); name the cluster with --snapshot again") from None


def _shipped() -> Path:
    return Path(str(resources.files("hyperscale.planner.learned") / "weights"))
