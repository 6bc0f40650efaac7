"""Masked PPO's policy: one small network scores each candidate, as the agent in the cluster does, so its weights fit there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import torch
from gymnasium import spaces
from sb3_contrib.common.maskable.policies import MaskableMultiInputActorCriticPolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import nn

from hyperscale.learn.agents.stream_env import MOST_CANDIDATES
from hyperscale.learn.streams._streams import FEATURES
from hyperscale.learn.streams.gradient import logits
from hyperscale.learn.streams.simulator import Network

VALUE_HIDDEN: Final = 64


class CandidateScorer(BaseFeaturesExtractor):
    """Observation → (B, MOST_CANDIDATES + 1): a score for each candidate, then the value of the state."""

    def __init__(self, observation_space: spaces.Dict, start: Network) -> None:
        """Begin with the flat weights `start`, as `episodes.initial` makes them."""
        super().__init__(observation_space, MOST_CANDIDATES + 1)
        self.flat = nn.Parameter(torch.from_numpy(start.copy()))
        self.value = nn.Sequential(nn.Linear(2 * FEATURES, VALUE_HIDDEN), nn.Tanh(), nn.Linear(VALUE_HIDDEN, 1))

    def forward(self, observations: dict[str, torch.Tensor]) -> torch.Tensor:
        """Scores and value; what is not there scores 0 and is masked by the distribution."""
        rows = observations["candidates"].view(-1, MOST_CANDIDATES, FEATURES)
        present = observations["present"].unsqueeze(-1)
        scores = logits(self.flat, rows.reshape(-1, FEATURES)).view(-1, MOST_CANDIDATES) * observations["present"]
        mean = (rows * present).sum(1) / present.sum(1).clamp(min=1.0)
        most = torch.where(present > 0, rows, torch.full_like(rows, -1e3)).amax(1).clamp(min=-10.0)
        return torch.cat((scores, self.value(torch.cat((mean, most), dim=1))), dim=1)


class _Split(nn.Module):
    """Takes scores and value apart; sb3 expects one network for each."""

    latent_dim_pi = MOST_CANDIDATES
    latent_dim_vf = 1

    def forward(self, features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.forward_actor(features), self.forward_critic(features)

    def forward_actor(self, features: torch.Tensor) -> torch.Tensor:
        return features[:, :MOST_CANDIDATES]

    def forward_critic(self, features: torch.Tensor) -> torch.Tensor:
        return features[:, MOST_CANDIDATES:]


class ScorerPolicy(MaskableMultiInputActorCriticPolicy):
    """Actor and critic are the scorer itself; no layer follows."""

    def _build_mlp_extractor(self) -> None:
        split: Any = _Split()
        self.mlp_extractor = split

    def _build(self, lr_schedule: Callable[[float], float]) -> None:
        super()._build(lr_schedule)
        none: Any = nn.Identity()
        self.action_net, self.value_net = none, none
        # The optimizer that `super` made holds the layers that were just replaced.
        adam: Any = self.optimizer_class
        self.optimizer = adam(self.parameters(), lr=lr_schedule(1), **self.optimizer_kwargs)

    @property
    def network(self) -> Network:
        """Flat weights for `simulator.agent` and for the cluster."""
        flat: Any = self.features_extractor.flat
        network: Network = flat.detach().numpy().astype(np.float32)
        return network
