"""A training script of one's own under HyperScale's contract: APPNP (Gasteiger et al., ICLR 2019), which the worker does not have built in.

What it takes from the contract: the rank's place, the plan file, the partition, the checkpoint directory. `contract.read` and `load.part`
give them checked. A script that imports nothing of hyperscale finds the same in RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT,
HYPERSCALE_PLAN_FILE, PARTITION_PATH and CHECKPOINT_DIR. What it gives back: checkpoints, and one result line that ends in the job's status.
Model, loss and optimizer are plain PyTorch and Horovod; it trains on the rank's GPU where there is one.

By hand, on one machine:
    HYPERSCALE_MODEL='{"architecture": "Custom", "parameters": 92231, "epochs": 100}' HYPERSCALE_DATASET_PATH=Cora \
      mpirun --oversubscribe -np 2 -mca btl self,tcp -mca btl_tcp_if_include lo python3 examples/own-script/train.py
"""

from __future__ import annotations

import os
import sys
from typing import Any

import msgspec
import torch
from torch import nn
from torch.nn import functional

from hyperscale.model.adjacency import LocalPart
from hyperscale.model.api.measured import RESULT_PREFIX, Measured
from hyperscale.training.engine import checkpoint
from hyperscale.training.engine.full import PartGraph
from hyperscale.training.engine.halo_exchange import Exchange
from hyperscale.training.engine.neighbourhood import GCN
from hyperscale.training.engine.timing import Timer
from hyperscale.training.runtime import contract
from hyperscale.training.runtime.comm import Comm, connect
from hyperscale.training.runtime.contract import Run
from hyperscale.training.worker import load_part

HIDDEN, STEPS, TELEPORT = 64, 10, 0.1
"""As in the paper: 64 wide, 10 steps of propagation, return probability 0.1."""


class APPNP(nn.Module):
    """Predict from each vertex's own features, then let predictions walk: H = (1 - a) A H + a H0, K times."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(inputs, HIDDEN), nn.Linear(HIDDEN, classes)

    def forward(self, graph: PartGraph, x: torch.Tensor) -> torch.Tensor:
        """(own vertices, classes); each step exchanges the boundary's predictions with the other ranks, a few numbers a vertex."""
        start = self.second(functional.dropout(functional.relu(self.first(functional.dropout(x, 0.5, self.training))), 0.5, self.training))
        rows: torch.Tensor = start
        for step in range(STEPS):
            rows = (1.0 - TELEPORT) * graph.gather(GCN, rows, f"walk{step}") + TELEPORT * start
        return rows


def main() -> int:
    """Exit code 0, or 2 for wrong input, which the job's status shows."""
    try:
        run = contract.read(os.environ)
        comm = connect(run.size)  # horovod.torch.init(), or nobody where mpirun started nothing
        part = load_part.part(run, comm, os.environ)  # this rank's vertices and copies of their neighbours
        result = train(run, comm, part)
    except (contract.ContractError, checkpoint.CheckpointError) as error:
        sys.stderr.write(f"own-script: {error}\n")
        return contract.EXIT_WRONG_INPUT
    if run.rank == 0:
        sys.stdout.write(f"{RESULT_PREFIX}{msgspec.json.encode(result).decode()}\n")
        sys.stdout.flush()
    comm.close()
    return 0


def train(run: Run, comm: Comm, part: LocalPart) -> Measured:
    """All epochs, from the newest checkpoint on."""
    device = device_of(run, comm)
    torch.manual_seed(run.seed)  # the same weights everywhere; Horovod broadcasts nothing
    graph = PartGraph(part, Exchange(comm, part, device), device)
    x, labels = torch.from_numpy(part.features).float().to(device), torch.from_numpy(part.labels).to(device)
    masks = {name: torch.from_numpy(getattr(part, name)).to(device) & (labels >= 0) for name in ("train", "validation", "test")}
    model = APPNP(x.shape[1], part.classes).to(device)
    # Decay of the first layer's weights only, as in the paper.
    groups: list[dict[str, Any]] = [{"params": model.first.parameters(), "weight_decay": 5e-3}, {"params": model.second.parameters()}]
    plain = torch.optim.Adam(groups, lr=0.01)
    optimizer = distributed(plain, model, comm)
    saved, begun = resume(run, comm, model, plain)
    torch.manual_seed(run.seed + 1 + run.rank)  # dropout of its own on every rank
    best, seconds, loss = (0.0, 0.0), [], 0.0
    timer = Timer(device)
    for epoch in range(begun + 1, run.model.epochs + 1):
        began = timer.now()
        model.train()
        optimizer.zero_grad()
        # Divided by the training vertices of all ranks, and summed over ranks: exact, however uneven the shares are.
        own = functional.cross_entropy(model(graph, x)[masks["train"]], labels[masks["train"]], reduction="sum") / part.train_total
        own.backward()  # type: ignore[no-untyped-call] # torch annotates only a part of Tensor
        optimizer.step()
        ended = timer.now()
        loss = float(comm.allreduce(own.detach().reshape(1), "loss"))
        timer.settle()
        seconds.append(timer.seconds(began, ended))  # on a GPU by its own events: kernels run later than they are launched
        best = max(best, accuracies(comm, model, graph, x, labels, masks))
        if saved is not None and (epoch % run.checkpoint_every == 0 or epoch == run.model.epochs):
            saved.save(
                checkpoint.CheckpointProgress(epoch=epoch, loss=loss, best_test=best[1]), checkpoint.collect(model, plain, {}), comm.size
            )
    later = sorted(seconds[1:] or seconds)
    return Measured(
        epoch=run.model.epochs,
        epochs=run.model.epochs,
        loss=loss,
        accuracy=best[1],
        validation_accuracy=best[0],
        epoch_seconds=later[len(later) // 2] if later else None,
        resumed_epoch=begun or None,
        finished=True,
        generated=load_part.is_stand_in(run, part),
    )


def device_of(run: Run, comm: Comm) -> torch.device:
    """The rank's own GPU where there is one and Horovod can send from it, else the processor."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    if comm.size > 1:
        import horovod.torch as hvd

        if not hvd.cuda_built():
            sys.stderr.write("own-script: this Horovod was built without CUDA: training on the processor; use the worker's GPU image\n")
            return torch.device("cpu")
    device = torch.device("cuda", run.local_rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    return device


def distributed(optimizer: torch.optim.Optimizer, model: nn.Module, comm: Comm) -> torch.optim.Optimizer:
    """Stock Horovod's optimizer, summing gradients."""
    if comm.size == 1:
        return optimizer
    import horovod.torch as hvd

    wrapped: torch.optim.Optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(), op=hvd.Sum)
    return wrapped


def resume(run: Run, comm: Comm, model: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[checkpoint.Checkpoints | None, int]:
    """Rank 0 reads the newest checkpoint, all ranks get its weights; written by whatever number of workers."""
    if run.checkpoint_dir is None:
        return None, 0
    saved = (
        checkpoint.Checkpoints(run.checkpoint_dir, run.job, checkpoint.describe("APPNP", model.named_parameters()))
        if comm.rank == 0
        else None
    )
    latest = saved.latest() if saved is not None else None
    epoch = torch.tensor([latest.manifest.progress.epoch if latest is not None else 0])
    epoch = comm.broadcast(epoch, "resume.epoch")
    if int(epoch):
        from safetensors.torch import load as unpack
        from safetensors.torch import save as pack

        packed = comm.broadcast_bytes(pack(latest.tensors) if latest is not None else b"", "resume.state")
        checkpoint.restore(unpack(packed), model, optimizer)
    return saved, int(epoch)


@torch.no_grad()
def accuracies(
    comm: Comm, model: APPNP, graph: PartGraph, x: torch.Tensor, labels: torch.Tensor, masks: dict[str, torch.Tensor]
) -> tuple[float, float]:
    """Validation and test accuracy over all ranks."""
    model.eval()
    right = model(graph, x).argmax(dim=1) == labels
    own = torch.tensor([float(figure) for name in ("validation", "test") for figure in (right[masks[name]].sum(), masks[name].sum())])
    total = comm.allreduce(own, "scores").tolist()
    return total[0] / max(total[1], 1.0), total[2] / max(total[3], 1.0)


if __name__ == "__main__":
    sys.exit(main())
