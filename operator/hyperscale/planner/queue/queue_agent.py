"""The trained agent: a small network scores every candidate, the best starts. Numpy only, no clock, no chance.

F-48-48-1 with ReLU and a linear path beside it, 4.0 thousand weights in `weights/stream.safetensors`, described by `weights/stream.json`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from hyperscale.model.graph import FloatArray
from hyperscale.planner.learned.weights_file import MOST_WEIGHTS_BYTES, DamagedError, manifest, read, tensors
from hyperscale.planner.queue import features, rule
from hyperscale.planner.queue.likeness import JudgedStreams
from hyperscale.planner.queue.queue_types import ClusterState, PendingJob, QueueChoice, QueueRunningJob, Score

NAME: Final = "stream"
"""Of the files, without suffix."""
TENSORS: Final = ("first", "first_bias", "second", "second_bias", "last", "skip")
HIDDEN: Final = 48
SHAPES: Final[dict[str, tuple[int, ...]]] = {
    "first": (features.FEATURES, HIDDEN),
    "first_bias": (HIDDEN,),
    "second": (HIDDEN, HIDDEN),
    "second_bias": (HIDDEN,),
    "last": (HIDDEN,),
    "skip": (features.FEATURES,),
}


class AgentUnavailableError(Exception):
    """No weights of use; the message says why. The rule decides."""


class OutdatedAgentError(AgentUnavailableError):
    """Weights for the features of another release: a new training replaces them."""


class Prior(msgspec.Struct, frozen=True, rename="camel"):
    """The rule whose choice is among the agent's inputs, as it was in training."""

    order: rule.QueueOrder
    thrift_alone: float
    thrift: float
    patience: float
    size_exponent: float = 0.0
    communication_factor: float = 0.0
    patience_costs: float = 1.0
    wait_speedup: float = 0.0

    def settings(self) -> rule.RuleSettings:
        """The rule as `rule.choose` takes it."""
        return rule.RuleSettings(*msgspec.structs.astuple(self))


class AgentManifest(msgspec.Struct, frozen=True, rename="camel"):
    """What the weights are."""

    sha256: str
    """Of the weights file."""
    features: int
    """Version of the features."""
    prior: Prior
    patience: float
    """The agent's own: candidates on poorer nodes are left out."""
    long_runs: float = 0.0
    """`wait_bounds.LONG_RUNS` of the verdict; 0: it was reached without that bound."""
    command: str = ""
    """Trained them; with the release of that time it makes them again."""
    start: str = ""
    """SHA-256 of the weights that training continued from, all numbers one after the other; empty: from the rule."""
    seed: int = 0
    figures: dict[str, float] = {}
    """Of the validation that let them in."""
    judged: JudgedStreams | None = None
    """Streams on which the guard accepted them; None: it did not."""
    refusals: tuple[str, ...] = ()
    """Why the guard refused them."""


@dataclass(frozen=True)
class QueueAgent:
    """Weights that fit this program."""

    manifest: AgentManifest
    weights: dict[str, NDArray[np.float32]]

    def choose(
        self,
        pending: Sequence[PendingJob],
        running: Sequence[QueueRunningJob],
        cluster: ClusterState,
        starvation_seconds: float = float("inf"),
        max_start_slowdown: float = float("inf"),
    ) -> QueueChoice:
        """What the agent starts next. Scores are logits, more is better; only a candidate can be chosen, and those are feasible.

        max_start_slowdown: of the cluster's policy; where it is stricter than in training, it limits the agent's starts too, a job that
            nothing may keep waiting and the rule's choice excepted
        """
        prior = self.manifest.prior.settings()
        settings = prior._replace(patience=min(prior.patience, max_start_slowdown), starvation_seconds=starvation_seconds)
        now = features.situation(pending, running, cluster, settings, min(self.manifest.patience, max_start_slowdown))
        if not now.candidates:
            return QueueChoice(None, waits_for_better_nodes=now.rule.waits_for_better_nodes)
        scores = self.scores(features.features(now))
        ranking = np.argsort(-scores, kind="stable")[: rule.MAX_SCORES]
        named = tuple(_score(now.candidates[place], float(scores[place])) for place in ranking)
        return QueueChoice(named[0].job, named[0].workers, named, waits_for_better_nodes=named[0].job is None)

    def scores(self, rows: FloatArray) -> FloatArray:
        """(C,) logits of candidates (C, FEATURES)."""
        own, inputs = self.weights, rows.astype(np.float32)
        hidden = np.maximum(inputs @ own["first"] + own["first_bias"], 0.0)
        hidden = np.maximum(hidden @ own["second"] + own["second_bias"], 0.0)
        scores: FloatArray = (hidden @ own["last"] + inputs @ own["skip"]).astype(np.float64)
        return scores


def _score(candidate: features.QueueCandidate, score: float) -> Score:
    job, workers = candidate.key
    return Score(job, workers, score)


def load_agent(folder: Traversable) -> QueueAgent:
    """The agent whose files lie in `folder`. Raises AgentUnavailableError where they are missing, damaged or made for another version."""
    try:
        agent_manifest = manifest(folder / f"{NAME}.json", AgentManifest)
        content = read(folder / f"{NAME}.safetensors", MOST_WEIGHTS_BYTES)
        if agent_manifest.features != features.VERSION:
            raise OutdatedAgentError(
                f"the weights in {NAME}.safetensors are for version {agent_manifest.features} of the features, "
                f"this program has {features.VERSION}; train again"
            )
        if hashlib.sha256(content).hexdigest() != agent_manifest.sha256:
            raise DamagedError(f"{NAME}.safetensors is not the file that {NAME}.json describes")
        return QueueAgent(agent_manifest, tensors(f"{NAME}.safetensors", content, SHAPES))
    except DamagedError as error:
        raise AgentUnavailableError(f"no usable {NAME}.json and {NAME}.safetensors: {error}") from None
