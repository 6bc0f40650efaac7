"""The job file as it should be: written where `--rewrite` says, and shown as a diff with a reason for each change."""

from __future__ import annotations

import difflib

from hyperscale.cli.exit_codes import InputError
from hyperscale.cli.files import replaced
from hyperscale.cli.plan.inputs import JobInput, note
from hyperscale.cli.text_tables import bullets, data_text
from hyperscale.evaluate.twin.rewrite_job import Rewrite, RewriteFindings, rewrite_job
from hyperscale.evaluate.twin.twin_types import Outlook


def write_rewrite(job: JobInput, outlook: Outlook | None, path: str) -> list[str]:
    """Write the changed job as YAML; return the lines that say what changed and why. Comments of the file are not kept."""
    try:
        changed = rewrite_job(job.resource, RewriteFindings(outlook=outlook))
    except ValueError as error:
        raise InputError(f"{job.shown}: {error}") from None
    with replaced(path, "--rewrite") as fresh:
        fresh.write_text(data_text(changed.job, "yaml"), encoding="utf-8")
    note(f"job written: {path}" if changed.changes else f"job written, nothing changed: {path}")
    return _lines(job, changed)


def _lines(job: JobInput, changed: Rewrite) -> list[str]:
    before, after = (data_text(each, "yaml").splitlines() for each in (job.resource, changed.job))
    diff = difflib.unified_diff(before, after, job.shown, "rewritten", lineterm="", n=2)
    reasons = (f"spec.{change.path}: {_text(change.before)} to {_text(change.after)}: {change.reason}" for change in changed.changes)
    return [*bullets("Rewritten", [*reasons, *changed.notes]), *(["", *diff] if changed.changes else [])]


def _text(value: object) -> str:
    return "absent" if value is None else str(value)
