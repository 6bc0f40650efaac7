"""z3 as this stage uses it: a Boolean solver with assumptions, a fixed seed and a fixed budget of steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from hyperscale.util.extras import install

STEP_BUDGET: Final = 50_000_000
"""z3's own count of its work (`rlimit`), which does not depend on the machine."""


class SolverMissingError(Exception):
    """z3 is not installed; the message says what to install."""


class SolverBudgetError(Exception):
    """z3 has no answer within its budget of steps."""


class BooleanSolver:
    """Pseudo-Boolean constraints, each of them under an assumption that a question may leave out."""

    def __init__(self) -> None:
        """Open a solver; raises SolverMissingError."""
        try:
            import z3
        except ImportError:
            raise SolverMissingError(f"the package z3 is missing; {install('evaluate')}") from None
        self.z3: Any = z3
        self.context: Any = z3.Context()
        self._solver: Any = z3.SolverFor("QF_FD", ctx=self.context)
        self._solver.set("random_seed", 0)
        self._solver.set("rlimit", STEP_BUDGET)
        self._assumptions: dict[str, Any] = {}
        self._variables = 0
        self._facts: list[Any] = []
        self._pending: dict[str, list[Any]] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Assumptions in the order in which they were first used."""
        return tuple(self._assumptions)

    def variable(self) -> Any:  # noqa: ANN401 - z3 ships no types
        """Return a new Boolean variable."""
        self._variables += 1
        return self.z3.Bool(f"v{self._variables}", ctx=self.context)

    def literal(self, name: str) -> Any:  # noqa: ANN401
        """Return the assumption of that name."""
        if name not in self._assumptions:
            self._assumptions[name] = self.z3.Bool(f"assume {name}", ctx=self.context)
        return self._assumptions[name]

    def fact(self, formula: Any) -> None:  # noqa: ANN401
        """Assert a formula that no question leaves out."""
        self._facts.append(formula)

    def under(self, name: str, formula: Any) -> None:  # noqa: ANN401
        """Assert a formula under the assumption of that name."""
        self.literal(name)
        self._pending.setdefault(name, []).append(formula)

    def never_under(self, name: str) -> None:
        """Make the assumption of that name impossible."""
        self._facts.append(self.z3.Not(self.literal(name)))

    def forbid(self, name: str, *variables: Any) -> None:  # noqa: ANN401
        """Under the assumption, not all of the variables hold."""
        denied = [self.z3.Not(variable) for variable in variables]
        if denied:
            self.under(name, denied[0] if len(denied) == 1 else self.z3.Or(*denied))
        else:
            self.never_under(name)

    def at_most(self, weighted: Sequence[tuple[Any, int]], bound: int) -> Any:  # noqa: ANN401
        """Return sum of weights of true variables <= bound."""
        return self.z3.PbLe(weighted, bound) if weighted else self.z3.BoolVal(bound >= 0, ctx=self.context)

    def at_least(self, weighted: Sequence[tuple[Any, int]], bound: int) -> Any:  # noqa: ANN401
        """Return sum of weights of true variables >= bound."""
        return self.z3.PbGe(weighted, bound) if weighted else self.z3.BoolVal(bound <= 0, ctx=self.context)

    def exactly(self, weighted: Sequence[tuple[Any, int]], bound: int) -> Any:  # noqa: ANN401
        """Return sum of weights of true variables = bound."""
        if len(weighted) == 1 and weighted[0][1] == bound:
            return weighted[0][0]
        return self.z3.PbEq(weighted, bound) if weighted else self.z3.BoolVal(bound == 0, ctx=self.context)

    def satisfiable(self, names: Iterable[str]) -> bool | None:
        """Whether the constraints under these assumptions hold together; None where the budget ends first."""
        self._assert()
        answer = self._solver.check(*(self.literal(name) for name in names))
        if answer == self.z3.unknown:
            return None
        return bool(answer == self.z3.sat)

    def core(self) -> tuple[str, ...]:
        """Return assumptions that the last question shows to contradict each other."""
        members = {str(literal) for literal in self._solver.unsat_core()}
        return tuple(name for name, literal in self._assumptions.items() if str(literal) in members)

    def _assert(self) -> None:
        """Hand z3 what was stated since the last question, in few calls: each call costs more than a formula."""
        for name, formulas in self._pending.items():
            self._solver.add(self.z3.Implies(self.literal(name), self.z3.And(*formulas)))
        if self._facts:
            self._solver.add(self.z3.And(*self._facts))
        self._pending, self._facts = {}, []
