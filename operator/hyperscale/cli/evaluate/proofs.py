"""What can be proved for people: why no plan exists, and a certificate of the one that does."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import msgspec

from hyperscale.cli import exit_codes, spinner
from hyperscale.cli.exit_codes import InputError
from hyperscale.cli.files import check_writable, replaced
from hyperscale.cli.plan.inputs import note
from hyperscale.cli.text_tables import bullets, data_text
from hyperscale.evaluate.verify.certificate import certificate
from hyperscale.evaluate.verify.contradiction import Clash, contradiction
from hyperscale.evaluate.verify.solver import SolverMissingError
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.plan import Infeasible, Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.util import extras

LANGUAGES: Final = {".v": "coq", ".lean": "lean"}
"""By the ending of the file."""


class Refusal(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Why there is no plan; the schema of `-o json`."""

    reason: str
    message: str
    contradiction: tuple[Clash, ...] = ()
    """Rules of which any but one can hold, and all together cannot; empty where none is proved."""


def refuse(answer: Infeasible, request: PlanRequest, snapshot: ClusterSnapshot, form: str) -> int:
    """Print the planner's reason and the smallest contradiction; return the exit code."""
    print(exit_codes.one_line(f"no plan: {answer.message or answer.reason}"), file=sys.stderr)
    clashes = _clashes(request, snapshot)
    if form != "table":
        print(data_text(Refusal(answer.reason, answer.message, clashes), form))
    elif clashes:
        print("\n".join(bullets("Cannot hold together", (f"{clash.field}: {clash.sentence}" for clash in clashes))[1:]))
    return exit_codes.INFEASIBLE


def _clashes(request: PlanRequest, snapshot: ClusterSnapshot) -> tuple[Clash, ...]:
    spinner.say("looking for the smallest contradiction")
    try:
        proved = contradiction(request, snapshot)
    except SolverMissingError:
        note(f"contradictions are not searched for: {extras.install('evaluate')}")
        return ()
    return () if proved is None else proved.clashes


def check_certificate(path: str) -> None:
    """Raise InputError, before any time is spent, where no certificate could be written to that file."""
    if Path(path).suffix not in LANGUAGES:
        raise InputError(f"--certificate: {path[:80]!r} ends with neither .v (Coq) nor .lean (Lean 4); name a file with one of them")
    check_writable(path, "--certificate")


def write_certificate(plan: Plan, request: PlanRequest, snapshot: ClusterSnapshot, path: str) -> None:
    """Source text that the proof assistant accepts exactly where the plan is consistent."""
    with replaced(path, "--certificate") as fresh:
        fresh.write_text(certificate(plan, request, snapshot, LANGUAGES[Path(path).suffix]), encoding="utf-8")
    note(f"certificate written: {path}")
