"""What the evaluation of a planned job found: one outcome for each stage, and what people look at first.

`hyperscale evaluate -o json` prints an `Evaluation`. Unknown figures are absent from its JSON.
"""

from __future__ import annotations

import enum
from typing import Annotated

from msgspec import Meta, Struct

MAX_FINDINGS = 32
"""Sentences kept of one stage."""
MAX_CURVE = 128
"""Points kept of the curve of end times."""
MAX_LIKE_RUNS = 5
"""Finished runs kept that are like the planned one."""
MAX_NAMES = 16
"""Files, addresses and parameters kept of each kind."""

EVALUATOR_BUSY = "EvaluatorBusy"
"""First word of a fault: others wait already."""
QUESTION_TOO_LARGE = "QuestionTooLarge"
"""First word of a fault: the plan's nodes are more than an evaluation takes."""
TOO_MANY_FAILURES = "TooManyFailures"
"""First word of a fault: a run meets more failures than can be played in time."""
FAULT_NAMES = (EVALUATOR_BUSY, QUESTION_TOO_LARGE, TOO_MANY_FAILURES)

Sentence = Annotated[str, Meta(max_length=1024)]
Ratio = Annotated[float, Meta(ge=0, le=1)]
ShortText = Annotated[str, Meta(max_length=128)]
ShortTexts = Annotated[tuple[ShortText, ...], Meta(max_length=MAX_NAMES)]


class StageState(enum.StrEnum):
    """What became of a stage."""

    PASSED = "Passed"
    WARNED = "Warned"
    """Something that a person should look at; it holds nothing up."""
    FAILED = "Failed"
    """The plan must not be carried out."""
    SKIPPED = "Skipped"
    """It could not be asked; the sentence says why."""


class StageOutcome(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One stage of the evaluation."""

    stage: Annotated[str, Meta(max_length=32)]
    state: StageState
    sentence: Sentence
    findings: Annotated[tuple[Sentence, ...], Meta(max_length=MAX_FINDINGS)] = ()
    score: Ratio | None = None
    """1 is best; absent where the stage was skipped, and then it is left out of the whole."""
    weight: Ratio | None = None
    """Of the stage in the value, from the comparison matrix."""
    share: float | None = None
    """Of the stage in the value (Shapley 1953); the shares and the evaluation's `base_value` sum to it."""


class LikeRun(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A finished run that the planned one is like."""

    run: ShortText
    shared: ShortTexts
    """What both have, for people."""
    outcome: ShortText
    ratio: float | None = None
    """Measured epoch / forecast by the other runs; absent where it is unknown."""


class Interval(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A figure with the bounds that 95 of 100 outcomes lie in."""

    middle: float
    low: float
    high: float


class TimePart(Struct, frozen=True, rename="camel"):
    """What a part of a job's time goes to."""

    name: Annotated[str, Meta(max_length=32)]
    seconds: Annotated[float, Meta(ge=0)]
    """In the mean of all futures."""
    share: Ratio
    """Of a future's time, in the mean of all futures: one that waits for days counts as much as any other."""


class Recalibration(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What finished runs taught one stage about its own intervals, in its stated standard deviations of ln(figure)."""

    stage: Annotated[str, Meta(max_length=32)]
    runs: Annotated[int, Meta(ge=0)]
    """Finished runs that it was learned from."""
    shift: float = 0.0
    """Median error; above 0 outcomes were larger than stated."""
    widening: Annotated[float, Meta(ge=1)] = 1.0
    """Factor of the stated deviation at which it covers 68 of 100 runs; never below 1."""


class ProductFit(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The largest settings of a job that one GPU product has memory for; predicted, not executed."""

    product: Annotated[str, Meta(max_length=63)]
    usable_bytes: Annotated[int, Meta(ge=0)]
    """Of one GPU."""
    settings: Annotated[int, Meta(ge=0)]
    """Combinations of hidden size, batch size and fan-out that were counted."""
    fitting: Annotated[int, Meta(ge=0)]
    """Those that fit."""
    batch_size: Annotated[int, Meta(ge=1)] | None = None
    """With the job's hidden size and fan-out; absent where none fits."""
    hidden_size: Annotated[int, Meta(ge=1)] | None = None
    fanout: Annotated[int, Meta(ge=1)] | None = None
    """Of every layer."""
    full_graph_hidden_size: Annotated[int, Meta(ge=1)] | None = None
    """Without batches; absent where none fits and for jobs that sample."""


class Evaluation(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What is known of a planned job before a GPU is spent."""

    job: Annotated[str, Meta(max_length=512)]
    plan_id: Annotated[str, Meta(max_length=64)]
    stages: Annotated[tuple[StageOutcome, ...], Meta(max_length=16)]
    epoch_seconds: Interval | None = None
    forecast_runs: Annotated[int, Meta(ge=0)] = 0
    """Finished runs that the forecast of an epoch rests on; 0: the plan's own range."""
    recalibrations: Annotated[tuple[Recalibration, ...], Meta(max_length=16)] = ()
    """Applied to the intervals of this evaluation."""
    end_seconds: Interval | None = None
    """From its first epoch to its end, failures included; absent where too many futures passed the horizon."""
    deadline_seconds: float | None = None
    """From its first epoch."""
    ends_by_deadline: Interval | None = None
    """Part of the futures; the bounds say what their number leaves open."""
    cost: Interval | None = None
    """In the currency of the policy's price table."""
    energy_kilowatt_hours: Interval | None = None
    """Of the planned GPUs, from idle power to board power; absent where a product's board power is unknown."""
    wait_seconds: Interval | None = None
    """Until its GPUs are free and its turn has come; absent where nothing is known of the queue."""
    delay_of_others_seconds: Interval | None = None
    """By which this job delays the ends of those that wait, in their mean; absent where none waits."""
    top_risk: Sentence = ""
    checkpoint_every_epochs: Annotated[int, Meta(ge=1)] | None = None
    """The interval that ends soonest; absent where the job writes no checkpoints."""
    value: Ratio | None = None
    """From the scores of the stages; `value_source` says how."""
    base_value: Ratio | None = None
    """The value without any stage, to which the shares add; absent where that is 0."""
    value_source: Sentence = ""
    """What the value is a probability of and how many runs say so, or why it is not calibrated."""
    hyper_score: float | None = None
    """100 (1 + sigma(beta ln V + gamma)^kappa), as the paper prints it."""
    end_curve: Annotated[tuple[tuple[float, float], ...], Meta(max_length=MAX_CURVE)] = ()
    """Rising (seconds, part of the futures that have ended)."""
    time_parts: Annotated[tuple[TimePart, ...], Meta(max_length=8)] = ()
    """What the time goes to; together the mean time from the first epoch to the end, or to the horizon of the futures."""
    neighbours: Annotated[tuple[LikeRun, ...], Meta(max_length=MAX_LIKE_RUNS)] = ()
    """Finished runs most like it, best first."""
    fits: Annotated[tuple[ProductFit, ...], Meta(max_length=64)] = ()
    """By GPU product; only where the preflight was asked for."""

    @property
    def failed(self) -> bool:
        """Whether a stage says that the plan must not be carried out."""
        return any(stage.state is StageState.FAILED for stage in self.stages)


class StageSummary(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One stage, in the status of a job."""

    stage: Annotated[str, Meta(max_length=32)]
    state: StageState
    score: Ratio | None = None
    """1 is best; absent where the stage was skipped."""


class EvaluationStatus(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What was found out about the plan in force, before a person decides on it or while its job runs."""

    plan_id: Annotated[str, Meta(max_length=64)]
    """Of the plan that was evaluated."""
    stages: Annotated[tuple[StageSummary, ...], Meta(max_length=16)] = ()
    """Empty where the evaluation itself failed."""
    epoch_seconds: Interval | None = None
    """Of one epoch."""
    forecast_runs: Annotated[int, Meta(ge=0)] = 0
    """Finished runs that the forecast of an epoch rests on; 0: the plan's own range."""
    recalibrations: Annotated[tuple[Recalibration, ...], Meta(max_length=16)] = ()
    """What finished runs taught about the stages' intervals, as applied here."""
    end_seconds: Interval | None = None
    """From the first epoch to the end of the run."""
    deadline_seconds: float | None = None
    ends_by_deadline: Interval | None = None
    """Part of the simulated futures; the bounds say what their number leaves open."""
    cost: Interval | None = None
    """In the currency of the policy's price table."""
    energy_kilowatt_hours: Interval | None = None
    """Of the planned GPUs."""
    wait_seconds: Interval | None = None
    """Until its GPUs are free and its turn has come."""
    delay_of_others_seconds: Interval | None = None
    """By which this job delays the ends of those that wait, in their mean."""
    top_risk: Sentence = ""
    """The stage to look at first."""
    checkpoint_every_epochs: Annotated[int, Meta(ge=1)] | None = None
    """The interval that ends soonest."""
    value: Ratio | None = None
    """Of all stages together."""
    value_source: Sentence = ""
    """What the value is a probability of and how many runs say so, or why it is not calibrated."""
    hyper_score: float | None = None
    fault: Sentence = ""
    """Why there is no evaluation."""
    key: Annotated[str, Meta(max_length=16)] = ""
    """Digest of plan and spec: with another one the plan is evaluated again."""


def status_of(answer: Evaluation) -> EvaluationStatus:
    """The evaluation as the status of its job holds it."""
    return EvaluationStatus(
        plan_id=answer.plan_id,
        stages=tuple(StageSummary(stage.stage, stage.state, stage.score) for stage in answer.stages),
        epoch_seconds=answer.epoch_seconds,
        forecast_runs=answer.forecast_runs,
        recalibrations=answer.recalibrations,
        end_seconds=answer.end_seconds,
        deadline_seconds=answer.deadline_seconds,
        ends_by_deadline=answer.ends_by_deadline,
        cost=answer.cost,
        energy_kilowatt_hours=answer.energy_kilowatt_hours,
        wait_seconds=answer.wait_seconds,
        delay_of_others_seconds=answer.delay_of_others_seconds,
        top_risk=answer.top_risk,
        checkpoint_every_epochs=answer.checkpoint_every_epochs,
        value=answer.value,
        value_source=answer.value_source,
        hyper_score=answer.hyper_score,
    )
