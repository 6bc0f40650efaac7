"""What finished runs teach the cost model: factors of seconds by GPU product, link tier, inside of a node, card and architecture."""

from __future__ import annotations

import enum
import hashlib
import math
from collections.abc import Mapping
from typing import Annotated, Final

from msgspec import Meta, Struct

from hyperscale.model.api.policy import MAX_GIGAFLOPS

MAX_FACTOR: Final = 4.0
"""A factor lies between its inverse and this, whatever runs report: a tenant's own figures are no proof."""
MIN_RATE: Final = 1e9
MAX_RATE: Final = MAX_GIGAFLOPS * 1e9
"""FLOP/s of one GPU: what a policy can state, and more than any product of the table has."""
SURE_ERROR: Final = 0.08
"""Standard error of ln(factor) up to which nothing is left to explore."""
HOPED_ERRORS: Final = 2.0
"""Standard errors beyond it by which a factor may be hoped to be smaller."""
MAX_NAMED: Final = 64
"""Factors of one kind that a question carries."""
MAX_PARTS: Final = 24
"""Parts of a predicted epoch that a plan states."""
MAX_RUNS_ALONE: Final = 16
"""Worker counts of which a plan names the run alone."""
MAX_CARDS: Final = 8
"""Nodes of a plan up to which it states the seconds of each network card."""
MAX_NAME_LENGTH: Final = 253
MEASURED: Final = "measured"
"""Name of the tier of links whose figures are the pair's own samples."""
FABRIC: Final = "fast network"
"""Name of the tier of links over one, whatever topology level their nodes have in common; no key of a label has a space."""
NOTHING_COMMON: Final = "apart"
"""Name of the tier of nodes without a common topology level."""
UNLABELLED: Final = "unlabelled"
"""Name of a product that no label states."""


class PartKind(enum.StrEnum):
    """What the seconds of an epoch are spent on."""

    COMPUTE = "Compute"
    """Arithmetic on GPUs of the product `name`: the slowest of its workers."""
    LINK = "Link"
    """Exchange between nodes whose narrowest common topology level is `name`, or over a fast network (FABRIC)."""
    INSIDE = "Inside"
    """Exchange inside nodes with GPUs of the product `name`."""
    CARD = "Card"
    """That part of the exchange which the network card of the node `name` carries; it is contained in the links' seconds."""
    UNCORRECTED = "Uncorrected"
    """Exchange that no factor corrects: uplinks that many nodes share, and what NCCL takes for itself."""
    OVERHEAD = "Overhead"
    """Launches and other fixed times."""


COST_MODEL: Final = 3
"""Version of what predictions are made with. It rises where they change so much that ratios of earlier ones would mislead."""


class PredictedPart(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Seconds of an epoch by the tables and measurements alone, without corrections."""

    kind: PartKind
    seconds: float
    name: Annotated[str, Meta(max_length=MAX_NAME_LENGTH)] = ""
    rate: float = 0.0
    """Of Compute: FLOP/s of one GPU that the seconds were predicted with."""
    exchange_seconds: float = 0.0
    """Of Compute: what that worker exchanges besides, halo and allreduce. The product with the largest sum sets the pace."""


class RunAlone(Struct, frozen=True, gc=False, rename="camel"):
    """A whole run on the cluster without our other jobs, as the queue compares worker counts."""

    workers: int
    seconds: float
    """Predicted, of all epochs."""


class Factor(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """What predicted seconds are multiplied with."""

    name: str
    factor: float
    """exp of the shrunk estimate, 1 / MAX_FACTOR to MAX_FACTOR."""
    error: float
    """Standard error of ln(factor)."""
    runs: int
    """Finished runs that had such a part."""
    rate: float = 0.0
    """Of a product: FLOP/s of one GPU that the factor refers to; 0 where none is stated."""

    @property
    def bounded(self) -> float:
        """The factor within its bounds; 1 for what is no number."""
        return min(max(self.factor, 1.0 / MAX_FACTOR), MAX_FACTOR) if math.isfinite(self.factor) else 1.0

    def hopeful(self, limit: float) -> float:
        """The factor less two standard errors, in logarithms, but for what any factor has; by `limit` at most (Auer et al. 2002)."""
        doubt = HOPED_ERRORS * (self.error - SURE_ERROR) if math.isfinite(self.error) else limit
        return self.bounded * math.exp(-min(max(doubt, 0.0), limit))


class Corrections(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What runs teach about one architecture's jobs, each kind sorted by name; a name that no run had has the factor 1 of its kind."""

    untried: Factor
    """Compute seconds on a product that is not among `products`: the architecture's own factor."""
    products: tuple[Factor, ...] = ()
    """Compute seconds by GPU product, for this architecture."""
    tiers: tuple[Factor, ...] = ()
    insides: tuple[Factor, ...] = ()
    cards: tuple[Factor, ...] = ()
    untried_link_error: float = 0.0
    """Standard error of ln(factor) of a tier or inside that no run had."""
    spread: float = 0.0
    """Standard deviation of ln(measured / corrected) of the architecture's runs, each left out of the fit in its turn."""
    runs: int = 0
    """Finished runs of the architecture."""
    explores: bool = True
    """Whether a search may hope for what was not tried; False for expectations and for running jobs."""
    all_runs: int = 0
    """Finished runs of all architectures."""

    @property
    def finite(self) -> bool:
        """Whether every figure is a number: JSON has no others, so a planner process cannot read a question with one."""
        factors = (self.untried, *self.products, *self.tiers, *self.insides, *self.cards)
        figures = [figure for factor in factors for figure in (factor.factor, factor.error, factor.rate)]
        return all(map(math.isfinite, (*figures, self.untried_link_error, self.spread)))


def own_key(architecture: str, namespace: str) -> str:
    """Return the key of an architecture's corrections for jobs of one namespace; "" for all others.

    It shows no name, but a reader who guesses one can compute its key.
    """
    return f"{architecture}/{hashlib.sha256(namespace.encode()).hexdigest()}" if namespace else architecture


def shared_corrections(by_key: Mapping[str, Corrections]) -> dict[str, Corrections]:
    """Return corrections by architecture, without those of single namespaces."""
    return {key: corrections for key, corrections in by_key.items() if "/" not in key}
