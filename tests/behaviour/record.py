"""`python -m tests.behaviour.record`: write what the code plans, decides and renders now into tests/behaviour/recorded."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from tests.behaviour import decisions, manifests, plans, queues, stored
from tests.behaviour.looks import LOOKS
from tests.behaviour.plan_cases import PLAN_CASES
from tests.behaviour.templates import MANIFEST_CASES

CASES: Final[dict[str, dict[str, Callable[[], Any]]]] = {
    decisions.KIND: {name: partial(decisions.output, look) for name, look in LOOKS.items()},
    manifests.KIND: {name: partial(manifests.output, case) for name, case in MANIFEST_CASES.items()} | manifests.OTHERS,
    plans.KIND: {name: partial(plans.output, case) for name, case in PLAN_CASES.items()},
    queues.KIND: {question: partial(queues.output, question) for question in queues.QUESTIONS},
}
"""By kind and name what computes the output."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Record the kinds that were asked for; always 0."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.behaviour.record",
        description="Record the behaviour of the code. Review the difference in the commit that changes it.",
        epilog="Example: python -m tests.behaviour.record plans && git diff --stat tests/behaviour/recorded",
    )
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"{', '.join(CASES)}; all without one")
    kinds = parser.parse_args(arguments).kinds or list(CASES)
    if unknown := sorted({*kinds} - {*CASES}):
        parser.error(f"unknown kind {unknown[0]}; choose from {', '.join(CASES)}")
    for kind in kinds:
        outputs = {name: output() for name, output in CASES[kind].items()}
        changed = stored.write(kind, outputs)
        sys.stdout.write(f"{kind}: {len(outputs)} cases, {changed} files changed\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
