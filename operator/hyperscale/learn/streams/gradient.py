"""The network in torch, and the gradient of a step's decisions (PPO, Schulman et al. 2017)."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from hyperscale.learn.streams import embedding
from hyperscale.learn.streams._streams import FEATURES, HIDDEN
from hyperscale.learn.streams.episodes import EpisodeBatch, Training
from hyperscale.learn.streams.simulator import PARAMETERS, Network
from hyperscale.model.graph import IntArray
from hyperscale.planner.queue.queue_agent import TENSORS


def parts(flat: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Matrices and vectors of the flat weights, in the order of `planner.queue.queue_agent`."""
    sizes = [FEATURES * HIDDEN, HIDDEN, HIDDEN * HIDDEN, HIDDEN, HIDDEN, FEATURES]
    first, bias, second, bias2, last, skip = torch.split(flat, sizes)
    return first.view(FEATURES, HIDDEN), bias, second.view(HIDDEN, HIDDEN), bias2, last, skip


def parts_by_name(network: Network) -> dict[str, NDArray[np.float32]]:
    """The flat weights as `planner.queue.queue_agent` names them."""
    tensors = parts(torch.from_numpy(network))
    return {name: np.ascontiguousarray(tensor.numpy()) for name, tensor in zip(TENSORS, tensors, strict=True)}


def logits(flat: torch.Tensor, rows: torch.Tensor, more: torch.Tensor | None = None) -> torch.Tensor:
    """(R,) of candidates (R, F); `more` (R, HIDDEN) joins the first layer."""
    first, bias, second, bias2, last, skip = parts(flat[:PARAMETERS])
    inner = rows @ first + bias if more is None else rows @ first + bias + more
    hidden = torch.relu(torch.relu(inner) @ second + bias2)
    return hidden @ last + rows @ skip


def gradient(flat: torch.Tensor, batch: EpisodeBatch, before: torch.Tensor, config: Training) -> tuple[torch.Tensor, float]:
    """The loss, and the policy's mean entropy; `before`: (D,) log-probabilities of the actions when taken."""
    log_probability, spread = log_probabilities(flat, batch)
    change = torch.exp(log_probability - before)
    advantages = torch.from_numpy(batch.advantages.astype(np.float32))
    clipped = torch.clamp(change, 1.0 - config.clip, 1.0 + config.clip)
    gain = torch.minimum(change * advantages, clipped * advantages).mean()
    return -gain - config.entropy * spread, float(spread.detach())


def log_probabilities(flat: torch.Tensor, batch: EpisodeBatch) -> tuple[torch.Tensor, torch.Tensor]:
    """(D,) of the actions taken, and the mean entropy."""
    counts = torch.from_numpy(batch.counts)
    decision = torch.repeat_interleave(torch.arange(len(counts)), counts)
    more = None if batch.pictures is None else embedding.pooled(flat[PARAMETERS:], batch.pictures, decision)
    scores = logits(flat, torch.from_numpy(batch.rows), more)
    peak = torch.full((len(counts),), -torch.inf).scatter_reduce(0, decision, scores.detach(), "amax")
    shifted = scores - peak[decision]
    total = torch.zeros(len(counts)).index_add(0, decision, torch.exp(shifted))
    every = shifted - torch.log(total)[decision]
    taken = torch.cumsum(counts, 0) - counts + torch.from_numpy(batch.actions)
    return every[taken], -(torch.exp(every) * every).sum() / len(counts)


def some(batch: EpisodeBatch, decisions: IntArray) -> EpisodeBatch:
    """Some decisions of a batch."""
    counts = batch.counts[decisions]
    starts = (np.cumsum(batch.counts) - batch.counts)[decisions]
    rows = np.repeat(starts - (np.cumsum(counts) - counts), counts) + np.arange(int(counts.sum()))
    pictures = batch.pictures
    if pictures is not None:
        pictures = embedding.Pictures(
            pictures.nodes[decisions], pictures.queue[decisions], pictures.candidate_nodes[rows], pictures.near, pictures.stream[decisions]
        )
    return EpisodeBatch(batch.rows[rows], counts, batch.actions[decisions], batch.advantages[decisions], batch.cost, pictures)
