"""Weights, shares and scores against what is published and against arithmetic written apart.

AHP weights of four matrices that Saaty prints, with their printed eigenvectors. Shapley shares of random games: their sum is the value to
the last bit. HyperScore against 60-digit decimal arithmetic. The calibrated score on held-out simulated runs, by Brier score, against the
base rate and the raw score.
"""

from __future__ import annotations

import math
import sys
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path
from typing import Final, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from benchmarks.common import Row, goal, parser, report
from hyperscale.evaluate.score import outcome_calibration
from hyperscale.evaluate.score.hyperscore import HyperScoreSettings, hyperscore
from hyperscale.evaluate.score.shapley import shapley
from hyperscale.util import ahp

NAME: Final = "score"
GAMES: Final = 60
QUICK_GAMES: Final = 10
COMPONENTS: Final = 10
RUNS: Final = 500


class Published(NamedTuple):
    """A matrix of comparisons with what its paper prints."""

    source: str
    matrix: str
    """Rows apart by semicolons."""
    weights: tuple[float, ...]
    """To three digits."""
    eigenvalue: float | None = None
    consistency_ratio: float | None = None

    def entries(self) -> list[list[float]]:
        """Return the (n, n) comparisons."""
        return [[float(Fraction(entry)) for entry in row.split()] for row in self.matrix.split(";")]

    def names(self) -> tuple[str, ...]:
        """Return a name for each component."""
        return tuple(f"c{at}" for at in range(len(self.weights)))


PUBLISHED: Final = {
    "wealth of nations": Published(
        "Saaty, A scaling method for priorities in hierarchical structures, Journal of Mathematical Psychology 15 (1977)",
        "1 4 9 6 6 5 5; 1/4 1 7 5 5 3 4; 1/9 1/7 1 1/5 1/5 1/7 1/5; 1/6 1/5 5 1 1 1/3 1/3; 1/6 1/5 5 1 1 1/3 1/3;"
        "1/5 1/3 7 3 3 1 2; 1/5 1/4 5 3 3 1/2 1",
        (0.427, 0.230, 0.021, 0.052, 0.052, 0.123, 0.094),
        7.61,
    ),
    "house": Published(
        "Saaty, How to make a decision, European Journal of Operational Research 48 (1990)",
        "1 5 3 7 6 6 1/3 1/4; 1/5 1 1/3 5 3 3 1/5 1/7; 1/3 3 1 6 3 4 6 1/5; 1/7 1/5 1/6 1 1/3 1/4 1/7 1/8;"
        "1/6 1/3 1/3 3 1 1/2 1/5 1/6; 1/6 1/3 1/4 4 2 1 1/5 1/6; 3 5 1/6 7 5 5 1 1/2; 4 7 5 8 6 6 2 1",
        (0.173, 0.054, 0.188, 0.018, 0.031, 0.036, 0.167, 0.333),
        9.669,
        0.169,
    ),
    "drinks": Published(
        "Saaty, Decision making with the analytic hierarchy process, International Journal of Services Sciences 1 (2008)",
        "1 9 5 2 1 1 1/2; 1/9 1 1/3 1/9 1/9 1/9 1/9; 1/5 3 1 1/3 1/4 1/3 1/9; 1/2 9 3 1 1/2 1 1/3; 1 9 4 2 1 2 1/2;"
        "1 9 3 1 1/2 1 1/3; 2 9 9 3 2 3 1",
        (0.177, 0.019, 0.042, 0.116, 0.190, 0.129, 0.327),
        None,
        0.022,
    ),
    "job": Published(
        "the same paper of 2008",
        "1 1/4 1/6 1/4 1/8; 4 1 1/3 3 1/7; 6 3 1 4 1/2; 4 1/3 1/4 1 1/7; 8 7 2 7 1",
        (0.036, 0.122, 0.262, 0.075, 0.506),
    ),
}


def exact_hyperscore(value: float, settings: HyperScoreSettings) -> Decimal:
    """Return the printed formula in 60 digits, of the binary values of its arguments."""
    with localcontext() as context:
        context.prec = 60
        argument = Decimal(settings.beta) * Decimal(value).ln() + Decimal(settings.gamma)
        sigmoid = 1 / (1 + (-argument).exp())
        return 100 * (1 + (Decimal(settings.kappa) * sigmoid.ln()).exp())


def ahp_rows() -> list[Row]:
    """Largest distance from each printed weight, and which matrices the consistency ratio refuses."""
    rows, worst = [], 0.0
    for case, published in PUBLISHED.items():
        ours = ahp.priorities(published.names(), published.entries())
        distance = max(abs(mine - printed) for mine, printed in zip(ours.weights, published.weights, strict=True))
        worst = max(worst, distance)
        rows.append(Row(NAME, case, "AHP", "largest distance from printed weights", distance, ""))
        rows.append(Row(NAME, case, "AHP", "consistency ratio", ours.consistency_ratio, ""))
    return [*rows, goal(NAME, "AHP: distance from printed weights", "AHP", worst, 1e-3, "")]


def shapley_rows(games: int, seed: int) -> list[Row]:
    """In how many games of ten components shares do not sum to the value to the last bit."""
    chance = np.random.default_rng(seed)
    names = tuple(f"stage {at}" for at in range(COMPONENTS))
    wrong, other = 0, 0
    for _ in range(games):
        values = dict[frozenset[str], float]()
        result = shapley(names, lambda members, values=values: values.setdefault(members, float(chance.random())))  # type: ignore[misc] # a default
        wrong += math.fsum((result.empty, *result.shares)) != result.value
        wrong += sum(result.exact, Fraction(result.empty)) != Fraction(result.value)
        other += result.value != values[frozenset(names)]
    return [
        Row(NAME, f"{games} games of {COMPONENTS}", "Shapley", "values that the grid moved", other, "", seed),
        goal(NAME, f"Shapley: sums that are not V, {games} games", "Shapley", wrong, 0.0, ""),
    ]


def hyperscore_rows(seed: int) -> list[Row]:
    """Largest relative distance from 60-digit arithmetic, and the paper's example."""
    chance = np.random.default_rng(seed)
    worst = 0.0
    for _ in range(1000):
        settings = HyperScoreSettings(float(chance.uniform(0.1, 20.0)), float(chance.normal(0.0, 2.0)), float(chance.uniform(0.5, 4.0)))
        value = float(chance.random())
        worst = max(worst, abs(float(Decimal(hyperscore(value, settings)) / exact_hyperscore(value, settings) - 1)))
    other = HyperScoreSettings(gamma=math.log(2.0))
    return [
        Row(NAME, "V = 0.95", "gamma = -ln 2, as printed", "HyperScore", hyperscore(0.95), "", seed),
        Row(NAME, "V = 0.95", "gamma = +ln 2", "HyperScore", hyperscore(0.95, other), "", seed),
        Row(NAME, "V = 0.95", "what the paper prints", "HyperScore", 137.2, "", seed),
        Row(NAME, "V = 1", "gamma = -ln 2, as printed", "HyperScore", hyperscore(1.0), "", seed),
        goal(NAME, "HyperScore: relative distance from 60 digits", "HyperScore", worst, 1e-12, ""),
    ]


def calibration_rows(seed: int) -> list[Row]:
    """Brier scores on held-out simulated runs whose stages are too sure of themselves and of unequal worth."""
    chance = np.random.default_rng(seed)
    scores = chance.beta(1.0, 1.0, (RUNS, 4))
    true = np.array([1.2, 0.6, 0.3, 0.0])
    odds = 0.5 + np.log(scores / (1.0 - scores)) @ (0.4 * true)
    outcomes = [bool(each) for each in chance.random(RUNS) < 1.0 / (1.0 + np.exp(-odds))]
    judged = outcome_calibration.judge_held_out("ended in time", scores, outcomes, (0.4, 0.3, 0.2, 0.1), seed=seed)
    case = f"{RUNS} simulated runs, each held out once"
    return [
        Row(NAME, case, "calibrated", "Brier", judged.brier, "", seed),
        Row(NAME, case, "base rate", "Brier", judged.base_brier, "", seed),
        Row(NAME, case, "raw score", "Brier", judged.score_brier, "", seed),
        goal(NAME, "Brier: calibrated / base rate", "calibrated", judged.brier / judged.base_brier, 1.0, "ratio"),
    ]


def main() -> int:
    """Compute all, report."""
    arguments = parser(__doc__ or "")
    arguments.add_argument("--seeds", type=int, default=1, metavar="N", help="how often games and runs are drawn (default: %(default)s)")
    chosen = arguments.parse_args()
    rows = ahp_rows()
    for seed in range(chosen.seeds):
        rows += [*shapley_rows(QUICK_GAMES if chosen.quick else GAMES, seed), *hyperscore_rows(seed), *calibration_rows(seed)]
    return report(rows, chosen.json)


if __name__ == "__main__":
    sys.exit(main())
