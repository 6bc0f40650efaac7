"""A user's model out of a user's file: the file is run as a module, what stands under `if __name__ == "__main__"` is not."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import TypeAlias

from torch import nn

from hyperscale.training.modelgraph.analyze import AnalysisError

Network: TypeAlias = nn.Module
"""What is analysed."""


def load(file: str, name: str) -> nn.Module:
    """`name` of the file: a torch module, its class, or a function without arguments that makes one. Raises AnalysisError."""
    model = getattr(_module(file), name, None)
    if model is None:
        raise AnalysisError(f"{file} has no {name!r}; write {file}:NAME with a name that it defines")
    if not isinstance(model, nn.Module):
        if not callable(model):
            raise AnalysisError("neither a torch module nor something that makes one; write the name of one")
        try:
            model = model()
        except Exception as error:
            raise AnalysisError(f"cannot be made without arguments ({_reason(error)}); write a function that makes it") from None
    if not isinstance(model, nn.Module):
        raise AnalysisError(f"gives a {type(model).__name__}, not a torch module; write the name of one that does")
    return model


def _module(file: str) -> ModuleType:
    path = Path(file)
    specification = importlib.util.spec_from_file_location("hyperscale_analyzed", path)
    if specification is None or specification.loader is None:
        raise AnalysisError(f"{file} is no Python file; write file.py:NAME")
    module = importlib.util.module_from_spec(specification)
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)  # for the file's own imports
    try:
        specification.loader.exec_module(module)
    except SyntaxError as error:
        raise AnalysisError(f"{file}: line {error.lineno}: {error.msg}; write a Python 3.11 script") from None
    except (Exception, SystemExit) as error:
        message = f"{file} fails when it is imported ({_reason(error)})"
        raise AnalysisError(message + "; keep its work under `if __name__ == '__main__'`") from None
    finally:
        sys.path.remove(folder)
    return module


def _reason(error: BaseException) -> str:
    """On one line."""
    return " ".join(str(error).split())[:200] or type(error).__name__
