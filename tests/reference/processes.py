"""What the processes offer: metrics, settings, commands, reasons."""

from __future__ import annotations

import ast
import inspect
import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from unittest import mock

import msgspec

from hyperscale.agent import agent_settings
from hyperscale.agent.probe import probe_settings
from hyperscale.cli.arguments.parser import build_parser
from hyperscale.cli.explain.meanings import MEANINGS
from hyperscale.control import settings
from hyperscale.model.decision import Reason
from hyperscale.observe.prometheus import credentials
from tests.reference.markdown import code, page, table

PACKAGE: Final = Path(__file__).resolve().parents[2] / "operator/hyperscale"
WIDTH: Final = "110"
"""Columns of the help texts."""
OPERATOR_METRICS: Final = "control/telemetry/metrics.py"
WORKER_METRICS: Final = "training/engine/report.py"
AGENT_METRICS: Final = ("agent/probe/probe_metrics.py", "agent/gpus/exposition_gpus.py")
KINDS: Final = {"Gauge": "gauge", "_gauge": "gauge", "Counter": "counter", "Histogram": "histogram", "GaugeMetricFamily": "gauge"} | {
    "CounterMetricFamily": "counter",
    "_counter": "counter",
    "_histogram": "histogram",
    "Family": "",
}
Row = tuple[str, str, str, str]


def metrics() -> str:
    """Return the page of all metrics."""
    header = ("metric", "type", "labels", "meaning")
    worker = [*_of_worker(), *_declared(WORKER_METRICS)]
    agent = [row for file in AGENT_METRICS for row in _declared(file)]
    return page(
        "Metrics",
        "Every metric that a process of HyperScale serves.\nThe units are in the names.",
        "## Operator\n\nPort 9090, `/metrics`.",
        table(header, sorted(_declared(OPERATOR_METRICS))),
        "## Node agent\n\nPort 9465, `/metrics`.\nWithout a dcgm-exporter on the node it also serves GPU figures, under dcgm-exporter's"
        " names\n"
        "([agent.md](../explanation/agent.md)).",
        table(header, sorted(agent)),
        "## Workers\n\nPort 9464, `/metrics`, of each worker pod.\nEvery series has the labels `job_namespace`, `job_name` and `rank`.",
        table(header, sorted(worker)),
    )


def _of_worker() -> Iterator[Row]:
    """Gauges that the worker makes from a table."""
    tree = ast.parse((PACKAGE / WORKER_METRICS).read_text())
    for node in tree.body:
        if (
            isinstance(node, ast.AnnAssign | ast.Assign)
            and isinstance(node.value, ast.Dict)
            and "'epoch_seconds'" in ast.unparse(node.value)
        ):
            for name, text in ast.literal_eval(node.value).items():
                yield code(f"hyperscale_training_{name}"), "gauge", "", text


def _declared(file: str) -> Iterator[Row]:
    """Metrics that a module declares in calls and in tables of name and text."""
    for node in ast.walk(ast.parse((PACKAGE / file).read_text())):
        if isinstance(node, ast.Call):
            yield from _of_call(node)
        elif isinstance(node, ast.Dict):
            yield from _of_table(node)


def _of_call(call: ast.Call) -> Iterator[Row]:
    """The metric that a call of a metric's class declares; none where name and text are variables, which come from a table."""
    name = _name(call.args[0]) if call.args else ""
    function = _called(call.func)
    if not name or function not in KINDS:
        return
    texts = [text for part in call.args[1:] if (text := _text(part)) is not None]
    if texts:
        kind = KINDS[function] or texts.pop(0)
        full = name if kind != "counter" or name.endswith("_total") else f"{name}_total"
        yield code(full), kind, _labels(call), texts[0]


def _of_table(table: ast.Dict) -> Iterator[Row]:
    """Gauges of links in a table of name and text."""
    for key, value in zip(table.keys, table.values, strict=True):
        if key is not None and (name := _name(key)) and isinstance(value, ast.Constant):
            yield code(name), "gauge", "`source`, `destination`", str(value.value)


def _called(function: ast.expr) -> str:
    """The last name of what is called."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _text(node: ast.expr) -> str | None:
    """A literal text."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _name(node: ast.expr) -> str:
    """A metric's name from a literal, or from an f-string with the module's prefix; empty for anything else."""
    text = node.value if isinstance(node, ast.Constant) else ""
    if isinstance(node, ast.JoinedStr):
        text = "".join(str(part.value) if isinstance(part, ast.Constant) else "hyperscale_training" for part in node.values)
    return text if isinstance(text, str) and text.startswith("hyperscale_") else ""


def _labels(call: ast.Call) -> str:
    """The labels that a call names literally."""
    given = [*call.args[2:], *(keyword.value for keyword in call.keywords if keyword.arg == "labels")]
    parts = [part for node in given if isinstance(node, ast.List | ast.Tuple | ast.Constant) for part in ast.walk(node)]
    texts = [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    return ", ".join(code(text) for text in texts if re.fullmatch(r"[a-z_]{2,20}", text))


def process_settings() -> str:
    """Return the page of all environment variables of operator and agent."""
    header = ("variable", "default", "meaning")
    operator = [row for row in _variables(settings.Settings, settings.PREFIX) if row[0] != "`HYPERSCALE_PROMETHEUS_ACCESS`"]
    operator += _variables(credentials.Access, credentials.PREFIX)
    agent = [
        *_variables(agent_settings.AgentSettings, agent_settings.PREFIX),
        *_variables(probe_settings.LinkSettings, agent_settings.PREFIX),
    ]
    return page(
        "Settings",
        "Environment variables of the processes.\nThe chart sets them from [its values](values.md); set others with `extraEnv`.\n"
        "Settings of planning are in the [PlannerPolicy](crds.md#plannerpolicy).",
        "## Operator",
        table(header, operator),
        "## Node agent",
        table(header, agent),
        "The workers' variables are on [training.md](../explanation/training.md#contract).",
    )


def _variables(cls: type[msgspec.Struct], prefix: str) -> list[tuple[str, str, str]]:
    """Rows of the fields of a class of settings that are read from plain variables."""
    body = next(node for node in ast.parse(inspect.getsource(cls)).body if isinstance(node, ast.ClassDef)).body
    texts = {
        field.target.id: str(text.value.value)
        for field, text in itertools.pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
    }
    downward = agent_settings.DOWNWARD if cls is agent_settings.AgentSettings else {}
    return [
        (code(downward.get(field.name, f"{prefix}{field.name.upper()}")), _default(field.default), texts.get(field.name, ""))
        for field in msgspec.structs.fields(cls)
    ]


def _default(value: object) -> str:
    plain = isinstance(value, str | int | float)
    return code(f"{value:g}" if isinstance(value, float) else value) if plain and value != "" else ""


def commands() -> str:
    """Return the page of all commands with their help texts."""
    with mock.patch.dict(os.environ, {"COLUMNS": WIDTH, "NO_COLOR": "1"}):
        sections = [f"## {name}\n\n```\n{text.rstrip()}\n```" for name, text in _helps(build_parser("hyperscale"))]
    return page(
        "Commands and flags", "What `hyperscale COMMAND --help` prints.\n[The command line](cli.md) explains the commands.", *sections
    )


def _helps(parser: Any) -> Iterator[tuple[str, str]]:
    """Name and help of a parser and of those below it; argparse has no public list of subcommands."""
    yield parser.prog, parser.format_help()
    for action in parser._actions:
        if isinstance(action.choices, dict):
            for below in action.choices.values():
                yield from _helps(below)


def reasons() -> str:
    """Return the page of all reasons of jobs."""
    others = sorted(str(reason) for reason in MEANINGS if reason not in set(Reason))
    names = [*(str(reason) for reason in Reason), *others]
    rows = [(f"[{name}](../tasks/troubleshooting.md#{name.lower()})", *_texts(name)) for name in names]
    return page(
        "Reasons",
        "Every reason of a job's last step, as `hyperscale explain JOB` explains it.\nThe same word is in the condition, the event, the log"
        " and the metric.\nEach links to what to do.",
        table(("reason", "state", "waits for"), rows),
    )


def _texts(name: str) -> tuple[str, str]:
    meaning = MEANINGS.get(name)
    return (meaning.happens, meaning.waits_for) if meaning is not None else ("", "")
