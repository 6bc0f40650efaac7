"""Lives of units: how long each lasted, and whether it failed or was still in service. Sums that fits of laws need."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hyperscale.model.graph import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Lives:
    """Lives of units of one class, for one cause: what ended for another cause is censored."""

    seconds: FloatArray
    """(n,) above 0."""
    failed: BoolArray
    """(n,) False: still in service, or removed for another cause."""

    def __post_init__(self) -> None:
        """Raise ValueError where a life is no time above 0."""
        if len(self.seconds) != len(self.failed):
            raise ValueError(f"{len(self.seconds)} lives but {len(self.failed)} outcomes; write one outcome for each life")
        wrong = np.flatnonzero(~(np.isfinite(self.seconds) & (self.seconds > 0.0)))
        if len(wrong):
            raise ValueError(f"life {wrong[0]}: {self.seconds[wrong[0]]} s is no time above 0; leave the unit out or correct its times")

    @property
    def events(self) -> int:
        """Units that failed."""
        return int(self.failed.sum())

    @property
    def total_seconds(self) -> float:
        """Of all units in service."""
        return float(self.seconds.sum())


def nelson_aalen(lives: Lives) -> tuple[FloatArray, FloatArray]:
    """Return (m,) distinct ages at which units failed, rising, and (m,) the cumulative hazard there (Nelson 1972, Aalen 1978).

    Units that fail at the same age count as if one failed just after the other (Fleming and Harrington 1984).
    """
    from scipy.special import digamma

    ages, deaths, at_risk = risk_table(lives)
    return ages, np.asarray(np.cumsum(digamma(at_risk + 1.0) - digamma(at_risk - deaths + 1.0)), dtype=np.float64)


def risk_table(lives: Lives) -> tuple[FloatArray, IntArray, IntArray]:
    """Return (m,) distinct ages at failure in seconds, (m,) units that failed there, (m,) units in service just before."""
    ages, deaths = np.unique(lives.seconds[lives.failed], return_counts=True)
    at_risk = len(lives.seconds) - np.searchsorted(np.sort(lives.seconds), ages, side="left")
    return ages, deaths.astype(np.int64), at_risk.astype(np.int64)


def kaplan_meier(lives: Lives) -> tuple[FloatArray, FloatArray]:
    """Return (m,) distinct ages at failure in seconds and (m,) the part of units that live longer (Kaplan and Meier 1958)."""
    ages, deaths, at_risk = risk_table(lives)
    return ages, np.asarray(np.cumprod(1.0 - deaths / at_risk), dtype=np.float64)
