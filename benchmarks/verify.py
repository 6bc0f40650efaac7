"""Verifiers of plans and models: mutants caught, sound ones refused, agreement of three checkers, times, certificates.

    python benchmarks/verify.py [--quick] [--seeds N] [--json FILE]

Sound plans are made by the planner on generated clusters. Each kind of mutation is drawn until it has its number of mutants that matter:
oracles by brute force (verify_oracle.py, verify_model_oracle.py) sort the equivalent ones out. The peer is `planner.check`, which judges
every plan of the operator; it takes no quota, and what ranks hold is not part of a plan that it reads.
Coq comes from PATH or Debian's packages (tests/proofs/toolchain.py), Lean from $HYPERSCALE_LEAN; without them their rows are left out.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from benchmarks import common
from benchmarks.common import Row, goal
from benchmarks.verify_case_mutants import CASE_KINDS
from benchmarks.verify_cases import PlanCase, sound_cases
from benchmarks.verify_large import full_job, impossible_job
from benchmarks.verify_mutants import KINDS, Mutant, mutant
from benchmarks.verify_oracle import runs
from hyperscale.evaluate.verify.certificate import certificate
from hyperscale.evaluate.verify.contradiction import contradiction
from hyperscale.evaluate.verify.normal_form import Constraint
from hyperscale.evaluate.verify.placement_solver import unsatisfied
from hyperscale.evaluate.verify.plan_checker import broken_constraints
from hyperscale.planner.check.plan_check import violations
from tests.proofs import lean
from tests.proofs.extracted import verdicts
from tests.proofs.toolchain import ToolchainMissingError, toolchain

NAME: Final = "verify"
MAX_TRIES: Final = 40
"""Draws for each mutant that is wanted; kinds that change little give fewer."""
MISSED_LIMIT_PERCENT: Final = 1.0
TIME_LIMIT_MS: Final = 200.0
REPEATS: Final = 7


class Size(NamedTuple):
    """How much one run draws."""

    plans: int
    models: int
    per_plan_kind: int
    per_model_kind: int


FULL: Final = Size(1800, 200, 234, 110)
"""2,000 sound ones, 38 x 234 = 8,892 mutants of plans that matter, and up to 12 x 110 of models."""
QUICK: Final = Size(40, 16, 5, 4)


class Tally(NamedTuple):
    """Of the plans, or of the models, of one seed."""

    rows: list[Row]
    judged: list[Mutant]
    """Mutants that matter and equivalent ones, and the sound plans."""
    worst_missed_percent: float
    refused: int
    wanted: int


def main() -> int:
    """Run the benchmark; the exit code is 1 where a goal is missed."""
    parser = common.parser(__doc__ or "")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="repeat with N seeds")
    arguments = parser.parse_args()
    size = QUICK if arguments.quick else FULL
    rows: list[Row] = []
    for seed in range(arguments.seeds):
        rows += _seed_rows(size, seed)
    rows += [*_times(), *_certificates()]
    return common.report(rows, arguments.json)


def _seed_rows(size: Size, seed: int) -> list[Row]:
    plans, models = _plans(size, seed), _models(size, seed)
    differing = list(_differences(plans.judged, seed))
    mutants = plans.wanted + models.wanted
    return [
        *plans.rows,
        *models.rows,
        *differing,
        Row(NAME, "all kinds", "evaluate", "mutants that matter", mutants, "", seed),
        Row(NAME, "all", "evaluate", "sound plans and models", size.plans + size.models, "", seed),
        goal(
            NAME,
            "missed of the worst kind",
            "evaluate",
            max(plans.worst_missed_percent, models.worst_missed_percent),
            MISSED_LIMIT_PERCENT,
            "%",
        ),
        goal(NAME, "sound ones refused", "evaluate", plans.refused + models.refused, 0, ""),
    ]


def _plans(size: Size, seed: int) -> Tally:
    cases = list(sound_cases(size.plans, seed))
    judged = [Mutant("sound", case, *case.normal()) for case in cases]
    refused = sum(map(_caught, judged))
    refused_by_oracle = sum(1 for one in judged if not runs(one))
    rows = [
        Row(NAME, "sound plans", "evaluate", "refused", refused, "", seed),
        Row(NAME, "sound plans", "planner.check", "refused", sum(1 for case in cases if _judge(case)), "", seed),
        Row(NAME, "sound plans", "oracle", "refused", refused_by_oracle, "", seed),
    ]
    whole = Tally(rows, judged, 0.0, refused, 0)
    for number, kind in enumerate(KINDS):
        whole = _with_kind(whole, kind, *_draw(kind, cases, size.per_plan_kind, np.random.default_rng([seed, number])), seed)
    return whole


def _with_kind(whole: Tally, kind: str, drawn: list[Mutant], equivalent: list[Mutant], seed: int) -> Tally:
    """`whole` with the mutants of one kind."""
    caught = sum(map(_caught, drawn))
    refused = sum(map(_caught, equivalent))
    rows = _kind_rows(kind, len(drawn), caught, len(equivalent), refused, seed)
    if kind in CASE_KINDS:
        rows.append(Row(NAME, kind, "planner.check", "caught", _percent(sum(map(_caught_by_judge, drawn)), len(drawn)), "%", seed))
    return Tally(
        rows=[*whole.rows, *rows],
        judged=[*whole.judged, *drawn, *equivalent],
        worst_missed_percent=max(whole.worst_missed_percent, 100.0 - _percent(caught, len(drawn))),
        refused=whole.refused + refused,
        wanted=whole.wanted + len(drawn),
    )


def _caught(one: Mutant) -> bool:
    return bool(broken_constraints(one.limits, one.facts))


def _draw(kind: str, cases: list[PlanCase], count: int, rng: np.random.Generator) -> tuple[list[Mutant], list[Mutant]]:
    """`count` mutants that matter, and the equivalent ones drawn on the way."""
    drawn: list[Mutant] = []
    equivalent: list[Mutant] = []
    for _ in range(count * MAX_TRIES):
        if len(drawn) == count:
            break
        one = mutant(kind, cases[int(rng.integers(len(cases)))], rng)
        if one is not None:
            (equivalent if runs(one) else drawn).append(one)
    return drawn, equivalent


def _kind_rows(kind: str, drawn: int, caught: int, equivalent: int, refused: int, seed: int) -> list[Row]:
    return [
        Row(NAME, kind, "evaluate", "caught", _percent(caught, drawn), "%", seed),
        Row(NAME, kind, "evaluate", "mutants", drawn, "", seed),
        Row(NAME, kind, "evaluate", "equivalent", equivalent, "", seed),
        Row(NAME, kind, "evaluate", "equivalent refused", refused, "", seed),
    ]


def _percent(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else 0.0


def _judge(case: PlanCase) -> tuple[str, ...]:
    return violations(case.plan, case.request, case.snapshot)


def _caught_by_judge(one: Mutant) -> bool:
    return bool(_judge(one.case))


def _models(size: Size, seed: int) -> Tally:
    import torch

    from benchmarks.verify_model_oracle import trains
    from benchmarks.verify_models import MODEL_KINDS, sound
    from hyperscale.evaluate.verify.model_checks import check_model

    torch.set_num_threads(1)
    cases = [sound(np.random.default_rng([seed, number]), number) for number in range(size.models)]
    refused = sum(1 for case in cases if check_model(*case))
    rows = [
        Row(NAME, "sound models", "evaluate", "refused", refused, "", seed),
        Row(NAME, "sound models", "oracle", "refused", sum(1 for case in cases if not trains(case)), "", seed),
    ]
    worst, wanted = 0.0, 0
    for position, (kind, change) in enumerate(MODEL_KINDS.items()):
        outcomes: Counter[tuple[bool, bool]] = Counter()
        for number in range(size.per_model_kind):
            rng = np.random.default_rng([seed, position, number])
            case = change(sound(rng, number), rng)
            outcomes[trains(case), bool(check_model(*case))] += 1
        drawn, equivalent = (outcomes[works, True] + outcomes[works, False] for works in (False, True))
        rows += _kind_rows(kind, drawn, outcomes[False, True], equivalent, outcomes[True, True], seed)
        worst = max(worst, 100.0 - _percent(outcomes[False, True], drawn))
        refused, wanted = refused + outcomes[True, True], wanted + drawn
    return Tally(rows, [], worst, refused, wanted)


def _differences(judged: list[Mutant], seed: int) -> Iterator[Row]:
    """Cases in which another checker names other broken constraints than the Python checker."""
    ours = [frozenset(one.constraint for one in broken_constraints(each.limits, each.facts)) for each in judged]
    answers: dict[str, list[frozenset[Constraint]]] = {}
    began = time.perf_counter()
    answers["z3"] = [frozenset(unsatisfied(each.limits, each.facts)) for each in judged]
    yield Row(NAME, "one small plan", "z3", "mean time", (time.perf_counter() - began) / len(judged) * 1e3, "ms", seed)
    try:
        began = time.perf_counter()
        answers["Coq, extracted"] = verdicts([(each.limits, each.facts) for each in judged])
        yield Row(NAME, "one small plan", "Coq, extracted", "mean time", (time.perf_counter() - began) / len(judged) * 1e3, "ms", seed)
    except ToolchainMissingError as error:
        sys.stderr.write(f"{error}\n")
    for name, theirs in answers.items():
        differing = Counter(each.kind for each, one, other in zip(judged, ours, theirs, strict=True) if one != other)
        yield from (Row(NAME, kind, name, "differs from Python", count, "", seed) for kind, count in sorted(differing.items()))
        yield Row(NAME, "all plans", name, "compared with Python", len(judged), "", seed)
        yield goal(NAME, "plans judged otherwise than by Python", name, sum(differing.values()), 0, "")


def _times() -> Iterator[Row]:
    """64 ranks on 64 nodes: a placement that holds, and a job that fits nowhere. z3 is loaded before."""
    case = full_job(64, 1)
    limits, facts = case.normal()
    request, snapshot = impossible_job(64)
    questions: dict[str, Callable[[], object]] = {
        "64 ranks x 64 nodes, a placement": lambda: unsatisfied(limits, facts),
        "64 ranks x 64 nodes, a contradiction": lambda: contradiction(request, snapshot),
    }
    for name, ask in questions.items():
        times = []
        for _ in range(REPEATS + 1):
            began = time.perf_counter()
            ask()
            times.append((time.perf_counter() - began) * 1e3)
        yield goal(NAME, name, "z3", common.median(times[1:]), TIME_LIMIT_MS, "ms")
        yield Row(NAME, name, "z3", "slowest", max(times[1:]), "ms")
    began = time.perf_counter()
    broken_constraints(limits, facts)
    yield Row(NAME, "64 ranks x 64 nodes, a placement", "Python", "time", (time.perf_counter() - began) * 1e3, "ms")


def _certificates() -> Iterator[Row]:
    """512 ranks on 64 nodes, and the same on nodes of which one has a GPU less."""
    sound, overfull = full_job(64, 8), full_job(64, 8, short=True)
    for language, accepts in {"coq": _coq_accepts, "lean": lean.accepts}.items():
        with tempfile.TemporaryDirectory() as folder:
            try:
                began = time.perf_counter()
                refused = not accepts(certificate(sound.plan, sound.request, sound.snapshot, language), Path(folder))
                seconds = time.perf_counter() - began
                passed = accepts(certificate(overfull.plan, overfull.request, overfull.snapshot, language), Path(folder))
            except ToolchainMissingError as error:
                sys.stderr.write(f"{error}\n")
                continue
        yield Row(NAME, "512 ranks on 64 nodes", language, "time to check", seconds, "s")
        yield goal(NAME, "certificates of 512 ranks on 64 nodes refused", language, int(refused), 0, "")
        yield goal(NAME, "certificates of an overfull plan accepted", language, int(passed), 0, "")


def _coq_accepts(source: str, folder: Path) -> bool:
    (folder / "Certificate.v").write_text(source)
    return toolchain().run("coqc", "Certificate.v", folder=folder).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
