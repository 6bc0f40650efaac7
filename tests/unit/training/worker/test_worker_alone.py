"""What training's layers need: torch and numpy. `make gpu` runs where nothing else is installed and nothing is compiled."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
ALLOWED = ("torch", "numpy", "hyperscale", "benchmarks")
PROGRAM = """
import importlib.abc, sys
from importlib.metadata import distributions

class Nothing(importlib.abc.MetaPathFinder):
    refused = {name for one in distributions() for name in (one.read_text("top_level.txt") or one.metadata["Name"]).split()} - set(ALLOWED)
    refused |= {"msgspec", "scipy", "dgl", "pymetis", "pyarrow", "safetensors", "prometheus_client", "horovod", "yaml", "kubernetes"}
    # What torch itself requires.
    refused -= {"filelock", "typing_extensions", "sympy", "mpmath", "networkx", "jinja2", "markupsafe", "fsspec", "triton", "isympy"}
    refused -= {"functorch", "torchgen", "setuptools", "pkg_resources", "_distutils_hack", "psutil", "cuda"}

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in self.refused or name.rpartition(".")[2] in COMPILED:
            raise ImportError(f"{name} is not installed in this room")

sys.meta_path.insert(0, Nothing())
import benchmarks.gpu
"""


def test_make_gpu_imports_with_torch_and_numpy_alone_and_nothing_compiled() -> None:
    compiled = tuple(stub.stem for stub in (ROOT / "operator").rglob("_[a-z]*.pyi"))
    program = f"ALLOWED, COMPILED = {ALLOWED!r}, {compiled!r}\n{PROGRAM}"
    places = {"PYTHONPATH": f"{ROOT / 'operator'}:{ROOT}", "PATH": "/usr/bin:/bin"}
    finished = subprocess.run([sys.executable, "-W", "ignore", "-c", program], env=places, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
