"""Forecast each paper's citations of the next years: a GraphSAGE regression under HyperScale's contract, as a script of one's own.

The data set is the file that citations.py writes: copies of a citation graph as it stood at several dates. Copies of early dates train, one
of a later date chooses the epoch, the last one tests. What a rank gets and gives back is as in examples/own-script.

The last lines say the errors on the test date, also of two forecasts that need no training: a multiple of the citations so far, and a
multiple of last year's. Their multiples are the best ones on the earlier dates, for each error by itself.

By hand, on one machine:
    python examples/citation-impact/citations.py --out citations.npz
    HYPERSCALE_MODEL='{"architecture": "Custom", "parameters": 2567, "epochs": 200}' HYPERSCALE_DATASET_SOURCE=persistentVolumeClaim \
      HYPERSCALE_DATASET_FORMAT=NPZ HYPERSCALE_DATASET_PATH=$PWD/citations.npz python examples/citation-impact/train.py
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Final

import msgspec
import torch
from torch import nn
from torch.nn import functional

from hyperscale.model.adjacency import LocalPart
from hyperscale.model.api.measured import RESULT_PREFIX, Measured
from hyperscale.training.engine import checkpoint
from hyperscale.training.engine.full import PartGraph
from hyperscale.training.engine.halo_exchange import Exchange
from hyperscale.training.engine.neighbourhood import MEAN
from hyperscale.training.engine.timing import Timer
from hyperscale.training.runtime import contract
from hyperscale.training.runtime.comm import Comm, connect
from hyperscale.training.runtime.contract import Run
from hyperscale.training.worker import load_part

ERRORS_PREFIX: Final = "citation-impact: "
"""Rank 0 prints one line that begins so: JSON of the errors on the test date, by method."""
HIDDEN, DROPOUT, LEARNING_RATE, DECAY = 32, 0.2, 0.01, 5e-4
TOTAL, LAST_YEAR = 0, 1
"""Columns of the features, as citations.py writes them: ln(1 + citations so far), and of the last year."""
MULTIPLES: Final = tuple(0.02 * step for step in range(251))
"""That the two plain forecasts may take."""


class Impact(nn.Module):
    """ln(1 + citations of the next years): linear in a paper's figures and in two layers of means over neighbours."""

    def __init__(self, inputs: int, *, neighbours: bool = True) -> None:
        """neighbours: False gives every paper its own figures alone, for comparison."""
        super().__init__()
        self.neighbours = neighbours
        self.first, self.first_mean = nn.Linear(inputs, HIDDEN), nn.Linear(inputs, HIDDEN, bias=False)
        self.second, self.second_mean = nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.out = nn.Linear(inputs + 2 * HIDDEN, 1)

    def forward(self, graph: PartGraph, x: torch.Tensor) -> torch.Tensor:
        """(own vertices,)."""
        first = functional.relu(self.first(x) + self._mean(graph, self.first_mean, x, "first"))
        first = functional.dropout(first, DROPOUT, self.training)
        second = functional.relu(self.second(first) + self._mean(graph, self.second_mean, first, "second"))
        second = functional.dropout(second, DROPOUT, self.training)
        rows: torch.Tensor = self.out(torch.cat([x, first, second], dim=1))
        return rows.squeeze(1)

    def _mean(self, graph: PartGraph, weights: nn.Linear, x: torch.Tensor, name: str) -> torch.Tensor | float:
        return graph.gather(MEAN, weights(x), name) if self.neighbours else 0.0


@dataclass
class Job:
    """What one rank trains with."""

    run: Run
    comm: Comm
    part: LocalPart
    graph: PartGraph
    x: torch.Tensor
    """(own vertices, figures)."""
    counts: torch.Tensor
    """(own vertices,) citations of the next years."""

    def mask(self, *names: str) -> torch.Tensor:
        """(own vertices,) bool: in any of these splits."""
        return torch.stack([torch.from_numpy(getattr(self.part, name)) for name in names]).any(dim=0).to(self.x.device)


def main() -> int:
    """Exit code 0, or 2 for wrong input, which the job's status shows."""
    try:
        run = contract.read(os.environ)
        comm = connect(run.size)
        part = load_part.part(run, comm, os.environ)
        result, errors = train(prepare(run, comm, part))
    except (contract.ContractError, checkpoint.CheckpointError) as error:
        sys.stderr.write(f"citation-impact: {error}\n")
        return contract.EXIT_WRONG_INPUT
    if run.rank == 0:
        sys.stdout.write(f"{ERRORS_PREFIX}{msgspec.json.encode(errors).decode()}\n")
        sys.stdout.write(f"{RESULT_PREFIX}{msgspec.json.encode(result).decode()}\n")
        sys.stdout.flush()
    comm.close()
    return 0


def prepare(run: Run, comm: Comm, part: LocalPart) -> Job:
    """The rank's arrays on its own GPU where Horovod can send from it, else on the processor."""
    gpu = torch.cuda.is_available() and comm.size == 1
    device = torch.device("cuda", run.local_rank % torch.cuda.device_count()) if gpu else torch.device("cpu")
    if part.labels.ndim != 1 or part.features.shape[1] <= LAST_YEAR:
        raise contract.ContractError("HYPERSCALE_DATASET_PATH: no file of citations.py; write one with citations.py --out FILE")
    graph = PartGraph(part, Exchange(comm, part, device), device)
    return Job(run, comm, part, graph, torch.from_numpy(part.features).float().to(device), torch.from_numpy(part.labels).float().to(device))


def train(job: Job, *, neighbours: bool = True) -> tuple[Measured, dict[str, dict[str, float]]]:
    """All epochs, from the newest checkpoint on; errors on the test date by method, at the epoch that was best on the validation date."""
    run, comm = job.run, job.comm
    torch.manual_seed(run.seed)  # the same weights everywhere
    model = Impact(job.x.shape[1], neighbours=neighbours).to(job.x.device)
    plain = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE, weight_decay=DECAY)
    optimizer = distributed(plain, model, comm)
    saved, begun = resume(run, comm, model, plain)
    torch.manual_seed(run.seed + 1 + run.rank)
    mask, target = job.mask("train"), torch.log1p(job.counts)
    best, test, seconds, loss = float("inf"), {}, [], 0.0
    timer = Timer(job.x.device)
    for epoch in range(begun + 1, run.model.epochs + 1):
        began = timer.now()
        model.train()
        optimizer.zero_grad()
        # Divided by the training vertices of all ranks, and summed over ranks: exact, however uneven the shares are.
        own = functional.mse_loss(model(job.graph, job.x)[mask], target[mask], reduction="sum") / job.part.train_total
        own.backward()  # type: ignore[no-untyped-call] # torch annotates only a part of Tensor
        optimizer.step()
        ended = timer.now()
        loss = float(comm.allreduce(own.detach().reshape(1), "loss"))
        timer.settle()
        seconds.append(timer.seconds(began, ended))
        now, on_test = scores(job, model)
        if now < best:
            best, test = now, on_test
        if saved is not None and (epoch % run.checkpoint_every == 0 or epoch == run.model.epochs):
            saved.save(checkpoint.CheckpointProgress(epoch=epoch, loss=loss), checkpoint.collect(model, plain, {}), comm.size)
    later = sorted(seconds[1:] or seconds)
    measured = Measured(
        epoch=run.model.epochs,
        epochs=run.model.epochs,
        loss=loss,
        epoch_seconds=later[len(later) // 2] if later else None,
        resumed_epoch=begun or None,
        finished=True,
    )
    return measured, {"network": test or scores(job, model)[1], **plain_forecasts(job)}


@torch.no_grad()
def scores(job: Job, model: Impact) -> tuple[float, dict[str, float]]:
    """Log error on the validation date, and all errors on the test date."""
    model.eval()
    forecast = torch.expm1(model(job.graph, job.x)).clamp(min=0.0)[:, None]
    validation = errors_of(job, forecast, job.mask("validation"), "validation")
    test = errors_of(job, forecast, job.mask("test"), "test")
    return float(validation[0, 1]), {"absolute": float(test[0, 0]), "log": float(test[0, 1])}


def errors_of(job: Job, forecasts: torch.Tensor, mask: torch.Tensor, name: str) -> torch.Tensor:
    """(k, 2) mean absolute error, and root mean squared error of ln(1 + citations), of k forecasts (own vertices, k); collective."""
    truth = job.counts[mask][:, None]
    absolute = (forecasts[mask] - truth).abs().sum(dim=0)
    squared = (torch.log1p(forecasts[mask]) - torch.log1p(truth)).square().sum(dim=0)
    total = job.comm.allreduce(torch.cat([absolute, squared, mask.sum().float().reshape(1)]), name)
    sums = total[:-1].reshape(2, -1) / total[-1].clamp(min=1.0)
    return torch.stack([sums[0], sums[1].sqrt()], dim=1)


def plain_forecasts(job: Job) -> dict[str, dict[str, float]]:
    """Errors on the test date of a multiple of the citations so far, and of last year's; each error has its own best multiple."""
    errors = {}
    for method, column in (("degree", TOTAL), ("last year", LAST_YEAR)):
        forecasts = torch.expm1(job.x[:, column])[:, None] * torch.tensor(MULTIPLES, device=job.x.device)
        best = errors_of(job, forecasts, job.mask("train", "validation"), f"{method}.earlier").argmin(dim=0)
        test = errors_of(job, forecasts, job.mask("test"), f"{method}.test")
        errors[method] = {"absolute": float(test[best[0], 0]), "log": float(test[best[1], 1])}
    return errors


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
    described = checkpoint.describe("Impact", model.named_parameters())
    saved = checkpoint.Checkpoints(run.checkpoint_dir, run.job, described) if comm.rank == 0 else None
    latest = saved.latest() if saved is not None else None
    epoch = comm.broadcast(torch.tensor([latest.manifest.progress.epoch if latest is not None else 0]), "resume.epoch")
    if int(epoch):
        from safetensors.torch import load as unpack
        from safetensors.torch import save as pack

        packed = comm.broadcast_bytes(pack(latest.tensors) if latest is not None else b"", "resume.state")
        checkpoint.restore(unpack(packed), model, optimizer)
    return saved, int(epoch)


if __name__ == "__main__":
    sys.exit(main())
