"""`mpirun … python3 -m hyperscale.training.worker.train`: one rank of a training job."""

from __future__ import annotations

import os
import sys
from typing import Final

from hyperscale.util.extras import required

with required("worker", "hyperscale.training.worker"):
    import msgspec
    import torch
    from msgspec.structs import replace

    from hyperscale.model.adjacency import LocalPart
    from hyperscale.model.api.job import AllreduceSchedule, Architecture
    from hyperscale.model.api.measured import RESULT_PREFIX, Measured
    from hyperscale.training import data
    from hyperscale.training.allreduce import horovod
    from hyperscale.training.allreduce.simulate import CYCLE_SECONDS
    from hyperscale.training.engine.checkpoint import CheckpointError
    from hyperscale.training.engine.full import FullTrainer
    from hyperscale.training.engine.loop import Loop
    from hyperscale.training.engine.report import Reporter
    from hyperscale.training.engine.retune import Adaptive
    from hyperscale.training.engine.trainer import Trainer
    from hyperscale.training.runtime import allocator, contract
    from hyperscale.training.runtime.comm import Comm, connect
    from hyperscale.training.runtime.contract import EXIT_WRONG_INPUT, ContractError, Run
    from hyperscale.training.worker import estimates, gpu_check, load_part

MANY_GRAPHS_CYCLE_SECONDS: Final = 5e-5
CUDA_CYCLE_SECONDS: Final = 2e-4
"""At most: an epoch is a chain of a few short messages."""


def main() -> int:
    """Exit code: 0 trained, 2 wrong input."""
    try:
        run = contract.read(os.environ)
        tune(run)
        staged = gpu_check.host_staging(run)
        comm = connect(run.size)
        result = train(run, comm, staged)
    except (ContractError, CheckpointError) as error:
        sys.stderr.write(f"hyperscale.training.worker: {error}\n")
        return EXIT_WRONG_INPUT
    if run.rank == 0:
        sys.stdout.write(f"{RESULT_PREFIX}{msgspec.json.encode(result).decode()}\n")
        sys.stdout.flush()
    comm.close()
    return 0


def tune(run: Run) -> None:
    """Variables that must stand before Horovod starts; what the user set stays."""
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", torch.get_num_threads())))
    if not torch.cuda.is_available():
        allocator.keep(os.environ)
    # Open MPI waits by spinning, which takes from training the processor time that a pod's limit or a neighbour leaves it.
    os.environ.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")
    if run.schedule is AllreduceSchedule.DEFAULT:
        return
    for name, value in horovod.settings(_cycle_seconds(run), estimates.gradient_bytes(run) or 0.0).items():
        os.environ.setdefault(name, value)


def _cycle_seconds(run: Run) -> float:
    """Between two looks for messages that are ready. Ticks take processor time: where the processor trains, they stay as they are."""
    # Ranks that saw different files would differ here too, and wait for the longest tick: Horovod looks on all ranks together.
    if data.known_many(run.dataset.source, run.dataset.path, run.dataset.format):
        # A step on many small graphs is a chain of two sums a layer, a few ms of work, and each sum waits for Horovod's next tick.
        return MANY_GRAPHS_CYCLE_SECONDS
    if not torch.cuda.is_available():
        return CYCLE_SECONDS
    step = estimates.step_seconds(run)
    return CUDA_CYCLE_SECONDS if step is None else min(CUDA_CYCLE_SECONDS, horovod.cycle_seconds(step))


def train(run: Run, comm: Comm, staged: bool = False) -> Measured:
    """One run on this rank; collective. staged: messages between GPUs go through host memory."""
    if run.model.architecture is Architecture.CUSTOM:
        raise ContractError("HYPERSCALE_MODEL: architecture Custom needs its own script; write spec.model.script")
    device = gpu_check.own_device(run)
    if device.type == "cuda":
        torch.cuda.set_device(device)  # what libraries allocate without being asked where
    reporter = Reporter(run)
    try:
        if staged:
            reporter.flag("host_staging")
        part = load_part.part(run, comm, os.environ)
        generated = load_part.is_stand_in(run, part)
        if generated:
            reporter.flag("generated")
        trainer = choose(run, comm, part, device)
        adaptive = Adaptive(run, comm, trainer.gradients, horovod.threshold_bytes(os.environ))
        return replace(Loop(run, comm, trainer, reporter, adaptive.after).train(), generated=generated, host_staging=staged)
    finally:
        reporter.close()


def choose(run: Run, comm: Comm, part: LocalPart, device: torch.device) -> Trainer:
    """The way of training that model and data ask for: whole graph, sampled, or many graphs."""
    # Imported only where used: a full-graph worker starts without the others' libraries.
    if "graph_offsets" in part.extra:
        from hyperscale.training.molecules.molecules import GraphTrainer

        graphs: Trainer = GraphTrainer(run, comm, part, device)
        return graphs
    if run.model.batch_size is not None:
        from hyperscale.training.sampling.sampled_trainer import SampledTrainer

        sampled: Trainer = SampledTrainer(run, comm, part, device)
        return sampled
    return FullTrainer(run, comm, part, device)


if __name__ == "__main__":
    sys.exit(main())
