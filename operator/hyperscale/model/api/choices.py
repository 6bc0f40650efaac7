"""Choices of a job that training itself knows; without msgspec, so that its layers need torch and numpy alone. `api.job` has them too."""

from __future__ import annotations

import enum


class Architecture(enum.StrEnum):
    """Which layers the model is made of."""

    GCN = "GCN"
    GRAPH_SAGE = "GraphSAGE"
    GAT = "GAT"
    CUSTOM = "Custom"


class PartitioningMethod(enum.StrEnum):
    """How the training graph is cut."""

    AUTO = "Auto"
    METIS = "METIS"
    INDEPENDENT_SET_SPECTRAL = "IndependentSetSpectral"
    MT_KAHYPAR = "MtKaHyPar"
    RANDOM = "Random"
    DEGREE = "Degree"
    PRECOMPUTED = "Precomputed"
    NONE = "None"


class Balance(enum.StrEnum):
    """What equal parts means."""

    CAPACITY = "Capacity"
    EQUAL = "Equal"


class AllreduceSchedule(enum.StrEnum):
    """How gradients are ordered and fused."""

    AUTO = "Auto"
    DEFAULT = "Default"
    GROUPS = "Groups"


class Compression(enum.StrEnum):
    """Gradient compression of Horovod."""

    NONE = "None"
    FP16 = "FP16"
