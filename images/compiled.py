"""Ends the build of an image whose package lacks a compiled module: it would work, slower and with worse parts, and nobody would know.

Each compiled module has a stub beside it, which the wheel carries too.
"""

import importlib.util
import sys
from pathlib import Path

SPEC = importlib.util.find_spec("hyperscale")
ROOT = Path(SPEC.origin).parent if SPEC is not None and SPEC.origin is not None else sys.exit("hyperscale is not installed")
STUBS = sorted(ROOT.rglob("_[a-z]*.pyi"))
MISSING = [str(stub.relative_to(ROOT)) for stub in STUBS if not list(stub.parent.glob(f"{stub.stem}.*.so"))]
if MISSING or not STUBS:
    sys.exit(f"{ROOT}: not compiled: {', '.join(MISSING) or 'no module at all'}")
sys.stdout.write(f"{ROOT}: {len(STUBS)} compiled modules\n")
