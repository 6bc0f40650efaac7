"""A wheel takes a compiled module from beside its sources only where nothing changed that decides what it does."""

from __future__ import annotations

import os
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def test_a_changed_header_is_compiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("setuptools.setup", lambda **_: None)
    monkeypatch.setattr("Cython.Build.cythonize", lambda extensions, **_: extensions)
    folder = tmp_path / "operator/hyperscale"
    folder.mkdir(parents=True)
    (tmp_path / "setup.py").touch()
    monkeypatch.chdir(tmp_path)
    names = runpy.run_path(str(ROOT / "setup.py"))
    names["LOCK"].close()
    compiled, header = folder / "_module.so", folder / "kernels.h"
    compiled.touch()
    header.touch()
    os.utime(compiled, (1e9, 1e9))
    for file in names["sources"]():
        os.utime(file, (1e9, 1e9))
    assert not any(names["newer"](file, compiled) for file in names["sources"]())
    os.utime(header, (2e9, 2e9))
    assert any(names["newer"](file, compiled) for file in names["sources"]())
