"""Citations of the next years: the network of examples/citation-impact against two plain forecasts, trained on the past alone.

    python benchmarks/citation_impact.py [--quick] [--seeds N] [--json FILE]

Protocol. A seed draws a citation graph of 24 years by Price's model with ageing and hidden fields (citations.py), and the network's first
weights. The network trains on the graph as it stood in the years 9, 12 and 15, with the citations of the three years after each. It takes
the epoch that was best on year 18, and forecasts the three years after 21. No label that it learns from is later than the date that tests.
"degree" is a multiple of the citations so far, "last year" of those of the last year; their multiples are the best of all years before 21,
for each error by itself. Ratios are ours / theirs on the same seed; the goals are of the worst seed.

Printed beside: "figures alone" is the same network without neighbours. "true model" knows everything that the generator does, fields and
their growth too: medians of 40 futures that the generator draws from year 21. No forecast can be expected to do better.
The absolute error is in citations, the log error the root mean square of ln(1 + citations).
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np  # noqa: E402
import torch  # noqa: E402

from benchmarks import common  # noqa: E402
from benchmarks.common import Row  # noqa: E402
from hyperscale.training.runtime import contract  # noqa: E402
from hyperscale.training.runtime.comm import connect  # noqa: E402
from hyperscale.training.worker import load_part  # noqa: E402

NAME: Final = "citation_impact"
EXAMPLE: Final = ROOT / "examples" / "citation-impact"
OURS: Final = "network"
PLAIN: Final = ("degree", "last year")
EPOCHS, QUICK_EPOCHS = 200, 60
FUTURES: Final = 40
Errors = dict[str, dict[str, float]]
"""By method and error."""


def errors_of(seed: int, epochs: int, futures: int) -> Errors:
    """Errors of all methods on one graph."""
    citations, script = runpy.run_path(str(EXAMPLE / "citations.py")), runpy.run_path(str(EXAMPLE / "train.py"))
    papers, truth = citations["generate"](seed)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "citations.npz"
        np.savez(file, **citations["dataset"](papers))
        job = _job(script, file, epochs, seed)
    errors: Errors = script["train"](job)[1]
    errors["figures alone"] = script["train"](job, neighbours=False)[1][OURS]
    date = citations["dates_of"](papers)[2]
    drawn = citations["futures"](papers, truth, date, futures, seed)
    errors["true model"] = _errors(drawn, citations["snapshot"](papers, date)["labels"])
    return errors


def _job(script: dict[str, Any], file: Path, epochs: int, seed: int) -> Any:  # noqa: ANN401 - a class of the script
    """What the script trains with, read as a worker reads it."""
    variables = {
        "HYPERSCALE_MODEL": json.dumps({"architecture": "Custom", "parameters": 2567, "epochs": epochs}),
        "HYPERSCALE_DATASET_SOURCE": "persistentVolumeClaim",
        "HYPERSCALE_DATASET_FORMAT": "NPZ",
        "HYPERSCALE_DATASET_PATH": str(file),
        "HYPERSCALE_PLAN_FILE": str(file.with_name("no plan")),
        "HYPERSCALE_METRICS_PORT": "0",
        "HYPERSCALE_SEED": str(seed),
    }
    run, comm = contract.read(variables), connect(1)
    return script["prepare"](run, comm, load_part.part(run, comm, variables))


def _errors(futures: np.ndarray[Any, Any], counts: np.ndarray[Any, Any]) -> dict[str, float]:
    """Of what is best for each error: the median of futures (k, n), and the mean of their logarithms."""
    absolute = np.abs(np.median(futures, axis=0) - counts).mean()
    log = np.sqrt(np.square(np.log1p(futures).mean(axis=0) - np.log1p(counts)).mean())
    return {"absolute": float(absolute), "log": float(log)}


def rows_of(by_seed: list[Errors]) -> list[Row]:
    """Errors and ratios of each seed, then goals of the worst one."""
    rows = [
        Row(NAME, f"{error} error", method, "error", figures[error], "citations" if error == "absolute" else "ln", seed)
        for error in ("absolute", "log")
        for seed, errors in enumerate(by_seed)
        for method, figures in errors.items()
    ]
    goals = []
    for error in ("absolute", "log"):
        for method in PLAIN:
            ratios = [errors[OURS][error] / errors[method][error] for errors in by_seed]
            rows += [Row(NAME, f"{error} error", f"{OURS} / {method}", "ratio", ratio, "", seed) for seed, ratio in enumerate(ratios)]
            goals.append(common.goal(NAME, f"{error} error / that of {method}, worst of {len(ratios)} seeds", OURS, max(ratios), 1.0, ""))
    return rows + goals


def main() -> int:
    """Run as said above."""
    arguments = common.parser(__doc__ or "")
    arguments.add_argument("--seeds", type=int, default=5, help="graphs")
    options = arguments.parse_args()
    torch.set_num_threads(1)
    seeds, epochs = (2, QUICK_EPOCHS) if options.quick else (options.seeds, EPOCHS)
    return common.report(rows_of([errors_of(seed, epochs, FUTURES) for seed in range(seeds)]), options.json)


if __name__ == "__main__":
    raise SystemExit(main())
