"""What a rank tells the outside: Prometheus metrics while it trains, and one `Measured` of all ranks at the end."""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Sequence
from typing import Any, Final

import prometheus_client
import torch

from hyperscale.model.api.measured import MOST_PAIRS, MOST_PHASES, MOST_TIMED_RANKS, Measured, PairBytes, PhaseSeconds
from hyperscale.training.engine.checkpoint import CheckpointProgress
from hyperscale.training.engine.trainer import EpochStats
from hyperscale.training.runtime.comm import Comm
from hyperscale.training.runtime.contract import Run

LABELS: Final = ("job_namespace", "job_name", "rank")
PREFIX: Final = "hyperscale_training"
GAUGES: Final = {
    "epoch": "Finished epochs.",
    "epochs": "Epochs asked for.",
    "loss": "Training loss of the last epoch over all ranks.",
    "accuracy": "Test accuracy (ROC-AUC for graphs) at the epoch that was best on the validation set, 0 to 1.",
    "epoch_seconds": "Wall time of the last epoch on this rank.",
    "samples_per_second": "Training vertices or graphs of all ranks per second.",
    "host_staging": "1 where ranks on GPUs send through host memory; absent otherwise.",
    "generated": "1 where a generated graph stands in for a builtin one that was not found; absent otherwise.",
}


class Reporter:
    """Metrics of one rank, served over HTTP where a port is given."""

    def __init__(self, run: Run) -> None:
        """A port that is taken is said on stderr and costs the metrics, never the training."""
        self.registry = prometheus_client.CollectorRegistry()
        self._labels = {"job_namespace": run.namespace, "job_name": run.name, "rank": str(run.rank)}
        self._gauges = {name: self._gauge(f"{PREFIX}_{name}", text) for name, text in GAUGES.items()}
        self._phases = self._gauge(f"{PREFIX}_phase_seconds", "Seconds of the last epoch by phase.", "phase")
        self._peers = prometheus_client.Counter(
            f"{PREFIX}_peer_bytes", "Bytes sent to another rank.", (*LABELS, "peer"), registry=self.registry
        )
        self._set("epochs", run.model.epochs)
        self._server: Any = None
        if run.metrics_port:
            try:
                self._server, _ = prometheus_client.start_http_server(run.metrics_port, registry=self.registry)
            except OSError as error:
                sys.stderr.write(
                    f"HYPERSCALE_METRICS_PORT: {run.metrics_port} cannot be used ({error.strerror}); training without metrics\n"
                )

    def flag(self, name: str) -> None:
        """Set `generated` or `host_staging`: accuracy, or times, must not be seen without that."""
        self._set(name, 1.0)

    def epoch(self, number: int, stats: EpochStats, progress: CheckpointProgress) -> None:
        """After every epoch."""
        self._set("epoch", number)
        self._set("loss", stats.loss)
        self._set("epoch_seconds", stats.seconds)
        self._set("samples_per_second", stats.samples / stats.seconds if stats.seconds > 0 else 0.0)
        if progress.best_test is not None:
            self._set("accuracy", progress.best_test)
        for phase, seconds in stats.phases.items():
            self._phases.labels(**self._labels, phase=phase).set(seconds)
        for peer, sent in enumerate(stats.sent_bytes):
            if sent:
                self._peers.labels(**self._labels, peer=str(peer)).inc(sent)

    def close(self) -> None:
        """Stop serving."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def _gauge(self, name: str, text: str, *labels: str) -> prometheus_client.Gauge:
        return prometheus_client.Gauge(name, text, (*LABELS, *labels), registry=self.registry)

    def _set(self, name: str, value: float) -> None:
        self._gauges[name].labels(**self._labels).set(value)


def measured(comm: Comm, epochs: int, history: Sequence[EpochStats], progress: CheckpointProgress, resumed: int | None) -> Measured:
    """The run over all ranks, the same on every rank; collective. history: this process's epochs, oldest first."""
    later = history[1:] or history
    table = comm.gather(_medians(later), "measured")
    slowest = int(table[:, 1].argmax())
    seconds = float(table[:, 0].max())
    return Measured(
        epoch=progress.epoch,
        epochs=epochs,
        loss=_finite(history[-1].loss if history else progress.loss),
        accuracy=_finite(progress.best_test),
        validation_accuracy=_finite(progress.best_validation),
        epoch_seconds=seconds if history else None,
        compute_seconds=float(table[slowest, 1]) if history else None,
        rank_compute_seconds=_rounded(table[:, 1]) if history and 1 < comm.size <= MOST_TIMED_RANKS else (),
        communication_seconds=float(table[slowest, 2]) if history else None,
        samples_per_second=history[-1].samples / seconds if history and seconds > 0 else None,
        peer_bytes=float(table[:, 3].sum()) if history else None,
        phases=_phases(comm, later, slowest),
        busiest_pairs=_busiest_pairs(comm, later),
        resumed_epoch=resumed,
        finished=True,
    )


def _rounded(seconds: torch.Tensor) -> tuple[float, ...]:
    """To 4 digits: the figures of all ranks have to fit a termination message."""
    return tuple(float(f"{each:.4g}") for each in seconds.tolist())


def _phases(comm: Comm, epochs: Sequence[EpochStats], rank: int) -> tuple[PhaseSeconds, ...]:
    """Means of rank `rank`, in its order; collective."""
    names = list(epochs[0].phases)[:MOST_PHASES] if epochs else []
    if not names:
        return ()
    own = torch.tensor([statistics.fmean(stats.phases[name] for stats in epochs) for name in names], dtype=torch.float64)
    return tuple(map(PhaseSeconds, names, comm.gather(own, "measured.phases")[rank].tolist()))


def _busiest_pairs(comm: Comm, epochs: Sequence[EpochStats]) -> tuple[PairBytes, ...]:
    """Those of all ranks that sent most; collective."""
    sent = [stats.sent_bytes for stats in epochs if stats.sent_bytes]
    if not sent:
        return ()
    # The busiest of all are among each rank's own busiest: no rank needs the table of all pairs.
    most = torch.tensor(sent, dtype=torch.float64).mean(dim=0).topk(min(MOST_PAIRS, comm.size))
    table = comm.gather(torch.stack([most.indices.to(torch.float64), most.values]), "measured.pairs").tolist()
    pairs = [
        PairBytes(sender, int(receiver), count)
        for sender, (receivers, counts) in enumerate(table)
        for receiver, count in zip(receivers, counts, strict=True)
        if count
    ]
    return tuple(sorted(pairs, key=lambda pair: (-pair.bytes, pair.sender, pair.receiver))[:MOST_PAIRS])


def _medians(epochs: Sequence[EpochStats]) -> torch.Tensor:
    """(4,) of this rank: seconds, seconds of computing and of communication, bytes sent; 0 without epochs."""
    figures = [(stats.seconds, stats.compute_seconds, stats.communication_seconds, float(sum(stats.sent_bytes))) for stats in epochs]
    columns = [statistics.median(column) for column in zip(*figures, strict=True)] or [0.0] * 4
    return torch.tensor(columns, dtype=torch.float64)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
