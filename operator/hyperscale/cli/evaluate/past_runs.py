"""What finished runs of the history teach an evaluation."""

from __future__ import annotations

import json
from dataclasses import replace

from hyperscale.cli.exit_codes import InputError
from hyperscale.control.history.run_lessons import features_row, forecast_row, lessons_and_report, past_run
from hyperscale.control.history.run_store import HistoryError, RunStore
from hyperscale.control.history.runs_table import SUCCEEDED, FinishedRun
from hyperscale.evaluate.forecast.run_facts import RunFacts, facts_of
from hyperscale.evaluate.pipeline.learned_runs import PastRuns, forecast_run

MOST_RUNS = 10_000
"""Newest ones that a forecast looks at."""
MOST_FACTS = 1_000
"""Newest ones whose nodes and outcomes are compared: each brings its whole plan."""


def read_runs(url: str) -> PastRuns:
    """Return what finished runs teach. Raises InputError."""
    try:
        history = RunStore(url, make=False)
        try:
            newest = history.brief_runs(MOST_RUNS)[::-1]
            report = lessons_and_report(history, (), 0.0)[1]
            whole = history.runs(MOST_FACTS)[::-1]
        finally:
            history.close()
    except HistoryError as error:
        raise InputError(f"--history: {error}") from None
    rows = (forecast_row(run) for run, taught in newest if taught)
    past = (past_run(run, taught) for run, taught in newest)
    return PastRuns(
        tuple(forecast_run(row) for row in rows if row is not None),
        tuple(each for each in past if each is not None),
        tuple(map(_facts, whole)),
        report,
    )


def _facts(run: FinishedRun) -> RunFacts:
    """History keeps no cause of a failure, only whether the plan had changed before."""
    failed, nodes = run.phase != SUCCEEDED, _nodes(run.plan)
    cause = f"after {run.replans} {'change' if run.replans == 1 else 'changes'} of its plan" if failed and run.replans > 0 else ""
    return replace(facts_of(forecast_run(features_row(run)), nodes), failed=failed, cause=cause)


def _nodes(plan: str) -> tuple[str, ...]:
    """Names of the nodes in a plan's JSON; empty where it names none."""
    try:
        return tuple(sorted(map(str, json.loads(plan)["ranksByNode"])))
    except (ValueError, LookupError, TypeError, RecursionError):
        return ()
