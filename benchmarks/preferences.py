"""How many comparisons `hyperscale.evaluate.preferences` needs until it chooses as a person would.

Simulated people weigh time, cost and risk by weights that are drawn apart from the model (normalised lognormal, bounds ignored). 87 % of
their answers are consistent: 13 % are flipped at random, or their noise grows as alternatives come near, to the same mean over random
pairs. Active questions are harder ones, so that fewer of these people's answers to them are consistent.
Each person answers comparisons out of pools of eight alternatives. The active choice takes the pair that teaches most, the random choice
any pair of the same pool that trades one thing for another. After each answer the revealed weights choose among three new alternatives,
and the choice is right where it is the person's own best. Peers in the same run: equal weights, and the share of answers as votes.
People whose true burden is linear in the figures break the model; their rows have no goal.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Final, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from benchmarks.common import Row, goal, parser, report
from hyperscale.evaluate.preferences.alternatives import Alternative, Answer, is_trade_off, log_figures
from hyperscale.evaluate.preferences.next_question import next_question
from hyperscale.evaluate.preferences.revealed_weights import posterior, reveal
from hyperscale.model.graph import FloatArray

NAME: Final = "preferences"
CONSISTENT: Final = 0.87
POOL: Final = 8
TRIPLES: Final = 40
"""Choices of three by which a person is judged."""
PEOPLE: Final = 200
QUICK_PEOPLE: Final = 16
ANSWERS: Final = 60
QUICK_ANSWERS: Final = 40
ASKED: Final = 30
RIGHT: Final = 0.9
EVERY: Final = 2
"""Answers between two judgements."""
Chance = np.random.Generator
Burden = Callable[[Sequence[Alternative]], FloatArray]
BREAKS: Final = "linear burden"
"""The kind of people that breaks the model."""
KINDS: Final = ("flipped", "by difficulty", BREAKS)


class Person(NamedTuple):
    """A simulated person."""

    burden: Burden
    sharpness: float
    """Of noise that grows as alternatives come near; infinite where answers are flipped at random."""
    triples: tuple[tuple[Alternative, ...], ...]


def alternatives(chance: Chance, count: int) -> list[Alternative]:
    """Alternatives around an hour, 100 of a currency and a risk of 5 %, each figure lognormal."""
    figures = np.exp(chance.normal(0.0, 0.7, (count, 3))) * np.array([3600.0, 100.0, 0.05])
    return [Alternative(float(time), float(cost), float(min(risk, 1.0))) for time, cost, risk in figures]


def trade_offs(chance: Chance, count: int) -> tuple[Alternative, ...]:
    """Alternatives of which none is better than another in everything."""
    while True:
        drawn = alternatives(chance, count)
        if all(is_trade_off(*pair) for pair in combinations(drawn, 2)):
            return tuple(drawn)


def person(chance: Chance, kind: str) -> Person:
    """A person of one kind."""
    weights = np.exp(chance.normal(0.0, 1.0, 3))
    weights /= weights.sum()

    def by_logarithms(each: Sequence[Alternative]) -> FloatArray:
        burden: FloatArray = log_figures(each) @ weights
        return burden

    def by_figures(each: Sequence[Alternative]) -> FloatArray:
        table = np.array([(one.time_seconds / 3600.0, one.cost / 100.0, one.risk / 0.05) for one in each])
        burden: FloatArray = table @ weights
        return burden

    burden = by_figures if kind == BREAKS else by_logarithms
    sharpness = _sharpness(chance, burden) if kind == "by difficulty" else np.inf
    return Person(burden, sharpness, tuple(trade_offs(chance, 3) for _ in range(TRIPLES)))


def _sharpness(chance: Chance, burden: Burden) -> float:
    """Of a logistic noise with which CONSISTENT of the answers to random trade-offs agree with the burden."""
    gaps = np.array([abs(float(np.diff(burden(trade_offs(chance, 2)))[0])) for _ in range(200)])
    low, high = 0.0, 1000.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if float((0.5 * (1.0 + np.tanh(0.5 * middle * gaps))).mean()) < CONSISTENT else (low, middle)
    return low


def answer(chance: Chance, who: Person, pair: tuple[Alternative, Alternative], number: int) -> tuple[Answer, bool]:
    """What a person says, and whether it is consistent with their burden."""
    first, second = who.burden(pair)
    agrees = CONSISTENT if who.sharpness == np.inf else 1.0 / (1.0 + np.exp(-who.sharpness * abs(second - first)))
    is_consistent = bool(chance.random() < agrees)
    prefers_first = (first <= second) == is_consistent
    better, worse = pair if prefers_first else pair[::-1]
    return Answer(better, worse, str(number)), is_consistent


def question(chance: Chance, strategy: str, answers: list[Answer]) -> tuple[Alternative, Alternative]:
    """The pair that is asked for, out of a pool of alternatives."""
    while True:
        pool = alternatives(chance, POOL)
        pairs = [(one, other) for one, other in combinations(pool, 2) if is_trade_off(one, other)]
        if not pairs:
            continue
        if strategy == "random":
            return pairs[int(chance.integers(len(pairs)))]
        chosen = next_question(pool, posterior(answers))
        if chosen is not None:
            return pool[chosen.first], pool[chosen.second]


def share_right(who: Person, weights: Sequence[float]) -> float:
    """Share of a person's triples in which these weights choose the person's best."""
    figures = [log_figures(triple) @ np.array(weights) for triple in who.triples]
    return float(np.mean([np.argmin(ours) == np.argmin(who.burden(triple)) for ours, triple in zip(figures, who.triples, strict=True)]))


def votes(answers: Sequence[Answer]) -> tuple[float, ...]:
    """Weights of a peer: how often the preferred alternative was the better one in each criterion, less half."""
    wins = np.mean([log_figures([one.other])[0] > log_figures([one.preferred])[0] for one in answers], axis=0)
    shares = np.maximum(wins - 0.5, 0.01)
    return tuple((shares / shares.sum()).tolist())


class Course(NamedTuple):
    """How one person's weights become right."""

    right: FloatArray
    """(k,) share of right choices after EVERY, 2 EVERY, ... answers."""
    voted: float
    """The same of the peer's votes after ASKED answers."""
    equal: float
    """The same of equal weights."""
    consistent: float
    """Share of answers that agree with the person's own burden."""


def course(kind: str, strategy: str, count: int, seed: int, number: int) -> Course:
    """Ask one person `count` times; the person is the same for each strategy."""
    who = person(np.random.default_rng([seed, KINDS.index(kind), number, 0]), kind)
    chance = np.random.default_rng([seed, KINDS.index(kind), number, 1])
    answers: list[Answer] = []
    right, consistent = [], 0
    for at in range(1, count + 1):
        given, agrees = answer(chance, who, question(chance, strategy, answers), at)
        answers.append(given)
        consistent += agrees
        if at % EVERY == 0:
            right.append(share_right(who, reveal(answers).weights))
    return Course(np.array(right), share_right(who, votes(answers[:ASKED])), share_right(who, (1.0, 1.0, 1.0)), consistent / count)


def needed(right: FloatArray) -> float:
    """Comparisons until the mean share of right choices reaches RIGHT, and stays there for the next two judgements; infinite: never."""
    for at in range(len(right) - 2):
        if float(right[at : at + 3].min()) >= RIGHT:
            return float((at + 1) * EVERY)
    return float("inf")


def strategy_rows(kind: str, strategy: str, courses: Sequence[Course], seed: int) -> list[Row]:
    """Rows of one strategy: how right the choices are after some answers, and the peers on the same answers."""
    right = np.mean([each.right for each in courses], axis=0)
    shown = [at for at in (6, 10, 20, 30, 40, 60) if at <= EVERY * len(right)]
    reached = float(right[ASKED // EVERY - 1])
    figures = {
        **{f"right after {at}": float(right[at // EVERY - 1]) for at in shown},
        "answers that are consistent": float(np.mean([each.consistent for each in courses])),
    }
    rows = [Row(NAME, kind, strategy, metric, value, "share", seed) for metric, value in figures.items()]
    rows.append(Row(NAME, kind, strategy, f"comparisons until {RIGHT:.0%}", needed(right), "", seed))
    voted, equal = (float(np.mean(each)) for each in zip(*((one.voted, one.equal) for one in courses), strict=True))
    rows.append(Row(NAME, kind, "votes", f"right after {ASKED}, {strategy}", voted, "share", seed))
    rows.append(Row(NAME, kind, "equal weights", f"right, {strategy}", equal, "share", seed))
    if kind != BREAKS and strategy == "active":
        rows.append(goal(NAME, f"{kind}: wrong choices after {ASKED} comparisons", strategy, 1.0 - reached, 1.0 - RIGHT, "share"))
    return rows


def rows_of(kind: str, people: int, count: int, seed: int) -> list[Row]:
    """All rows of one kind of people."""
    courses = {strategy: [course(kind, strategy, count, seed, number) for number in range(people)] for strategy in ("active", "random")}
    rows = [row for strategy, each in courses.items() for row in strategy_rows(kind, strategy, each, seed)]
    active, random = (needed(np.mean([one.right for one in each], axis=0)) for each in courses.values())
    ratio = active / min(random, count) if np.isfinite(active) else float("inf")  # random may need still more
    return rows if kind == BREAKS else [*rows, goal(NAME, f"{kind}: comparisons, active / random", "active", ratio, 0.6, "ratio")]


def main() -> int:
    """Ask all people, report."""
    arguments = parser(__doc__ or "")
    arguments.add_argument("--seeds", type=int, default=1, metavar="N", help="how many crowds of people are drawn (default: %(default)s)")
    chosen = arguments.parse_args()
    people, count = (QUICK_PEOPLE, QUICK_ANSWERS) if chosen.quick else (PEOPLE, ANSWERS)
    return report([row for seed in range(chosen.seeds) for kind in KINDS for row in rows_of(kind, people, count, seed)], chosen.json)


if __name__ == "__main__":
    sys.exit(main())
