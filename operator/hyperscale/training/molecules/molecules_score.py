"""ROC-AUC from ranks: the chance that an active one scores higher than an inactive one (Mann and Whitney 1947), ties counted half."""

from __future__ import annotations

import math

import numpy as np

from hyperscale.model.adjacency import Array


def roc_auc(scores: Array, labels: Array) -> float:
    """Of one task: scores (n,) and labels (n,) of 0, 1 or NaN for unknown; NaN where one of the two kinds is missing or a score is NaN."""
    known = ~np.isnan(labels)
    positive = labels[known] > 0.5
    count = int(positive.sum())
    others = len(positive) - count
    if not count or not others or np.isnan(scores[known]).any():
        return math.nan
    # As scipy.stats.rankdata has them, without its import: 0.6 s of processor time at every start of a rank.
    _, place, ties = np.unique(scores[known].astype(np.float64), return_inverse=True, return_counts=True)
    ranks = (np.cumsum(ties) - (ties - 1) / 2)[place]
    return float((ranks[positive].sum() - count * (count + 1) / 2) / (count * others))


def mean_roc_auc(scores: Array, labels: Array) -> float:
    """Mean over the tasks (n, t) that have both kinds, as the Open Graph Benchmark does; NaN where none has."""
    found = [roc_auc(scores[:, task], labels[:, task]) for task in range(labels.shape[1])]
    known = [value for value in found if not math.isnan(value)]
    return float(np.mean(known)) if known else math.nan


def accuracy(logits: Array, labels: Array) -> float:
    """Part of rows (n, c) whose largest column is the label (n,); rows without label (-1) count nothing."""
    known = labels >= 0
    return float((logits[known].argmax(axis=1) == labels[known]).mean()) if known.any() else math.nan
