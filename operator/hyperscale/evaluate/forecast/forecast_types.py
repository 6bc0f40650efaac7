"""Questions and answers of the forecast: workload features, finished runs, the plan in question, seconds with intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunFeatures:
    """What a run does and what it runs on, as far as it is stated before the start. NaN and None mean unknown, never zero."""

    architecture: str
    """Model family: GCN, GraphSAGE, GAT, RGAT."""
    system: str = ""
    """Training system or way of training; runs of one system share what it teaches."""
    dataset: str = ""
    """Name of the graph. Runs of one name share a level; the name enters no distance."""
    gpu_product: str = ""
    vertices: float = math.nan
    edges: float = math.nan
    feature_size: float = math.nan
    hidden_size: float = math.nan
    layers: float = math.nan
    batch_size: float = math.nan
    """Seeds a GPU and step; NaN for the full graph."""
    fanout: float = math.nan
    degree_skew: float = math.nan
    """Largest degree / mean degree of the graph."""
    cut_share: float = math.nan
    """Share of edges that an 8-way partition cuts, 0 to 1."""
    flops_per_second: float = math.nan
    """Sustained speed of one GPU."""
    inside_bytes_per_second: float = math.nan
    """Slowest path between two GPUs of one host."""
    between_bytes_per_second: float = math.nan
    """Slowest path between two hosts of the run."""
    latency_seconds: float = math.nan
    """Longest latency between two hosts of the run."""


@dataclass(frozen=True, slots=True)
class ForecastRun:
    """A finished run: what the forecast learns from."""

    run: str
    """Its id, for people."""
    features: RunFeatures
    ranks: int
    """GPUs that train."""
    hosts: int
    measured_seconds: float
    """Of one epoch."""
    physical_seconds: float
    """Of one epoch as the cost model predicted it, uncorrected."""
    communication_seconds: float = math.nan
    """The part of `physical_seconds` that waits for other ranks; NaN where the cost model does not say."""


@dataclass(frozen=True, slots=True)
class ForecastQuestion:
    """A planned run: the fields of `ForecastRun` that exist before the start."""

    features: RunFeatures
    ranks: int
    hosts: int
    physical_seconds: float
    communication_seconds: float = math.nan
    """As in `ForecastRun`."""


@dataclass(frozen=True, slots=True)
class EpochForecast:
    """Seconds of one epoch with central intervals."""

    seconds: float
    """Median of the forecast."""
    low_68: float
    high_68: float
    low_95: float
    high_95: float
    like: str | None
    """Id of the nearest finished run; None where the question is unlike all of them."""
    distance: float
    """To the nearest finished run, in units of the usual distance between neighbours; +inf without any run."""
    sources: tuple[str, ...]
    """Sentences for people: what the figures rest on."""
    widening: float = 1.0
    """95 % width / the width that the nearest finished run would have: large where the forecast is likely to be wrong. 1 for runs alike."""


def check_seconds(place: str, seconds: float) -> None:
    """Raise ValueError, naming `place`, where `seconds` is no finite number above 0."""
    if not (seconds > 0.0 and math.isfinite(seconds)):
        raise ValueError(f"{place}: {seconds} is no time; write seconds above 0")


def check_run(run: ForecastRun) -> None:
    """Raise ValueError where a figure of `run` cannot be: no ranks, more hosts than ranks, seconds not above 0."""
    check_seconds(f"run {run.run}: measured_seconds", run.measured_seconds)
    check_question(question_of(run), f"run {run.run}")


def question_of(run: ForecastRun) -> ForecastQuestion:
    """Return what is asked before `run`."""
    return ForecastQuestion(run.features, run.ranks, run.hosts, run.physical_seconds, run.communication_seconds)


def check_question(question: ForecastQuestion, place: str = "question") -> None:
    """Raise ValueError, naming `place`, where a figure of `question` cannot be."""
    if not 1 <= question.hosts <= question.ranks:
        raise ValueError(f"{place}: {question.hosts} hosts for {question.ranks} ranks; write 1 <= hosts <= ranks")
    check_seconds(f"{place}: physical_seconds", question.physical_seconds)
    if not math.isnan(question.communication_seconds) and not 0.0 <= question.communication_seconds <= question.physical_seconds:
        text = f"{question.communication_seconds} is no part of {question.physical_seconds} s"
        raise ValueError(f"{place}: communication_seconds: {text}; write a part of physical_seconds, or NaN for unknown")
