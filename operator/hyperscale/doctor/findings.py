"""What a check says: one verdict a check, any number of findings, each with a cause and a fix. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from hyperscale.doctor.faults import Fault, FindingState


class Finding(msgspec.Struct, frozen=True, rename="camel"):
    """One thing that is not as it should be."""

    check: str
    """Name of the check that found it."""
    fault: Fault
    state: FindingState
    message: str
    """What is seen."""
    cause: str
    """Why, as far as the facts tell."""
    fix: str
    """A command, or a value to set."""
    where: tuple[str, ...] = ()
    """Names of the objects concerned, at most MAX_NAMES."""


class CheckVerdict(msgspec.Struct, frozen=True, rename="camel"):
    """What one check came to."""

    check: str
    state: FindingState
    """Of its worst finding."""
    summary: str
    """What was looked at, in figures."""
    findings: tuple[Finding, ...] = ()


class Report(msgspec.Struct, frozen=True, rename="camel"):
    """All verdicts in the order of the checks; the schema of `-o json`."""

    version: str
    """Of this command."""
    cluster: str
    """Address of the API server."""
    state: FindingState
    """Of the worst verdict."""
    exit_code: int
    checks: tuple[CheckVerdict, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, worst first, else in the order of the checks."""
        listed = [finding for check in self.checks for finding in check.findings]
        return tuple(sorted(listed, key=lambda finding: -finding.state.rank))


CheckResult = tuple[str, Iterable[Finding | None]]
"""What was looked at, in figures, and what was found; None stands for a finding that does not apply."""
EXIT_CODES = {FindingState.OK: 0, FindingState.INFO: 0, FindingState.WARNING: 3, FindingState.ERROR: 4}
"""1 and 2 mean "no plan" and "bad input" in all of this command line."""

MAX_NAMES = 10


def finding(fault: Fault, message: str, cause: str, fix: str, names: Iterable[str] = (), *, state: FindingState | None = None) -> Finding:
    """A finding of a check that `diagnose` fills in; names: of the objects concerned; state: the fault's own where None."""
    return Finding("", fault, state or fault.state, message, cause, fix, tuple(sorted(set(names))[:MAX_NAMES]))


def alike(findings: Iterable[Finding]) -> list[Finding]:
    """Findings of one fault with one cause and one fix as a single one, whose message is the first's and names the others."""
    groups: dict[tuple[str, str, str], list[Finding]] = {}
    for one in findings:
        groups.setdefault((one.fault, one.cause, one.fix), []).append(one)
    return [_merged(group) for group in groups.values()]


def _merged(group: list[Finding]) -> Finding:
    first = group[0]
    if len(group) == 1:
        return first
    message = f"{first.message}; likewise {', '.join(one.message.partition(':')[0] for one in group[1:])}"
    named = tuple(dict.fromkeys(name for one in group for name in one.where))[:MAX_NAMES]
    return msgspec.structs.replace(first, message=message, state=worst(one.state for one in group), where=named)


def worst(states: Iterable[FindingState]) -> FindingState:
    """The worst of some states; OK of none."""
    return max(states, key=lambda state: state.rank, default=FindingState.OK)


def some(names: Iterable[str], most: int = 3) -> str:
    """`a, b, c and 4 more`, sorted."""
    ordered = sorted(set(names))
    shown = ", ".join(ordered[:most])
    return shown if len(ordered) <= most else f"{shown} and {len(ordered) - most} more"


def plural(count: int, thing: str) -> str:
    """`1 node`, `2 nodes`."""
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"
