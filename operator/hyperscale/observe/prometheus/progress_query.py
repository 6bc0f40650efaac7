"""Progress of running jobs from Prometheus: one query for all of them. Blocking: call it in a thread."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from hyperscale.model.api.measured import Measured
from hyperscale.model.metrics_reading import Series
from hyperscale.observe.prometheus.reader import PrometheusReader
from hyperscale.observe.run_report import checked

PREFIX: Final = "hyperscale_training_"
FIGURES: Final = ("epoch", "epochs", "loss", "accuracy", "epoch_seconds", "samples_per_second", "generated", "host_staging")
QUERY: Final = f'{{__name__=~"{PREFIX}({"|".join(FIGURES)})",rank="0"}}'
"""Rank 0 tells what holds for all."""

Job = tuple[str, str]
"""Namespace and name."""


def read_progress(reader: PrometheusReader, limit_seconds: float) -> dict[Job, Measured]:
    """What running jobs say of themselves, by job; raises QueryError."""
    return progress(reader.instant(QUERY, limit_seconds))


def progress(series: Iterable[Series]) -> dict[Job, Measured]:
    """The same from series. A job that two pods speak for, before a restart and after, is as far as the farther of them.

    A pod speaks only for jobs of its own namespace, where the scraper says which that is: the job's labels are the pod's own words.
    """
    figures: dict[tuple[Job, str], dict[str, float]] = {}
    for one in series:
        labels = one.labels
        name, job = labels.get("__name__", "").removeprefix(PREFIX), (labels.get("job_namespace", ""), labels.get("job_name", ""))
        if name not in FIGURES or not all(job) or not math.isfinite(one.value) or labels.get("namespace", job[0]) != job[0]:
            continue
        figures.setdefault((job, labels.get("instance", "")), {})[name] = one.value
    by_job: dict[Job, Measured] = {}
    for (job, _), reported in sorted(figures.items(), key=lambda entry: (entry[0][0], entry[1].get("epoch", -1.0), entry[0][1])):
        measured = _measured(reported)
        if measured is not None:
            by_job[job] = measured
    return by_job


def _measured(reported: dict[str, float]) -> Measured | None:
    if "epoch" not in reported:
        return None
    return checked(
        Measured(
            epoch=int(reported["epoch"]),
            epochs=int(reported.get("epochs", 0)),
            loss=reported.get("loss"),
            accuracy=reported.get("accuracy"),
            epoch_seconds=reported.get("epoch_seconds"),
            samples_per_second=reported.get("samples_per_second"),
            generated=reported.get("generated", 0.0) > 0.0,
            host_staging=reported.get("host_staging", 0.0) > 0.0,
        )
    )
