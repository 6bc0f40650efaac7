"""How a model is trained: the figures of the papers, unless the job or HYPERSCALE_HYPERPARAMETERS (JSON) says otherwise."""

from __future__ import annotations

from typing import Final

import msgspec

from hyperscale.model.api import hyperparameters as bounds
from hyperscale.model.api.hyperparameters import Rate, StatedHyperparameters
from hyperscale.model.api.job import Architecture


class Hyperparameters(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Everything about the training that spec.model does not say."""

    learning_rate: bounds.LearningRate = 0.01
    """Of Adam."""
    learning_rate_schedule: bounds.LearningRateSchedule = "Constant"
    """As it is, or rising over the first epoch and falling as a cosine to 0 (training/engine/rates.py)."""
    average_decay: Rate = 0.0
    """Of the running average of the weights that is scored, for each step; 0: the weights themselves are."""
    weight_decay: bounds.WeightDecay = 5e-4
    """L2 as in Adam's gradient."""
    decay_first_layer_only: bool = False
    """Kipf and Welling decay only the first layer's weights."""
    dropout: Rate = 0.5
    """Of each layer's input."""
    attention_dropout: Rate = 0.0
    """Of GAT's normalised coefficients."""
    projected_dropout: Rate = 0.0
    """Of what GAT's coefficients weigh; the paper has none, its authors' code has 0.6."""
    output_heads: bounds.OutputHeads = 1
    """Heads of GAT's last layer, averaged; 0: as many as the others."""
    aggregator: bounds.Aggregator = "Mean"
    """Of GraphSAGE (its paper, section 3.3): own weights for a vertex and for the mean of its neighbours, or one for the mean of all."""
    residual: bool = False
    """Graph-level: each layer's result is added to what went into it (Velickovic et al., ICLR 2018, section 3.3, inductive)."""
    edge_features: bool = True
    """Graph-level: categories on edges are used; False: all edges are alike."""
    normalize_features: bool = True
    """Rows of the features sum to 1, where they are not categories."""
    patience_epochs: bounds.PatienceEpochs = 0
    """Epochs without a better validation figure after which training ends; 0: never."""
    evaluate_every_epochs: bounds.EvaluateEveryEpochs = 1
    """Epochs between two evaluations; the last epoch is always evaluated."""
    cache_size: bounds.CacheSize = 256 << 20
    """Sampled: feature cache of each rank."""


PUBLISHED: Final[dict[Architecture, Hyperparameters]] = {
    # Kipf and Welling, ICLR 2017, section 5.2: 0.01, 5e-4 on the first layer, dropout 0.5.
    Architecture.GCN: Hyperparameters(decay_first_layer_only=True),
    # The public split's common setting (Shchur et al. 2018, Pitfalls of GNN evaluation): 0.01, 5e-4, dropout 0.5, mean aggregation.
    Architecture.GRAPH_SAGE: Hyperparameters(),
    # Velickovic et al., ICLR 2018, section 3.3: 0.005, 5e-4, dropout 0.6 on inputs and coefficients, patience 100.
    Architecture.GAT: Hyperparameters(learning_rate=0.005, dropout=0.6, attention_dropout=0.6),
    Architecture.CUSTOM: Hyperparameters(),
}
"""For one graph, by architecture."""
PUBLISHED_FOR_GRAPHS: Final = Hyperparameters(learning_rate=1e-3, weight_decay=0.0, dropout=0.5)
"""For data of many graphs: Hu et al., NeurIPS 2020, appendix: Adam at 0.001, dropout 0.5."""


def resolve(published: Hyperparameters, of_job: StatedHyperparameters | None, text: str) -> Hyperparameters:
    """The published figures, the job's on top of them, the JSON object's on top of both; raises ValueError that names the wrong field."""
    try:
        stated = msgspec.json.decode(text, type=dict[str, object])
        merged = {**msgspec.to_builtins(published), **msgspec.to_builtins(of_job or StatedHyperparameters()), **stated}
        return msgspec.convert(merged, Hyperparameters)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise ValueError(str(error)) from error
