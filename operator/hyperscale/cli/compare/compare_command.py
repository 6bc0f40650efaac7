"""`hyperscale compare`: what differs between result files or groups of runs, by how much, and how sure that is."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from hyperscale.cli.compare.compare_view import CompareAnswer, GroupSize, lines
from hyperscale.cli.compare.result_files import Record, numbers, read_results
from hyperscale.cli.exit_codes import OK, InputError
from hyperscale.cli.text_tables import counted, print_answer
from hyperscale.evaluate.statistics.linear_fit import LinearFit, fit
from hyperscale.evaluate.statistics.result_rows import Pairing, ResultRow
from hyperscale.evaluate.statistics.row_comparison import Comparisons, compare_rows


class _Groups(NamedTuple):
    """What is compared."""

    rows: dict[str, list[ResultRow]]
    records: list[Record]
    """Of all groups, for regression."""
    source: str
    notes: list[str]


def run(arguments: argparse.Namespace) -> int:
    """Read, compare, print."""
    if (arguments.regress is None) != (arguments.on is None):
        raise InputError("--regress and --on go together; write for example --regress step_seconds --on gpus,batch")
    groups = _from_history(arguments) if arguments.history is not None else _from_files(arguments)
    try:
        line = _regression(groups, arguments.regress, arguments.on) if arguments.regress is not None else None
        answer = _compare(groups, arguments, line)
    except ValueError as error:
        raise InputError(f"{groups.source}: {error}") from None
    print_answer(answer, lines(answer), arguments.output)
    return OK


def _compare(groups: _Groups, arguments: argparse.Namespace, line: LinearFit | None) -> CompareAnswer:
    rows = _chosen(_chosen(groups.rows, "metric", arguments.metric), "case", arguments.case)
    factors = tuple(arguments.factor or ())
    sizes = tuple(GroupSize(name, len(each)) for name, each in groups.rows.items())
    if len(rows) < 2 and not factors:
        if line is not None:
            return CompareAnswer(sizes, (), (), line, tuple(groups.notes))
        raise InputError(f"{groups.source}: {_one_group(groups, arguments)}")
    pairing: Pairing = "always" if arguments.paired else "never" if arguments.unpaired else "auto"
    shown: Comparisons = compare_rows(rows, pairing, arguments.scale, factors)
    return CompareAnswer(sizes, shown.comparisons, shown.overall, line, (*groups.notes, *shown.notes))


def _one_group(groups: _Groups, arguments: argparse.Namespace) -> str:
    """Why there is nothing to compare with."""
    if not groups.rows:
        return "no row has a value that can be compared"
    (name,) = groups.rows
    if arguments.history is not None:
        return f"all runs have {arguments.group_by} {name}; write another --group-by"
    return f"one group, {name}; name a second file, or write --by with a column such as method"


def _chosen(groups: Mapping[str, list[ResultRow]], field: str, names: Sequence[str] | None) -> dict[str, list[ResultRow]]:
    """The rows with one of these metrics or cases; all where None."""
    if names is None:
        return dict(groups)
    available = sorted({getattr(row, field) for rows in groups.values() for row in rows})
    for name in names:
        if name not in available:
            raise InputError(f"--{field}: {name!r} is none of the {field}s; write one of {', '.join(available)[:400]}")
    chosen = {group: [row for row in rows if getattr(row, field) in names] for group, rows in groups.items()}
    return {group: rows for group, rows in chosen.items() if rows}


def _from_files(arguments: argparse.Namespace) -> _Groups:
    if not arguments.files:
        raise InputError("no file is named; write two result files, or --history URL")
    column = arguments.column
    if column is None and arguments.regress is not None:
        column = arguments.regress
    rows: dict[str, list[ResultRow]] = {}
    records: list[Record] = []
    notes = []
    for name, file in zip(_names(arguments.files), arguments.files, strict=True):
        results = read_results(file, column)
        records += results.records
        for row in results.rows:
            rows.setdefault(name if arguments.by is None else _label(row, arguments.by, file), []).append(row)
        if results.left_out:
            notes.append(f"{file}: {counted(results.left_out, 'row')} left out: the value is unknown or infinite")
        if not results.rows and arguments.by is None:
            raise InputError(f"{file}: no row has a value that can be compared; give at least one number")
    return _Groups(rows, records, arguments.files[0] if len(arguments.files) == 1 else "compare", notes)


def _label(row: ResultRow, column: str, file: str) -> str:
    if column not in row.columns:
        raise InputError(f"{file}: --by: no column {column!r}; write one of {', '.join(row.columns)}")
    return row.columns[column] or "(empty)"


def _names(files: Sequence[str]) -> list[str]:
    """A short name for each file: its stem, its path where two have the same stem, numbered where two are the same file."""
    stems = Counter(Path(file).stem for file in files)
    names: list[str] = []
    for file in files:
        name = Path(file).stem if stems[Path(file).stem] == 1 else file
        names.append(name if name not in names else f"{name} ({names.count(name) + 1})")
    return names


def _from_history(arguments: argparse.Namespace) -> _Groups:
    from hyperscale.cli.compare.history_groups import read_runs, record_of, rows_of_run  # SQLAlchemy, which files do without

    runs, failed = read_runs(arguments.history, arguments.limit)
    rows: dict[str, list[ResultRow]] = {}
    for one in runs:
        rows.setdefault(getattr(one, arguments.group_by) or "unlabelled", []).extend(rows_of_run(one, arguments.group_by))
    notes = [f"{counted(failed, 'run')} left out: only runs that succeeded are compared"] if failed else []
    rows = {name: sorted(rows[name], key=msgspec.json.encode) for name in _asked(sorted(rows), arguments.files, arguments.group_by)}
    return _Groups(rows, [record_of(one) for one in runs], "--history", notes)


def _asked(available: Sequence[str], names: Sequence[str], group_by: str) -> Sequence[str]:
    """The groups that the command line names, all where it names none."""
    if not available:
        raise InputError("--history: no run has succeeded yet; compare needs runs of two groups")
    for name in names:
        if name not in available:
            raise InputError(f"--group-by {group_by}: no finished run has {name!r}; write one of {', '.join(available)[:400]}")
    return [name for name in available if not names or name in names]


def _regression(groups: _Groups, explained: str, on: str) -> LinearFit:
    """Of the rows that have all columns."""
    names = [explained, *(name.strip() for name in on.split(","))]
    if len(set(names)) < len(names) or "" in names:
        raise InputError("--on: names a column twice, or none; write for example --on gpus,batch")
    columns = {name: numbers(groups.records, name, groups.source) for name in names}
    complete = [at for at in range(len(groups.records)) if all(column[at] is not None for column in columns.values())]
    if len(complete) < len(groups.records):
        groups.notes.append(f"regression: {counted(len(groups.records) - len(complete), 'row')} left out: a column is unknown")
    arrays = {name: np.array([column[at] for at in complete], dtype=np.float64) for name, column in columns.items()}
    return fit(explained, arrays.pop(explained), arrays)
