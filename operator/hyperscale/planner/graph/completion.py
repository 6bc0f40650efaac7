"""Figures of unmeasured links, with the error to expect: several models, the best one by links held out. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from hyperscale.model.graph import BoolArray, Estimates, FloatArray, IntArray
from hyperscale.planner.graph import completion_models as models
from hyperscale.planner.graph.completion_models import ByDomain, LinkSamples, Model

MIN_LINKS: Final = 16
"""Fewer say too little: the tiers' figures stand."""
GOOD_ERROR: Final = 0.02
"""A simpler way that errs no more is not compared with costlier ones."""
BETTER: Final = 0.9
"""A costlier way must err at most so much of the simpler one's error."""
FOLDS: Final = 5
"""Parts of the pairs, each held out once; only one of them where there are many links."""
FEW_LINKS: Final = 2_000
MAX_PLACE_LINKS: Final = 30_000
UNKNOWN_ERROR: Final = 1.0
"""Stated where nothing could be held out: anything may be."""
SLACK: Final = 0.7
"""Logarithm: a guess may leave the range of what was measured by a factor of two."""


@dataclass(frozen=True)
class LinkFigure:
    """How one figure (latency or bandwidth) is estimated."""

    way: str
    """tiers, domains, likeness, factors or coordinates."""
    model: Model | None
    """None keeps the tiers' figures."""
    low: float
    """Logarithm below which no estimate lies."""
    high: float
    errors: tuple[FloatArray, ...]
    """By what an estimate rests on (`Model.support`; 0: the tier alone): (tiers,) mean relative error of links held out, at most 1 each."""

    def expected_errors(self, rows: IntArray, columns: IntArray, tier: IntArray) -> FloatArray:
        """(r, c) relative error to expect; tier (r, c)."""
        if self.model is None:
            return self.errors[0][tier]
        errors: FloatArray = np.stack(self.errors)[np.minimum(self.model.support(rows, columns), len(self.errors) - 1), tier]
        return errors

    def estimated(self, rows: IntArray, columns: IntArray, tier_figures: FloatArray) -> FloatArray:
        """(r, c) figures; tier_figures (r, c) where the model knows no better."""
        if self.model is None:
            return tier_figures
        logarithm = np.log(tier_figures)
        excess = self.model.excess(rows, columns, logarithm)
        bounded = np.clip(logarithm + excess, self.low, self.high) - logarithm
        # A factor, not the exponential of a sum: an excess of nothing leaves a figure as it is, to the last bit.
        figures: FloatArray = np.where(np.isfinite(excess), tier_figures * np.exp(bounded), tier_figures)
        return figures


def fit(
    domains: IntArray, keys: IntArray, tier_of_link: IntArray, figures: tuple[FloatArray, FloatArray], tiers: tuple[FloatArray, FloatArray]
) -> Estimates | None:
    """What the measured links say about all others; None where they are too few for either figure.

    domains: (n, levels) codes; keys: (m,) source × n + destination; figures: latency and bandwidth (m,), NaN where not measured;
    tiers: latency and bandwidth by tier.
    """
    estimates = []
    for place, (figure, tier) in enumerate(zip(figures, tiers, strict=True)):
        usable = np.isfinite(figure) & (figure > 0)
        tier_logarithm = np.log(tier[tier_of_link[usable]])
        logarithm = np.log(figure[usable])
        count = len(domains)
        links = LinkSamples(count, keys[usable] // count, keys[usable] % count, logarithm - tier_logarithm, tier_logarithm)
        estimates.append(_figure(links, tier_of_link[usable], domains, len(tier), latency=place == 0))
    return Estimates(*estimates) if any(figure.model is not None for figure in estimates) else None


def _figure(links: LinkSamples, tier: IntArray, domains: IntArray, tiers: int, *, latency: bool) -> LinkFigure:
    nothing = np.full(tiers, UNKNOWN_ERROR)
    if len(links.excess) < MIN_LINKS:
        return LinkFigure("tiers", None, 0.0, 0.0, (nothing,))
    folds = FOLDS if len(links.excess) <= FEW_LINKS else 1
    folds_held_out = [_held_out(links, fold) for fold in range(folds)]
    truth, of_tier = (np.concatenate([values[fold] for fold in folds_held_out]) for values in (links.excess, tier))
    ways = _ways(links, domains, latency=latency)
    best, guess = _best_way(ways, links, folds_held_out, truth)
    stated = [_by_tier(_errors(np.zeros(len(truth)), truth), of_tier, tiers)]
    if guess is not None:
        finite = np.isfinite(guess)
        stated.append(_by_tier(_errors(guess, truth)[finite], of_tier[finite], tiers))
    if best in ("domains", "factors"):
        stated[1:1] = _wider(links, folds_held_out, domains, truth, of_tier, tiers)
    logarithm = links.excess + links.tier_logarithm
    return LinkFigure(
        way=best,
        model=ways[best](links) if best != "tiers" else None,
        low=float(logarithm.min()) - SLACK,
        high=float(logarithm.max()) + SLACK,
        errors=tuple(stated),
    )


def _best_way(
    ways: dict[str, Callable[[LinkSamples], Model]], links: LinkSamples, folds_held_out: list[BoolArray], truth: FloatArray
) -> tuple[str, FloatArray | None]:
    """Return the way whose error on held-out links is clearly least, and its guesses (h,); "tiers" and None where none beats the tiers."""
    best, best_guess, best_error = "tiers", None, float(_errors(np.zeros(len(truth)), truth).mean()) if len(truth) else 0.0
    fitted_on = [_chosen(links, ~fold) for fold in folds_held_out]
    for name, fit_way in ways.items():
        if best_error <= GOOD_ERROR:
            break
        guess = np.concatenate([_guess(fit_way(some), links, fold) for some, fold in zip(fitted_on, folds_held_out, strict=True)])
        error = float(_errors(guess, truth).mean())
        if error < BETTER * best_error:
            best, best_guess, best_error = name, guess, error
    return best, best_guess


def _wider(
    links: LinkSamples, folds_held_out: list[BoolArray], domains: IntArray, truth: FloatArray, of_tier: IntArray, tiers: int
) -> list[FloatArray]:
    """Errors of domains of every level but the narrowest, each on its own: a region's median says less of a pair of racks than theirs."""
    errors = []
    for used in range(1, domains.shape[1]):
        fitted = [models.by_domain(_chosen(links, ~fold), domains[:, :used]) for fold in folds_held_out]
        guess = np.concatenate([_guess(model, links, fold) for model, fold in zip(fitted, folds_held_out, strict=True)])
        finite = np.isfinite(guess)
        errors.append(_by_tier(_errors(guess, truth)[finite], of_tier[finite], tiers))
    return errors


def _ways(links: LinkSamples, domains: IntArray, *, latency: bool) -> dict[str, Callable[[LinkSamples], Model]]:
    """Simple and cheap ones first."""
    ways: dict[str, Callable[[LinkSamples], Model]] = {}
    fitted: list[tuple[LinkSamples, ByDomain]] = []

    def by_domain(some: LinkSamples) -> ByDomain:
        """Fit once: the factors rest on it too."""
        if not any(samples is some for samples, _ in fitted):
            fitted.append((some, models.by_domain(some, domains)))
        return next(model for samples, model in fitted if samples is some)

    if domains.shape[1]:
        ways["domains"] = by_domain
    if links.nodes <= models.MAX_ALIKE:
        ways["likeness"] = models.by_likeness
    ways["factors"] = lambda some: models.by_factors(some, by_domain(some))
    if latency and len(links.excess) <= MAX_PLACE_LINKS:
        ways["coordinates"] = models.by_place
    return ways


def _guess(model: Model, links: LinkSamples, held_out: BoolArray) -> FloatArray:
    """(h,) what a model says about the links that it has not seen."""
    return model.pairs(links.source[held_out], links.destination[held_out], links.tier_logarithm[held_out])


def _held_out(links: LinkSamples, fold: int) -> BoolArray:
    """(m,) True for about a fifth of the pairs, both directions of each: what a model may not see while it is judged."""
    first, second = np.minimum(links.source, links.destination), np.maximum(links.source, links.destination)
    mixed = (first * 2_654_435_761 + second * 40_503 + 12_345) % 1_000_003
    held_out: BoolArray = mixed % FOLDS == fold
    return held_out


def _chosen(links: LinkSamples, which: BoolArray) -> LinkSamples:
    return LinkSamples(links.nodes, links.source[which], links.destination[which], links.excess[which], links.tier_logarithm[which])


def _errors(guess: FloatArray, truth: FloatArray) -> FloatArray:
    """(h,) relative errors, at most 1 each: one absurd guess must not hide many good ones, nor a good median a part that is wrong."""
    apart = np.minimum(np.where(np.isfinite(guess), guess, 0.0) - truth, 1.0)  # from ln 2 on the error counts as 1; no overflow
    errors: FloatArray = np.minimum(np.abs(np.expm1(apart)), 1.0)
    return errors


def _by_tier(errors: FloatArray, tier: IntArray, tiers: int) -> FloatArray:
    """(tiers,) mean error of each tier; of all where a tier has few, UNKNOWN_ERROR where there is none."""
    mean_errors = np.full(tiers, errors.mean() if len(errors) else UNKNOWN_ERROR)
    for at in range(tiers):
        here = errors[tier == at]
        if len(here) >= FOLDS:
            mean_errors[at] = here.mean()
    return mean_errors
