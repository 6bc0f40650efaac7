"""The first epochs of a built-in model, as a rank of the job trains it, alone. In the tried process only."""

from __future__ import annotations

import os
from collections.abc import Callable


def train(ready: Callable[[], None]) -> None:
    """Train as `hyperscale.training.worker.train` does; `ready` is called when the graph is there, before anything is built."""
    import torch

    from hyperscale.training.engine.loop import Loop
    from hyperscale.training.engine.report import Reporter
    from hyperscale.training.runtime import contract
    from hyperscale.training.runtime.comm import connect
    from hyperscale.training.worker import load_part
    from hyperscale.training.worker.train import choose

    run = contract.read(os.environ)
    comm = connect(run.size)
    part = load_part.part(run, comm, os.environ)
    reporter = Reporter(run)
    ready()
    trainer = choose(run, comm, part, torch.device("cpu"))
    if run.model.batch_size is not None:
        trainer.evaluate()  # which comes after an epoch of many batches, too late for a trial, and may need most memory
    Loop(run, comm, trainer, reporter).train()
