"""Peak memory of one case in this process, as a line of JSON: python -m benchmarks.gpu_memory CASE cuda|cpu (by benchmarks/gpu.py)."""

from __future__ import annotations

import gc
import json
import os
import sys
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchmarks.gpu_cases import Case, graph_of, predicted_bytes, trainer_of
from hyperscale.training.runtime import allocator

GIVES_BACK: Final = {"MALLOC_MMAP_THRESHOLD_": str(1 << 20), "MALLOC_ARENA_MAX": "1"}
"""glibc hands every block from 1 MiB on back to the kernel when it is freed. A variable of its own keeps the worker from changing that."""
_STATUS: Final = Path("/proc/self/status")


class Largest(TorchDispatchMode):  # type: ignore[no-untyped-call] # torch annotates only a part of TorchDispatchMode
    """Remembers the numbers in the largest tensor that any operation returned."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # torch annotates only a part of TorchDispatchMode
        self.numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: ANN401 - torch's own signature
        made = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(made):
            if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided:
                self.numbers = max(self.numbers, leaf.untyped_storage().nbytes() // leaf.element_size())
        return made


def measured(case: Case, device: torch.device) -> dict[str, float]:
    """Bytes: the peak of building a trainer, its epochs and an evaluation, and the planner's prediction of that peak."""
    cuda = device.type == "cuda"
    # Libraries are loaded and their threads started by a small case, which is then gone.
    warm = trainer_of(case, graph_of(Case(case.architecture, 5_000, 500, case.features, case.hidden, case.heads, case.dropout)), device)
    warm.epoch(1)
    warm.evaluate()
    del warm
    part = graph_of(case)
    gc.collect()
    idle = 0.0 if cuda else _resident("VmRSS")
    if cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
    else:
        Path("/proc/self/clear_refs").write_text("5")  # the kernel's own peak starts again
    trainer = trainer_of(case, part, device)
    trainer.epoch(1)
    if cuda:
        trainer.epoch(2)
    trainer.evaluate()
    peak = float(torch.cuda.max_memory_allocated(device)) if cuda else _resident("VmHWM") - idle
    return {"peak": peak, "predicted": predicted_bytes(case, cuda=cuda)}


def _resident(name: str) -> float:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(name))
    return 1024.0 * int(line.split()[1])


if __name__ == "__main__":
    allocator.keep(os.environ)
    where = torch.device("cuda", 0) if sys.argv[2] == "cuda" else torch.device("cpu")
    sys.stdout.write(json.dumps(measured(Case(**json.loads(sys.argv[1])), where)) + "\n")
