"""`hyperscale history --decisions`: who decided what about which plan, and why."""

from __future__ import annotations

import argparse
import os

import msgspec

from hyperscale.cli.exit_codes import OK, InputError
from hyperscale.cli.text_tables import print_answer, table
from hyperscale.control.history.database import HistoryError
from hyperscale.control.history.decision_store import DecisionStore
from hyperscale.control.history.decisions_table import DecisionKind, PersonDecision, offers_of
from hyperscale.control.history.preference_book import weights_of
from hyperscale.evaluate.preferences.alternatives import CRITERIA
from hyperscale.util.rfc3339 import shown_timestamp


class ShownDecision(msgspec.Struct, frozen=True, rename="camel"):
    """One decision; the schema of `-o json` is a list of these."""

    time: str
    """RFC 3339."""
    namespace: str
    job: str
    """Its name; "" for a decision about the weights of the namespace."""
    uid: str
    decision: str
    plan: str
    """Id of the plan, or of the answer that was forgotten or recalled."""
    because: str
    manager: str
    """Field manager of the annotation: no proof of who it was."""
    outcome: str
    """The operator's reason after it."""
    offered: tuple[str, ...]
    """Ids of the plans that were on offer."""
    weights: dict[str, float] | None = None
    """Of WeightsSet: what was set, before the policy's bounds; null for other decisions."""


def run(arguments: argparse.Namespace, variable: str) -> int:
    """Read and print; variable: of the environment that may name the database."""
    url = arguments.url or os.environ.get(variable, "")
    if not url:
        raise InputError(f"--url: no database is named; write one such as sqlite:////FILE, or set ${variable}")
    try:
        store = DecisionStore(url, make=False)
        try:
            decisions = store.newest(arguments.limit)
        finally:
            store.close()
    except HistoryError as error:
        raise InputError(f"--url: {error}") from error
    shown = [shown_decision(one) for one in decisions]
    print_answer(shown, decision_lines(shown), arguments.output)
    return OK


def shown_decision(one: PersonDecision) -> ShownDecision:
    """Return a row as it is printed."""
    return ShownDecision(
        time=shown_timestamp(one.at),
        namespace=one.namespace,
        job=one.job,
        uid=one.uid,
        decision=one.kind,
        plan=one.plan_id,
        because=one.because,
        manager=one.manager,
        outcome=one.outcome,
        offered=tuple(offer.plan_id for offer in offers_of(one.offers)),
        weights=_weights(one),
    )


def decision_lines(shown: list[ShownDecision]) -> list[str]:
    """Return the table, newest first."""
    if not shown:
        return ["No person has decided on a plan yet."]
    rows = [
        (
            one.time,
            f"{one.namespace}/{one.job}",
            one.decision,
            one.plan or _weights_text(one.weights) or "-",
            str(len(one.offered)),
            one.manager or "-",
            one.because or "-",
        )
        for one in shown
    ]
    return table(("TIME", "JOB", "DECISION", "PLAN OR WEIGHTS", "OFFERED", "BY", "BECAUSE"), rows, right=frozenset({4}))


def _weights(one: PersonDecision) -> dict[str, float] | None:
    """What a WeightsSet says; None for other decisions, and where it cannot be read."""
    weights = weights_of(one.offers) if one.kind == DecisionKind.WEIGHTS_SET else None
    return dict(zip(CRITERIA, weights, strict=True)) if weights is not None else None


def _weights_text(weights: dict[str, float] | None) -> str:
    return ",".join(f"{name}={value:.4g}" for name, value in weights.items()) if weights is not None else ""
