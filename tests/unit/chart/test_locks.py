"""All lock files together are one resolution."""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[3]
UNION = ROOT / "requirements/dev.lock"
LOCKS = sorted([*ROOT.glob("requirements/*.lock"), *ROOT.glob("images/**/*.lock")])


def pins(lock: Path) -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9._-]+)==(\S+)", lock.read_text(), re.MULTILINE))


def test_no_package_has_two_versions_in_the_lock_files() -> None:
    versions: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for lock in LOCKS:
        for name, version in pins(lock).items():
            versions[name][version].append(str(lock.relative_to(ROOT)))
    assert {name: dict(found) for name, found in versions.items() if len(found) > 1} == {}


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_pin_has_hashes_and_no_address(lock: Path) -> None:
    text = lock.read_text()
    assert pins(lock)
    assert len(re.findall(r"==\S+(?: ; .*)? \\\n    --hash=sha256:", text)) == len(pins(lock))
    assert "://" not in text


@pytest.mark.parametrize("group", ["core", "operator", "agent", "worker", "learn", "test"])
def test_a_group_of_packages_is_a_part_of_the_union(group: str) -> None:
    assert pins(ROOT / f"requirements/{group}.lock").items() <= pins(UNION).items()


@pytest.mark.parametrize("group", ["core", "operator", "agent", "worker", "learn", "test", "dev"])
def test_the_lock_of_a_group_fulfils_what_the_project_asks_for(group: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = pins(ROOT / f"requirements/{group}.lock")
    for text in (*project["dependencies"], *project["optional-dependencies"].get(group, ())):
        wanted = Requirement(text)
        if wanted.name == "hyperscale":  # another extra, with a lock or a part of one
            continue
        assert wanted.specifier.contains(found[wanted.name.lower()]), text
