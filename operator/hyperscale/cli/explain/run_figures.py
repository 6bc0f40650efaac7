"""Sentences about what a run has measured."""

from __future__ import annotations

from typing import Final

from hyperscale.cli.text_tables import bytes_text, predicted_text, seconds_text
from hyperscale.model.api.measured import Measured
from hyperscale.model.status import JobStatus

ALIKE: Final = 1.05
"""Longest over shortest: ranks that differ by no more compute alike."""


def run_sentences(status: JobStatus) -> list[str]:
    """How far the run is, its measured and predicted epoch, its phases, which rank computes longest, and which sends most."""
    measured = status.measured
    if measured is None:
        return []
    figures = [f"loss {measured.loss:.4g}"] if measured.loss is not None else []
    if measured.accuracy is not None:
        figures.append(f"accuracy {measured.accuracy:.2%}{' on a generated graph' if measured.generated else ''}")
    sentences = [f"Epoch {measured.epoch} of {measured.epochs}{': ' if figures else ''}{', '.join(figures)}."]
    if measured.epoch_seconds is not None and status.plan is not None and status.plan.predicted.epoch_seconds > 0:
        predicted = status.plan.predicted.epoch_seconds
        ratio = f"{measured.epoch_seconds / predicted:.3g}"
        sentences.append(f"An epoch takes {seconds_text(measured.epoch_seconds)}, {ratio} × the predicted {predicted_text(predicted)}.")
    return sentences + _phases(measured)


def _phases(measured: Measured) -> list[str]:
    sentences = []
    if measured.phases:
        phases = ", ".join(f"{one.phase} {seconds_text(one.seconds)}" for one in measured.phases)
        sentences.append(f"A mean epoch of the slowest rank: {phases}.")
    if len(measured.rank_compute_seconds) > 1:
        longest, shortest = max(measured.rank_compute_seconds), min(measured.rank_compute_seconds)
        if longest <= shortest * ALIKE:
            sentences.append(f"All ranks compute alike: {seconds_text(longest)} an epoch.")
        else:
            ranks = [measured.rank_compute_seconds.index(each) for each in (longest, shortest)]
            sentences.append(
                f"Rank {ranks[0]} computes longest, {seconds_text(longest)}; rank {ranks[1]} shortest, {seconds_text(shortest)}."
            )
    if measured.busiest_pairs:
        most = measured.busiest_pairs[0]
        total = f" of all ranks' {bytes_text(measured.peer_bytes)}" if measured.peer_bytes is not None else ""
        sentences.append(f"Most is sent by rank {most.sender} to rank {most.receiver}: {bytes_text(most.bytes)} an epoch{total}.")
    return sentences
