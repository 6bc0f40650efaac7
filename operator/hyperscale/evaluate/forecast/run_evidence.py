"""What finished runs say for or against a forecast, as sentences: the run that it is like, ties to failures, models that surprised."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from hyperscale.evaluate.forecast.run_facts import RunFacts
from hyperscale.evaluate.forecast.run_graph import Likeness, RunGraph, RunTie
from hyperscale.model.evaluation import MAX_LIKE_RUNS, LikeRun

MAX_TIES: Final = 4
"""Sentences about things tied to failures or misses."""
DOUBTFUL: Final = 1.25
"""Error on new graphs, over that of all models, from which a sentence says so."""
SURE: Final = 1 / DOUBTFUL
KINDS: Final = {"node": "node", "model": "model", "data": "graph", "product": "GPU"}
MAX_NAME: Final = 80
"""Characters of a name in a sentence."""


def evidence(graph: RunGraph, asked: RunFacts, *, unlike: bool | None, differing: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the sentences about a planned run.

    unlike:    whether the forecast calls it unlike all finished runs; None without a forecast from runs
    differing: by what an unlike run differs most from the nearest one
    """
    nearest = graph.nearest(asked)
    sentences = [_like(nearest[0])] if nearest else ["No finished run has its model or its graph: it is unlike anything in the history."]
    if unlike and differing:
        sentences.append(f"It differs most from the nearest finished run in {', '.join(differing)}.")
    if unlike:
        sentences += _doubt(graph.doubt(asked.architecture), asked.architecture)
    return (*sentences, *(_tie(tie) for tie in graph.ties(asked)[:MAX_TIES]))


def like_runs(graph: RunGraph, asked: RunFacts) -> tuple[LikeRun, ...]:
    """Return the finished runs most like `asked`, best first, as a report shows them."""
    return tuple(
        LikeRun(
            run=each.facts.run[:MAX_NAME],
            shared=each.shared,
            outcome=_outcome(each.facts),
            ratio=None if math.isnan(each.facts.ratio) else each.facts.ratio,
        )
        for each in graph.nearest(asked, MAX_LIKE_RUNS)
    )


def _like(nearest: Likeness) -> str:
    facts = nearest.facts
    ratio = "" if math.isnan(facts.ratio) else f", an epoch took {facts.ratio:.2f} times the forecast of the other runs"
    return f"Most like {facts.run[:MAX_NAME]} ({_listed(nearest.shared)}): it {_outcome(facts)}{ratio}."


def _outcome(facts: RunFacts) -> str:
    if facts.failed:
        return f"failed ({facts.cause[:MAX_NAME]})" if facts.cause else "failed"
    return "ended well, outside its 95 % interval" if facts.missed else "ended well"


def _doubt(doubt: float, architecture: str) -> list[str]:
    if SURE < doubt < DOUBTFUL:
        return []
    return [f"Forecasts of {architecture} on graphs that were new were wrong by {doubt:.2g} times as much as those of all models."]


def _tie(tie: RunTie) -> str:
    what = "failed" if tie.what == "failed" else "missed their 95 % interval"
    return (
        f"Of {tie.runs} runs with {KINDS[tie.kind]} {tie.name[:MAX_NAME]}, {tie.count} {what}; "
        f"of the {tie.other_runs} others, {tie.other_count} (p = {tie.p_value:.2g})."
    )


def _listed(parts: Sequence[str]) -> str:
    return ", ".join(parts)
