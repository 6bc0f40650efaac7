"""Who may choose, by policy: the index rule always, the trained agent beside it where the policy says Learned. Pure."""

from __future__ import annotations

from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Final, NamedTuple

from hyperscale.model.api.policy import QueueOrder, QueuePolicy
from hyperscale.planner.queue import rule
from hyperscale.planner.queue.queue_agent import NAME, AgentUnavailableError, QueueAgent, load_agent
from hyperscale.planner.queue.rollout import Choose

AGENT_UNAVAILABLE: Final = "LearnedQueueUnavailable"
WEIGHTS: Final = "hyperscale.planner.learned.weights"


class Choosers(NamedTuple):
    """The queue policies that choose the next start."""

    rule: Choose
    agent: Choose | None
    """None where the policy does not ask for it, or there is none."""
    fallbacks: tuple[str, ...] = ()
    """AGENT_UNAVAILABLE where the policy asks for an agent that is not there."""


def choosers(policy: QueuePolicy, folder: Path | None = None) -> Choosers:
    """The rule with the policy's knobs, and the agent where the policy wants it.

    folder: of published weights; where it has none of the agent, those of the package count
    """
    by_rule = partial(rule.choose, settings=settings_of(policy))
    if policy.order is not QueueOrder.LEARNED:
        return Choosers(by_rule, None)
    agent = published_agent(folder) if folder is not None and (folder / f"{NAME}.json").exists() else packaged_agent()
    return Choosers(by_rule, agent.choose) if agent is not None else Choosers(by_rule, None, (AGENT_UNAVAILABLE,))


def settings_of(policy: QueuePolicy) -> rule.RuleSettings:
    """The rule's knobs."""
    return rule.RuleSettings(
        rule.QueueOrder.SECONDS, policy.min_scaling_exponent_alone, policy.min_scaling_exponent, policy.max_start_slowdown
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
