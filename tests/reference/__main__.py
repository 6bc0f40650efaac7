"""Writes the reference pages from the code: `python -m tests.reference`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.reference import pictures, processes, schemas, transcripts

DOCS: Final = Path(__file__).resolve().parents[2] / "docs"
PAGES: Final[dict[str, Callable[[], str]]] = {
    "reference/commands.md": processes.commands,
    "reference/crds.md": schemas.custom_resources,
    "reference/metrics.md": processes.metrics,
    "reference/reasons.md": processes.reasons,
    "reference/settings.md": processes.process_settings,
    "reference/values.md": schemas.chart_values,
    "tasks/evaluate.md": lambda: transcripts.refreshed((DOCS / "tasks/evaluate.md").read_text()),
    "tasks/evaluate-end.svg": pictures.end_of_job,
    "tasks/evaluate-time.svg": pictures.use_of_time,
    "try.md": lambda: transcripts.refreshed((DOCS / "try.md").read_text()),
}


def main() -> None:
    """Write every page."""
    for name, make in PAGES.items():
        (DOCS / name).write_text(make())


if __name__ == "__main__":
    main()
