"""`hyperscale learn ppo`: masked PPO (Huang & Ontañón 2022, sb3-contrib) on the stream of jobs, from the tuned rule as start.

Its network is that of `hyperscale learn streams`: the same files, the same gate, and the cluster runs either.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file
from sb3_contrib import MaskablePPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from hyperscale.learn.agents.scorer import CandidateScorer, ScorerPolicy
from hyperscale.learn.agents.stream_env import StreamEnv
from hyperscale.learn.lesson import Assignment, LessonError, LessonProgress, LessonVerdict, reading
from hyperscale.learn.streams.episodes import Training, initial
from hyperscale.learn.streams.simulator import Network
from hyperscale.learn.streams.stream_lesson import judge as judge_agent
from hyperscale.learn.streams.stream_lesson import write

ENVIRONMENTS: Final = 8
STEPS: Final = 200_000
"""Decisions of one training."""
ROLLOUT: Final = 512
"""Decisions of one environment between two updates."""
HORIZON: Final = 0.998
"""Discount: a decision answers for some hundreds of the following ones (streams.md: short horizons lose)."""
VALUE_ROLLOUTS: Final = 4
"""Rollouts in which only the value is learned; an actor that follows an unlearned critic forgets the rule."""
PRIOR: Final = 2.0
"""Logit of the rule's flag at the start: nearly always the rule."""
CHECKPOINT: Final = "ppo-checkpoint.safetensors"

Report = Callable[[LessonProgress], None]


def train(assignment: Assignment, report: Report) -> tuple[Path, ...]:
    """Learn, validate, write weights and manifest of the stream's agent. Raises LessonError."""
    network = learn(assignment, report)
    command = f"hyperscale learn ppo --seed {assignment.seed} --steps {assignment.steps or STEPS}"
    return write(network, Training(seed=assignment.seed), assignment.folder, command)


def judge(candidate: Path, in_use: Path | None, seed: int) -> LessonVerdict:
    """As for the other agent of the stream."""
    return judge_agent(candidate, in_use, seed)


def learn(assignment: Assignment, report: Report) -> Network:
    """Flat weights after `assignment.steps` decisions; checkpoints and curves in its folder. Raises LessonError."""
    torch.set_num_threads(1)
    torch.manual_seed(assignment.seed)
    steps = assignment.steps or STEPS
    model = _model(assignment)
    asked = np.array([assignment.seed, steps])
    if assignment.resume:
        _restore(model, assignment.folder, asked)
    remaining = max(0, steps - model.num_timesteps)
    model.learn(remaining, callback=_PpoReporter(asked, assignment.folder, report), reset_num_timesteps=False, tb_log_name="ppo")
    _keep(model, assignment.folder, asked)
    policy: Any = model.policy
    network: Network = policy.network
    return network


def _model(assignment: Assignment) -> MaskablePPO:
    plain = DummyVecEnv([_maker(assignment.seed * ENVIRONMENTS + number) for number in range(ENVIRONMENTS)])
    # Returns of hundreds would leave the actor nothing of a gradient that is clipped together with the critic's.
    environments = VecNormalize(plain, norm_obs=False, gamma=HORIZON)
    return MaskablePPO(
        ScorerPolicy,
        environments,
        learning_rate=1e-3,
        n_steps=ROLLOUT,
        batch_size=512,
        n_epochs=2,
        gamma=HORIZON,
        gae_lambda=0.97,
        clip_range=0.2,
        ent_coef=0.003,
        seed=assignment.seed,
        tensorboard_log=str(assignment.folder),
        policy_kwargs={
            "features_extractor_class": CandidateScorer,
            "features_extractor_kwargs": {"start": initial(Training(seed=assignment.seed, prior=PRIOR))},
            "ortho_init": False,
        },
    )


def _maker(seed: int) -> Callable[[], Monitor[Any, Any]]:
    return lambda: Monitor(StreamEnv(seed))


class _PpoReporter(BaseCallback):
    """Reports after every rollout; holds the actor still during the first ones."""

    def __init__(self, asked: NDArray[np.int64], folder: Path, report: Report) -> None:
        super().__init__()
        self._asked, self._steps, self._folder, self._report = asked, int(asked[1]), folder, report
        self._began = time.monotonic()
        self._rollouts = 0

    def _on_rollout_start(self) -> None:
        still = self.num_timesteps < VALUE_ROLLOUTS * ROLLOUT * ENVIRONMENTS
        extractor: Any = self.model.policy.features_extractor
        extractor.flat.requires_grad_(not still)

    def _on_rollout_end(self) -> None:
        returns = [float(episode["r"]) for episode in self.model.ep_info_buffer or ()]
        figures = {"mean_return": float(np.mean(returns))} if returns else {}
        self._report(LessonProgress(min(self.num_timesteps, self._steps), self._steps, time.monotonic() - self._began, figures))
        _keep(self.model, self._folder, self._asked)

    def _on_step(self) -> bool:
        return True


def _keep(model: Any, folder: Path, asked: NDArray[np.int64]) -> None:  # noqa: ANN401 - stable-baselines3 ships no annotations
    """Weights, Adam's moments and the steps so far as plain arrays: a checkpoint that cannot run code."""
    arrays = {f"policy.{name}": tensor.detach().numpy() for name, tensor in model.policy.state_dict().items()}
    for number, moments in model.policy.optimizer.state_dict()["state"].items():
        arrays |= {f"adam.{number}.{name}": np.asarray(value) for name, value in moments.items()}
    arrays |= {"steps": np.array([model.num_timesteps]), "asked": asked}
    returns = model.get_vec_normalize_env().ret_rms
    arrays["returns"] = np.array([returns.mean, returns.var, returns.count], dtype=np.float64)
    beside = folder / f".{CHECKPOINT}"
    save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, beside)
    beside.replace(folder / CHECKPOINT)


def _restore(model: MaskablePPO, folder: Path, asked: NDArray[np.int64]) -> None:
    """`asked` (2,): seed and steps."""
    with reading(folder / CHECKPOINT):
        arrays = load_file(folder / CHECKPOINT)
        if not np.array_equal(arrays["asked"], asked):
            seed, steps = arrays["asked"].tolist()
            raise LessonError(f"{folder / CHECKPOINT} is of --seed {seed} --steps {steps}; use the same, or another folder")
        _fill(model, arrays)


def _fill(model: MaskablePPO, arrays: dict[str, NDArray[Any]]) -> None:
    model.policy.load_state_dict({name[7:]: torch.from_numpy(array) for name, array in arrays.items() if name.startswith("policy.")})
    whole = model.policy.optimizer.state_dict()
    state: dict[int, dict[str, torch.Tensor]] = {}
    for name, array in arrays.items():
        if name.startswith("adam."):
            _, number, moment = name.split(".")
            state.setdefault(int(number), {})[moment] = torch.from_numpy(array)
    whole["state"] = state
    model.policy.optimizer.load_state_dict(whole)
    model.num_timesteps = int(arrays["steps"][0])
    scale: Any = model.get_vec_normalize_env()
    scale.ret_rms.mean, scale.ret_rms.var, scale.ret_rms.count = arrays["returns"].tolist()
