"""Who may choose, by policy: the index rule always, the trained agent where the policy says Auto or Learned. Pure.

Auto takes the agent where its manifest says that the guard accepted it (learn/streams/policy_guard.py) on streams like the cluster's; then
it decides. With Learned it is asked on every cluster, and each choice must be no worse by the roll-forward.
"""

from __future__ import annotations

import math
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Final, NamedTuple

from hyperscale.model.api.policy import QueueOrder, QueuePolicy
from hyperscale.planner.queue import rule
from hyperscale.planner.queue.likeness import JudgedStreams, QueueProfile, unlike
from hyperscale.planner.queue.queue_agent import NAME, AgentManifest, AgentUnavailableError, QueueAgent, load_agent
from hyperscale.planner.queue.rollout import Choose
from hyperscale.planner.queue.wait_bounds import LONG_RUNS, PATIENCE_COSTS

AGENT_UNAVAILABLE: Final = "LearnedQueueUnavailable"
NO_WEIGHTS: Final = "the agent has no usable weights"
NOT_JUDGED: Final = "the guard has not accepted the agent's weights"
OTHER_BOUND: Final = "the agent was judged under another bound on waiting; train it again"
OTHER_RULE: Final = "the agent was judged against the rule with other settings"
API_NAMES: Final = {
    "thrift_alone": "minScalingExponentAlone",
    "thrift": "minScalingExponent",
    "patience": "maxStartSlowdown",
    "size_exponent": "startSlowdownSizeExponent",
    "communication_factor": "communicationFactor",
    "wait_speedup": "minWaitSpeedup",
}
"""Fields of PlannerPolicy's queue by the names of `rule.RuleSettings`."""
UNLIKE: Final = "the agent was judged on other streams"
WEIGHTS: Final = "hyperscale.planner.learned.weights"


class Choosers(NamedTuple):
    """The queue policies that choose the next start."""

    rule: Choose
    agent: Choose | None
    """None where the policy does not ask for it, or there is none."""
    fallbacks: tuple[str, ...] = ()
    """AGENT_UNAVAILABLE where the policy asks for an agent that is not there."""
    judged: JudgedStreams | None = None
    """With order Auto: the streams on which the agent was accepted; only on such ones it is asked."""
    decides: bool = False
    """Whether the agent's choice stands without the roll-forward."""
    reason: str = ""
    """With order Auto: why there is no agent."""

    def on(self, own: QueueProfile) -> Choosers:
        """The choosers for a cluster: with order Auto without the agent where the cluster's streams are unlike those it was judged on."""
        if self.judged is None or self.agent is None:
            return self
        difference = unlike(self.judged, own)
        return self._replace(agent=None, decides=False, reason=f"{UNLIKE}: {difference}") if difference else self


def choosers(policy: QueuePolicy, folder: Path | None = None) -> Choosers:
    """The rule with the policy's knobs, and the agent where the policy wants it.

    folder: of published weights; where it has none of the agent, those of the package count
    """
    by_rule = partial(rule.choose, settings=settings_of(policy))
    if policy.order not in {QueueOrder.AUTO, QueueOrder.LEARNED}:
        return Choosers(by_rule, None)
    agent = published_agent(folder) if folder is not None and (folder / f"{NAME}.json").exists() else packaged_agent()
    bound_seconds = policy.starvation_seconds or math.inf
    by_agent = None
    if agent is not None:
        by_agent = partial(agent.choose, starvation_seconds=bound_seconds, max_start_slowdown=policy.max_start_slowdown)
    if policy.order is QueueOrder.AUTO:
        if agent is None or (reason := _unjudged(agent.manifest, settings_of(policy))):
            return Choosers(by_rule, None, reason=NO_WEIGHTS if agent is None else reason)
        return Choosers(by_rule, by_agent, judged=agent.manifest.judged, decides=True)
    return Choosers(by_rule, by_agent, () if by_agent is not None else (AGENT_UNAVAILABLE,))


def _unjudged(manifest: AgentManifest, settings: rule.RuleSettings) -> str:
    """Why the guard's verdict on these weights does not let them decide; "" where it does.

    It was reached over the rule with the settings of the training, and the agent knows no others. Who sets others means them.
    """
    return NOT_JUDGED if manifest.judged is None else other_rule(manifest, settings)


def other_rule(manifest: AgentManifest, settings: rule.RuleSettings) -> str:
    """How the rule that the agent was judged against, and the bounds, differ from today's with these settings; "" where they do not."""
    if manifest.prior.patience_costs != PATIENCE_COSTS or manifest.long_runs != LONG_RUNS:
        return OTHER_BOUND
    judged = manifest.prior.settings()
    figures = ((field, getattr(settings, name), getattr(judged, name)) for name, field in API_NAMES.items())
    changed = [f"{field} is {own:g}, judged with {judged_with:g}" for field, own, judged_with in figures if own != judged_with]
    return f"{OTHER_RULE}: {', '.join(changed)}" if changed else ""


def settings_of(policy: QueuePolicy) -> rule.RuleSettings:
    """The rule's knobs."""
    return rule.RuleSettings(
        rule.QueueOrder.SECONDS,
        policy.min_scaling_exponent_alone,
        policy.min_scaling_exponent,
        policy.max_start_slowdown,
        size_exponent=policy.start_slowdown_size_exponent,
        communication_factor=policy.communication_factor,
        patience_costs=PATIENCE_COSTS,
        wait_speedup=policy.min_wait_speedup,
    )


def published_agent(folder: Path) -> QueueAgent | None:
    """The agent in a folder of published weights; None where they are damaged or of another version."""
    try:
        return load_agent(folder)
    except AgentUnavailableError:
        return None


def packaged_agent() -> QueueAgent | None:
    """The agent that ships with this program; None where its weights are missing or of another version."""
    try:
        return load_agent(files(WEIGHTS))
    except (AgentUnavailableError, ModuleNotFoundError):
        return None
