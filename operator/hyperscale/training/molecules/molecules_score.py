"""ROC-AUC from ranks: the chance that an active one scores higher than an inactive one (Mann and Whitney 1947), ties counted half."""

from __future__ import annotations

import math

import numpy as np

from hyperscale.model.adjacency import Array


def roc_auc(scores: Array, labels: Array) -> float:
    """Return the ROC-AUC of one task: scores (n,) and labels (n,) of 0, 1 or NaN for unknown.

    NaN where one of the two kinds is missing or a score is NaN.
    """
    labelled = ~np.isnan(labels)
    positive = labels[labelled] > 0.5
    count = int(positive.sum())
    others = len(positive) - count
    if not count or not others or np.isnan(scores[labelled]).any():
        return math.nan
    # As scipy.stats.rankdata has them, without its import: 0.6 s of processor time at every start of a rank.
    _, place, ties = np.unique(scores[labelled].astype(np.float64), return_inverse=True, return_counts=True)
    ranks = (np.cumsum(ties) - (ties - 1) / 2)[place]
    return float((ranks[positive].sum() - count * (count + 1) / 2) / (count * others))


def mean_roc_auc(scores: Array, labels: Array) -> float:
    """Mean over the tasks (n, t) that have both kinds, as the Open Graph Benchmark does; NaN where none has."""
    by_task = [roc_auc(scores[:, task], labels[:, task]) for task in range(labels.shape[1])]
    scored = [value for value in by_task if not math.isnan(value)]
    return float(np.mean(scored)) if scored else math.nan


def accuracy(logits: Array, labels: Array) -> float:
    """Part of rows (n, c) whose largest column is the label (n,); rows without label (-1) count nothing."""
    labelled = labels >= 0
    return float((logits[labelled].argmax(axis=1) == labels[labelled]).mean()) if labelled.any() else math.nan
