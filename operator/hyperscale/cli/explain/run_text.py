"""What a run says of itself, as sentences of `explain`."""

from __future__ import annotations

from hyperscale.cli.text_tables import bytes_text, predicted_text, seconds_text
from hyperscale.model.api.measured import Measured
from hyperscale.model.status import JobStatus


def run_sentences(status: JobStatus) -> list[str]:
    """How far the run is, or what came of it; the measured epoch beside the predicted one, its phases, and who sends most."""
    told = status.measured
    if told is None:
        return []
    figures = [f"loss {told.loss:.4g}"] if told.loss is not None else []
    figures += [f"accuracy {told.accuracy:.2%}{' on a generated graph' if told.generated else ''}"] if told.accuracy is not None else []
    sentences = [f"Epoch {told.epoch} of {told.epochs}{': ' if figures else ''}{', '.join(figures)}."]
    if told.epoch_seconds is not None and status.plan is not None and status.plan.predicted.epoch_seconds > 0:
        predicted = status.plan.predicted.epoch_seconds
        ratio = f"{told.epoch_seconds / predicted:.3g}"
        sentences.append(f"An epoch takes {seconds_text(told.epoch_seconds)}, {ratio} × the predicted {predicted_text(predicted)}.")
    return sentences + _parts(told)


def _parts(told: Measured) -> list[str]:
    sentences = []
    if told.phases:
        phases = ", ".join(f"{one.phase} {seconds_text(one.seconds)}" for one in told.phases)
        sentences.append(f"A mean epoch of the slowest rank: {phases}.")
    if told.busiest_pairs:
        most = told.busiest_pairs[0]
        total = f" of all ranks' {bytes_text(told.peer_bytes)}" if told.peer_bytes is not None else ""
        sentences.append(f"Most is sent by rank {most.sender} to rank {most.receiver}: {bytes_text(most.bytes)} an epoch{total}.")
    return sentences
