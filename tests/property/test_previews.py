"""What `hyperscale plan` says of a job from the operator's own figures is what the operator then does, whatever runs already."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from hyperscale.cli.plan.inputs import JobInput
from hyperscale.cli.plan.known_inputs import KnownInputs
from hyperscale.cli.plan.operator_preview import AskedJob, Decided, Preview
from hyperscale.cli.plan.outcome import outcome_of
from hyperscale.control.controller.preview_server import Previews
from hyperscale.control.lifecycle.queue_wait import joins
from hyperscale.control.scheduler.admission import PlanAnswer
from hyperscale.control.specs.plan_question import question_about
from hyperscale.model.api.job import PlannerChoice
from hyperscale.model.history.corrections import Corrections, Factor
from hyperscale.model.plan import Calibration, Infeasible, Plan
from hyperscale.model.preview import from_lines, to_lines
from hyperscale.spec.parse import parse_job
from tests.corpus.queue_stage import Stage

ARCHITECTURES = st.sampled_from(["GCN", "GraphSAGE", "GAT"])
GRAPHS = st.sampled_from(
    [
        {"source": {"builtin": {"name": "Cora"}}},
        {
            "source": {"persistentVolumeClaim": {"claimName": "g"}},
            "vertices": 169_343,
            "edges": 2_332_486,
            "featureSize": 128,
            "classes": 40,
        },
        {
            "source": {"persistentVolumeClaim": {"claimName": "g"}},
            "vertices": 2_449_029,
            "edges": 123_718_280,
            "featureSize": 100,
            "classes": 47,
        },
    ]
)
SHAPES = st.fixed_dictionaries(
    {
        "model": st.fixed_dictionaries({"architecture": ARCHITECTURES, "epochs": st.integers(1, 2000)}),
        "dataset": GRAPHS,
        "workers": st.tuples(st.integers(1, 3), st.integers(0, 3), st.integers(1, 2)).map(
            lambda drawn: {
                "minReplicas": drawn[0],
                "maxReplicas": drawn[0] + drawn[1],
                "resources": {"limits": {"nvidia.com/gpu": drawn[2]}},
            }
        ),
        "queueWeight": st.sampled_from([1, 5]),
    }
)
KINDS = st.sampled_from([{}, {}, {}, {"startPolicy": "Never"}, {"startPolicy": "Manual"}])
LABELS = st.sampled_from([{}, {}, {"kueue.x-k8s.io/queue-name": "gpu"}])


def resource(name: str, spec: dict[str, Any], labels: dict[str, str]) -> dict[str, Any]:
    metadata = {"namespace": "team", "name": name, "labels": labels}
    return {"apiVersion": "hyperscale.dev/v1alpha1", "kind": "GNNTrainingJob", "metadata": metadata, "spec": spec}


def previewed(stage: Stage, spec: dict[str, Any], labels: dict[str, str]) -> Decided:
    """As the command line does it: by the served document alone, under another name than the job will have."""
    served = Previews(stage.cache, stage.reader, stage.planning.pending, stage.planning.running, False, lambda: stage.now)
    policy = stage.reader.policy_named("default", stage.cache.policies)
    state = from_lines(to_lines(served.state(policy)))
    parsed = parse_job(resource("preview", spec, labels))
    job = JobInput(parsed, "preview", "team", "preview.yaml", resource("preview", spec, labels))
    known = KnownInputs(state.policy, state.snapshot, "Operator", "", state=state)
    request = question_about(job.key, parsed, state.policy, state.calibration(parsed), corrections=state.placement_corrections(parsed))
    return Preview(known, 600.0).decide([AskedJob(job, request, outcome_of(job, parsed))])


def answer_of(decided: Decided) -> Plan | Infeasible | str:
    """A plan, a refusal, or the reason to wait."""
    if decided.starts:
        return decided.starts[0].plan
    if decided.others:
        return decided.others[0][1]
    return decided.holds[0].infeasible or decided.holds[0].reason


async def compare(nodes: int, gpus: int, before: list[dict[str, Any]], spec: dict[str, Any], labels: dict[str, str]) -> None:
    stage = Stage(nodes=nodes, gpus=gpus)
    stage.reader.calibrations = {"GCN": (Calibration("NVIDIA-A100-SXM4-80GB", 1.7, 0.2, 9),)}
    stage.reader.corrections = {
        "GCN": Corrections(untried=Factor("", 1.2, 0.3, 9), runs=9),
        "": Corrections(untried=Factor("", 1.0, 0.8, 0)),
    }
    for number, running in enumerate(before):
        await stage.run(stage.add(f"before-{number}", **running))
    for key in [key for key in stage.cache.jobs if key not in stage.cache.mpijobs]:
        stage.cache.see_job(stage.cache.jobs[key].resource, deleted=True)  # what waits is not in the document
    foreseen = answer_of(previewed(stage, spec, labels))
    event(f"{len(stage.cache.mpijobs)} running, {type(foreseen).__name__}")
    came = await stage.ask(stage.add("late", labels=labels, **spec))
    assert_same_answer(foreseen, came)


def assert_same_answer(foreseen: Plan | Infeasible | str, came: PlanAnswer) -> None:
    """The operator answers with the plan, the refusal or the reason to wait that the preview foresaw."""
    if isinstance(foreseen, Plan):
        assert isinstance(came.outcome, Plan), (foreseen, came)
        assert (foreseen.plan_id, foreseen.workers) == (came.outcome.plan_id, came.outcome.workers)
        assert foreseen.predicted == came.outcome.predicted
    elif isinstance(foreseen, Infeasible):
        assert isinstance(came.outcome, Infeasible)
        assert foreseen.reason == came.outcome.reason
    else:
        assert came.outcome is None
        assert came.turn is not None
        assert came.turn.reason in (foreseen, "Planning")


@given(st.integers(1, 5), st.sampled_from([1, 2, 4]), SHAPES, KINDS, LABELS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_on_an_idle_cluster_a_preview_is_the_operators_plan(
    nodes: int, gpus: int, shape: dict[str, Any], kind: dict[str, Any], labels: dict[str, str]
) -> None:
    asyncio.run(compare(nodes, gpus, [], {**shape, **kind}, labels))


@given(st.integers(2, 5), st.sampled_from([2, 4, 8]), st.lists(SHAPES, min_size=1, max_size=3), SHAPES, KINDS, LABELS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_where_other_jobs_run_a_preview_is_what_the_operators_queue_decides(
    nodes: int, gpus: int, before: list[dict[str, Any]], shape: dict[str, Any], kind: dict[str, Any], labels: dict[str, str]
) -> None:
    asyncio.run(compare(nodes, gpus, before, {**shape, **kind}, labels))


@given(SHAPES, KINDS, LABELS, st.booleans())
@settings(max_examples=60, deadline=None)
def test_the_command_line_knows_which_jobs_the_operators_queue_starts(
    shape: dict[str, Any], kind: dict[str, Any], labels: dict[str, str], suspended: bool
) -> None:
    made = resource("one", {**shape, **kind, "runPolicy": {"suspend": suspended}}, labels)
    spec = parse_job(made)
    assert spec.planner is not PlannerChoice.NONE
    assert outcome_of(JobInput(spec, "one", "team", "one.yaml", made), spec).decided_by_operator == joins(spec, labels)
