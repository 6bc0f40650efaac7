"""A graph of finished runs and of what they have in common, that says whether a forecast will be wrong.

A run is joined to each thing that it has: model, graph, GPU product, node, cause of its failure.
Two runs are alike by the things between them.
The graph says which finished run is like the planned one, and which things of a plan are tied to failures and misses.
It also says how wrong forecasts of a model are on graphs that no finished run had.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from hyperscale.evaluate.forecast.run_facts import RunFacts

RUN: Final = "run"
ASKED: Final = (RUN, "")
"""The planned run, while it is asked about."""
TIED_KINDS: Final = ("node", "model", "data", "product")
"""Things that are tested for more failures or misses than other runs have."""
CHANCE: Final = 0.05
"""Of any tie among those tested of one run, where there is none."""
MIN_TIED: Final = 2
"""Failures or misses that a tie needs."""
PRIOR_GRAPHS: Final = 1.0
"""Graphs whose error counts as that of all models, before any of the model's own."""

Thing = tuple[str, str]
"""Kind and name."""


@dataclass(frozen=True, slots=True)
class Likeness:
    """A finished run, and what the planned one shares with it."""

    facts: RunFacts
    shared: tuple[str, ...]
    """For people, e.g. `same model`, `3 of 4 nodes`."""
    score: float
    """Adamic and Adar's (2003): what few runs have counts more."""


@dataclass(frozen=True, slots=True)
class RunTie:
    """A thing whose runs failed, or were forecast wrongly, more often than the other runs."""

    kind: str
    name: str
    what: str
    """`failed` or `missed`."""
    count: int
    runs: int
    other_count: int
    other_runs: int
    p_value: float
    """One-sided, of Fisher's exact test, times the number of tests."""


def things(facts: RunFacts) -> Iterator[Thing]:
    """Yield what a run is joined to."""
    single = {"architecture": facts.architecture, "model": facts.model, "data": facts.data, "cause": facts.cause}
    yield from ((kind, name) for kind, name in single.items() if name)
    yield from (("product", name) for name in facts.products)
    yield from (("node", name) for name in facts.nodes)


class RunGraph:
    """Finished runs and their things. Later runs of one id replace earlier ones."""

    def __init__(self, finished: Sequence[RunFacts]) -> None:
        import networkx as nx

        self._facts = {facts.run: facts for facts in finished}
        self._outcomes = {what: self._judged(what) for what in ("failed", "missed")}
        self._graph: Any = nx.Graph()  # its nodes are tuples of two kinds, which the stubs cannot say
        for facts in self._facts.values():
            self._graph.add_node((RUN, facts.run))
            self._graph.add_edges_from(((RUN, facts.run), thing) for thing in things(facts))

    def _judged(self, what: str) -> tuple[set[str], set[str]]:
        """Runs of which it is known whether they `what`, and those that did."""
        outcomes = {name: getattr(facts, what) for name, facts in self._facts.items()}
        return {name for name, yes in outcomes.items() if yes is not None}, {name for name, yes in outcomes.items() if yes}

    def runs_with(self, thing: Thing) -> list[RunFacts]:
        """Return the finished runs that have `thing`, by id."""
        return [self._facts[name] for name in sorted(self._names(thing))]

    def _names(self, thing: Thing) -> set[str]:
        return {name for kind, name in self._graph[thing] if kind == RUN and name in self._facts} if thing in self._graph else set()

    def nearest(self, asked: RunFacts, count: int = 1) -> list[Likeness]:
        """Return the finished runs most like `asked`, best first; none where no run has its architecture or its graph.

        Of equals the newest comes first.
        """
        import networkx as nx

        kin = {name for thing in things(asked) if thing[0] in {"architecture", "data"} for name in self._names(thing)}
        self._graph.add_edges_from((ASKED, thing) for thing in things(asked))
        try:
            newest = [name for name in reversed(self._facts) if name in kin]
            scores = [(score, pair[1]) for *pair, score in nx.adamic_adar_index(self._graph, [(ASKED, (RUN, name)) for name in newest])]
        finally:
            fresh = [thing for thing in things(asked) if self._graph.degree(thing) == 1]
            self._graph.remove_nodes_from([ASKED, *fresh])
        best = sorted(scores, key=lambda each: -each[0])[:count]
        return [Likeness(self._facts[name], shared_things(asked, self._facts[name]), score) for score, (_, name) in best]

    def ties(self, asked: RunFacts) -> list[RunTie]:
        """Return the things of `asked` that are tied to failures or misses, strongest first.

        Fisher's exact test, corrected for all tests of this question (Bonferroni). It takes runs for independent.
        """
        tested = [thing for thing in things(asked) if thing[0] in TIED_KINDS]
        tests = [tie for thing in tested for what in ("failed", "missed") if (tie := self._tie(thing, what)) is not None]
        corrected = [replace(tie, p_value=min(1.0, tie.p_value * len(tests))) for tie in tests]
        shown = [tie for tie in corrected if tie.p_value <= CHANCE and tie.count >= MIN_TIED]
        return sorted(shown, key=lambda tie: tie.p_value)

    def _tie(self, thing: Thing, what: str) -> RunTie | None:
        """None where no run has the thing, or all have it."""
        from scipy.stats import hypergeom

        judged, bad = self._outcomes[what]
        own = self._names(thing) & judged
        if not 0 < len(own) < len(judged):
            return None
        count = len(own & bad)
        chance = float(hypergeom.sf(count - 1, len(judged), len(bad), len(own))) if count >= MIN_TIED else 1.0
        return RunTie(*thing, what, count, len(own), len(bad) - count, len(judged) - len(own), chance)

    def doubt(self, architecture: str) -> float:
        """Return how wrong forecasts of `architecture` are on graphs that were new, over how wrong those of all are; 1 where unknown.

        Errors are averaged over the runs of a graph, then over graphs, and drawn towards those of all by `PRIOR_GRAPHS`.
        """
        by_graph: dict[Thing, list[float]] = {}
        for facts in self._facts.values():
            if not math.isnan(facts.new_data_error):
                by_graph.setdefault((facts.architecture, facts.data), []).append(facts.new_data_error)
        means = {key: sum(errors) / len(errors) for key, errors in by_graph.items()}
        usual = sum(means.values()) / len(means) if means else 0.0
        own = [error for (name, _), error in means.items() if name == architecture]
        return (sum(own) + PRIOR_GRAPHS * usual) / (len(own) + PRIOR_GRAPHS) / usual if usual > 0.0 else 1.0


def shared_things(asked: RunFacts, other: RunFacts) -> tuple[str, ...]:
    """Return what two runs have in common, for people."""
    model = "same model" if asked.model == other.model else "same architecture" if asked.architecture == other.architecture else ""
    graph = "same graph" if asked.data == other.data and asked.data else ""
    products = "same GPUs" if set(asked.products) & set(other.products) else ""
    common = set(asked.nodes) & set(other.nodes)
    whole = "same node" if len(asked.nodes) == 1 else "same nodes"
    nodes = (whole if len(common) == len(asked.nodes) else f"{len(common)} of {len(asked.nodes)} nodes") if common else ""
    return tuple(part for part in (model, graph, products, nodes) if part)
