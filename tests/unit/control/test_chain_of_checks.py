"""The chain lists every check of the policy modules, each with its reason."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import get_type_hints

from hyperscale.control import decide as room
from hyperscale.control.decide import chain
from hyperscale.model.decision import Decision
from hyperscale.model.observed.reconcile_input import ReconcileInput


def checks_of(policy: ModuleType) -> list[str]:
    """Names of the public checks that a module of `control/decide` defines."""
    functions = inspect.getmembers(policy, inspect.isfunction)
    own = [(name, get_type_hints(function)) for name, function in functions if function.__module__ == policy.__name__ and name[0] != "_"]
    return [name for name, hints in own if hints == {"state": ReconcileInput, "return": Decision | None}]


def test_every_check_of_a_policy_has_its_place_in_the_chain() -> None:
    policies = [import_module(f"{room.__name__}.{module.name}") for module in iter_modules(room.__path__)]
    defined = [name for policy in policies for name in checks_of(policy)]
    assert sorted(defined) == sorted(check.__name__ for check in chain.CHAIN)
    assert "decide" not in defined


def test_every_entry_of_the_chain_says_why_it_stands_there() -> None:
    listed = inspect.getsource(chain).partition("CHAIN: Final")[2].partition("\n)\n")[0].splitlines()[1:]
    assert [line.split(",")[0].strip() for line in listed] == [check.__name__ for check in chain.CHAIN]
    assert [line for line in listed if not re.search(r",  # \S+ \S+", line)] == []
