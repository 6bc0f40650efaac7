"""`hyperscale preferences`: show, take back or set what the people of a namespace weigh time, cost and risk by."""

from __future__ import annotations

import argparse
import math
import os
import time
from typing import Any, Final

import msgspec

from hyperscale.cli.documents import display_name, read_object
from hyperscale.cli.exit_codes import OK, InputError
from hyperscale.cli.explain.explain_command import check_name, listed_objects
from hyperscale.cli.history.history_command import VARIABLE
from hyperscale.cli.plan.inputs import read_policy
from hyperscale.cli.preferences.preference_report import OfferSet, report, report_lines
from hyperscale.cli.text_tables import print_answer, printable
from hyperscale.control.history.database import HistoryError
from hyperscale.control.history.decision_store import DecisionStore
from hyperscale.control.history.decisions_table import DecisionKind, PersonDecision, decision
from hyperscale.control.history.preference_book import preferences_of
from hyperscale.evaluate.preferences.alternatives import CRITERIA
from hyperscale.evaluate.preferences.revealed_weights import WeightBounds
from hyperscale.model import constants
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.status import read_status

MAX_BECAUSE: Final = 1000
SUM_TOLERANCE: Final = 1e-6


def run(arguments: argparse.Namespace) -> int:
    """Change what is asked for, then print what holds now."""
    url = arguments.url or os.environ.get(VARIABLE, "")
    if not url:
        raise InputError(f"--url: no database is named; write one such as sqlite:////FILE, or set ${VARIABLE}")
    if arguments.namespace is not None:
        check_name("--namespace", arguments.namespace)
    policy = read_policy(arguments.policy) if arguments.policy is not None else PolicySpec()
    bounds = WeightBounds(policy.preferences.bounds.low, policy.preferences.bounds.high)
    waiting = _waiting(arguments.filename) if arguments.filename is not None else {}
    try:
        store = DecisionStore(url, make=False)
        try:
            if (change := _change(store, arguments)) is not None:
                store.record([change])
            decisions = store.decisions(namespace=arguments.namespace)
        finally:
            store.close()
    except HistoryError as error:
        raise InputError(f"--url: {error}") from error
    by_namespace: dict[str, list[PersonDecision]] = {name: [] for name in waiting if arguments.namespace in (None, name)}
    for one in decisions:
        by_namespace.setdefault(one.namespace, []).append(one)
    shown = [report(name, rows, bounds, waiting.get(name, ())) for name, rows in sorted(by_namespace.items())]
    print_answer(shown, map(printable, report_lines(shown)), arguments.output)
    return OK


def _change(store: DecisionStore, arguments: argparse.Namespace) -> PersonDecision | None:
    """The row that a change of the weights is; None where nothing is changed. Raises InputError and HistoryError."""
    wanted = {
        DecisionKind.FORGOTTEN: arguments.forget,
        DecisionKind.RECALLED: arguments.recall,
        DecisionKind.WEIGHTS_SET: arguments.set,
        DecisionKind.WEIGHTS_CLEARED: arguments.clear or None,
    }
    kind, value = next(((kind, value) for kind, value in wanted.items() if value is not None), (None, None))
    if kind is None:
        return None
    if arguments.namespace is None:
        raise InputError("--namespace: is missing; write the namespace whose weights change")
    because = printable(" ".join((arguments.because or "").split()))
    if len(because) > MAX_BECAUSE:
        raise InputError(f"--because: has {len(because)} characters; write at most {MAX_BECAUSE}")
    about = {"because": because, "manager": "hyperscale preferences"}
    if kind is DecisionKind.WEIGHTS_SET:
        return decision(time.time(), arguments.namespace, kind, offers=msgspec.json.encode(read_weights(str(value))).decode(), **about)
    if kind is DecisionKind.WEIGHTS_CLEARED:
        return decision(time.time(), arguments.namespace, kind, **about)
    return decision(time.time(), arguments.namespace, kind, _answer(store, arguments.namespace, kind, str(value)), **about)


def _answer(store: DecisionStore, namespace: str, kind: DecisionKind, identifier: str) -> str:
    """The identifier, where there is such an answer to forget or to recall."""
    preferences = preferences_of(store.decisions(namespace=namespace))
    answers = preferences.answers if kind is DecisionKind.FORGOTTEN else preferences.forgotten
    if identifier not in {answer.identifier for answer in answers}:
        option = "--forget" if kind is DecisionKind.FORGOTTEN else "--recall"
        raise InputError(f"{option}: {identifier[:160]!r} is no such answer of {namespace}; see them with `hyperscale preferences`")
    return identifier


def read_weights(text: str) -> tuple[float, float, float]:
    """Return the weights that `time=0.2,cost=0.6,risk=0.2` says; raises InputError unless all three are there and sum to 1."""
    fault = f"--set: {text[:80]!r}: write time=0.2,cost=0.6,risk=0.2: three numbers from 0 to 1 that sum to 1"
    given: dict[str, float] = {}
    for part in text.split(","):
        name, _, number = part.strip().partition("=")
        try:
            value = float(number)
        except ValueError:
            raise InputError(fault) from None
        if name not in CRITERIA or name in given or not 0.0 <= value <= 1.0:  # NaN fails as well
            raise InputError(fault)
        given[name] = value
    if len(given) < len(CRITERIA) or abs(math.fsum(given.values()) - 1.0) > SUM_TOLERANCE:
        raise InputError(fault)
    return given["time"], given["cost"], given["risk"]


def _waiting(path: str) -> dict[str, list[OfferSet]]:
    """By namespace what is on offer for the jobs of a file, as `kubectl get gnntj -A -o json` writes it."""
    document: dict[str, Any] = read_object(path)
    jobs = [item for item in listed_objects(document) if item.get("kind") == constants.JOB_KIND]
    if not jobs:
        raise InputError(f"{display_name(path)}: kind: holds no {constants.JOB_KIND}; give what `kubectl get gnntj -A -o json` prints")
    offered: dict[str, list[OfferSet]] = {}
    for job in jobs:
        metadata, status = job.get("metadata"), job.get("status")
        alternatives = read_status(status).alternatives if isinstance(status, dict) else None
        if alternatives is not None and isinstance(metadata, dict):
            entry = str(metadata.get("name") or ""), alternatives.offers
            offered.setdefault(str(metadata.get("namespace") or "default"), []).append(entry)
    return offered
