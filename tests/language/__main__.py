"""Checks the language of pages, docstrings, comments and commit subjects: `python -m tests.language`.

It prints the length of sentences in pages, docstrings and messages with its goals.
Counts by page, room and rule may only fall. `tests/language/baseline.json` has those of today; `--record` writes lower ones.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

from tests.language import figures, rules

ROOT = Path(__file__).resolve().parents[2]
BASELINE = Path(__file__).with_name("baseline.json")
PAGES = ("*.md", "docs/*.md", "docs/*/*.md")
WRITTEN = "Written by the command below"
"""On a page of a benchmark's results, which is measured in the figures but whose faults are not listed."""
SOURCES = ("operator/hyperscale",)
MAX_SHOWN = 50
"""Lines of places above the baseline; --all shows every one."""
Counts = dict[str, dict[str, int]]


def pages() -> list[Path]:
    """Return every page."""
    return [page for pattern in PAGES for page in sorted(ROOT.glob(pattern))]


def modules() -> list[Path]:
    """Return every module that is checked."""
    return [module for source in SOURCES for module in sorted((ROOT / source).rglob("*.py"))]


def faults_by_file() -> dict[str, list[rules.Fault]]:
    """Faults of every page and module of the repository, by path."""
    texts = {page: page.read_text() for page in pages()}
    faults = {page: rules.markdown(text) for page, text in texts.items() if WRITTEN not in text}
    faults |= {module: rules.python(module.read_text()) for module in modules()}
    return {str(path.relative_to(ROOT)): each for path, each in faults.items() if each}


def place(path: str) -> str:
    """What is counted together: a page, or all modules of a room, so that a module may be split."""
    return "/".join(path.split("/")[:3]) if path.endswith(".py") else path


def counts_of(faults: dict[str, list[rules.Fault]]) -> Counts:
    """How many faults of each rule a page or a room has."""
    counted: dict[str, Counter[str]] = {}
    for path, each in faults.items():
        counted.setdefault(place(path), Counter()).update(fault.rule for fault in each)
    return {path: dict(sorted(each.items())) for path, each in sorted(counted.items())}


def risen(now: Counts, before: Counts) -> list[tuple[str, str]]:
    """Place and rule of every count above the baseline; a new page has a baseline of 0."""
    return [(path, rule) for path, each in now.items() for rule, count in each.items() if count > before.get(path, {}).get(rule, 0)]


def _parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.language", description=__doc__, epilog="example: python -m tests.language --all docs/tasks/queue.md"
    )
    parser.add_argument("paths", nargs="*", help="files whose faults are shown with --all; every file without")
    parser.add_argument("--all", action="store_true", help="show every fault, also those of the baseline")
    parser.add_argument("--record", action="store_true", help="write the counts of today as the baseline; they may only fall")
    parser.add_argument("--subject", type=Path, metavar="FILE", help="check the first line of a commit message instead")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0, or 1 with one line for each fault of a place that has more than before."""
    chosen = _parsed(arguments)
    if chosen.subject is not None:
        return _show({str(chosen.subject): rules.subject(chosen.subject.read_text())})
    faults = faults_by_file()
    if chosen.all:
        _show({path: each for path, each in faults.items() if not chosen.paths or path in chosen.paths})
        return 0
    now, before = counts_of(faults), _baseline()
    if above := risen(now, before):
        return _show_risen(faults, above, before)
    if chosen.record:
        BASELINE.write_text(json.dumps(now, indent=1) + "\n")
    elif now != before:
        sys.stderr.write("fewer faults than the baseline: python -m tests.language --record\n")
    total = sum(sum(each.values()) for each in now.values())
    code = _show_lengths()
    sys.stdout.write(f"language: {total} faults left in {len(faults)} files\n")
    return code


def _show_lengths() -> int:
    """Print how long sentences are; return 1 where a goal is missed, else 0."""
    lengths = figures.lengths(pages(), modules())
    sys.stdout.write("\n".join([*figures.table(lengths), ""]))
    if long := [kind for kind, each in lengths.items() if not each.is_short]:
        sys.stderr.write(f"sentences of {', '.join(long)} are too long on the whole: shorten the longest\n")
    return 1 if long else 0


def _baseline() -> Counts:
    """The counts that were recorded."""
    counts: Counts = json.loads(BASELINE.read_text())
    return counts


def _show_risen(faults: dict[str, list[rules.Fault]], above: list[tuple[str, str]], before: Counts) -> int:
    """Show every fault of the places and rules that have more than before, and how many each may have."""
    code = _show({path: [fault for fault in each if (place(path), fault.rule) in above] for path, each in faults.items()}, MAX_SHOWN)
    now = counts_of(faults)
    for where, rule in above:
        most = before.get(where, {}).get(rule, 0)
        sys.stderr.write(f"{where}: {rule}: {now[where][rule]}, at most {most} (tests/language/baseline.json)\n")
    return code


def _show(faults: dict[str, list[rules.Fault]], most: int = 100_000) -> int:
    lines = [f"{path}:{fault.line}: {fault.rule}: {fault.message}\n" for path, each in faults.items() for fault in each]
    sys.stderr.writelines(lines[:most])
    if len(lines) > most:
        sys.stderr.write(f"and {len(lines) - most} more\n")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
