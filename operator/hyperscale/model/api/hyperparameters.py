"""How a model is trained, as a job may state it: `GNNTrainingJob.spec.model.hyperparameters`. What it leaves out is as published."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from hyperscale.model.api.written_numbers import DECIMAL, QUANTITY

LearningRate = Annotated[float, Meta(gt=0.0, le=10.0, extra=DECIMAL)]
Rate = Annotated[float, Meta(ge=0.0, lt=1.0, extra=DECIMAL)]
WeightDecay = Annotated[float, Meta(ge=0.0, le=1.0, extra=DECIMAL)]
LearningRateSchedule = Literal["Constant", "Cosine"]
OutputHeads = Annotated[int, Meta(ge=0, le=64)]
Aggregator = Literal["Mean", "GCN"]
PatienceEpochs = Annotated[int, Meta(ge=0, le=10**6)]
EvaluateEveryEpochs = Annotated[int, Meta(ge=1, le=10**6)]
CacheSize = Annotated[int, Meta(ge=0, le=2**50, extra=QUANTITY)]


class StatedHyperparameters(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """How the worker trains; every field that is absent has the figure of the model's paper (docs/explanation/training.md)."""

    learning_rate: LearningRate | None = None
    """Of Adam."""
    learning_rate_schedule: LearningRateSchedule | None = None
    """As it is, or rising over the first epoch and falling as a cosine to 0."""
    average_decay: Rate | None = None
    """Of the running average of the weights that is scored, for each step; 0: the weights themselves are."""
    weight_decay: WeightDecay | None = None
    """L2 as in Adam's gradient."""
    decay_first_layer_only: bool | None = None
    """Decay only the first layer's weights."""
    dropout: Rate | None = None
    """Of each layer's input."""
    attention_dropout: Rate | None = None
    """Of GAT's normalised coefficients."""
    projected_dropout: Rate | None = None
    """Of what GAT's coefficients weigh."""
    output_heads: OutputHeads | None = None
    """Heads of GAT's last layer, averaged; 0: as many as the others."""
    aggregator: Aggregator | None = None
    """Of GraphSAGE: own weights for a vertex and for the mean of its neighbours, or one for the mean of all."""
    residual: bool | None = None
    """Graph-level: each layer's result is added to what went into it."""
    edge_features: bool | None = None
    """Graph-level: categories on edges are used; false: all edges are alike."""
    normalize_features: bool | None = None
    """Rows of the features sum to 1, where they are not categories."""
    patience_epochs: PatienceEpochs | None = None
    """Epochs without a better validation figure after which training ends; 0: never."""
    evaluate_every_epochs: EvaluateEveryEpochs | None = None
    """Epochs between two evaluations; the last epoch is always evaluated."""
    cache_size: CacheSize | None = None
    """Sampled: feature cache of each rank."""
