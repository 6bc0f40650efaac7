"""`hyperscale plan` of several jobs: which start now where, in which order, what the others wait for. Nothing is created.

The jobs are taken as pending on the cluster as it is; what runs there already is not known to end.
"""

from __future__ import annotations

import argparse
import sys
import time

import msgspec
import yaml

from hyperscale.cli import errors, inputs
from hyperscale.cli.errors import InputError
from hyperscale.cli.inputs import Job
from hyperscale.cli.plan import question
from hyperscale.cli.tables import counted, seconds_text, table
from hyperscale.graph.cluster import build
from hyperscale.model.graph import ClusterGraph
from hyperscale.model.job import PlannerChoice
from hyperscale.model.plan import Infeasible, Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.model.policy import PolicySpec
from hyperscale.model.turns import MAX_TURN_JOBS, QueuedJob, TurnQuestion, Turns
from hyperscale.plan.learned import planners
from hyperscale.plan.portfolio import make_plan
from hyperscale.plan.queue.choosers import choosers
from hyperscale.plan.queue.desk import Desk, Expired
from hyperscale.plan.queue.joint import QueueError, take_turns
from hyperscale.workload.profile import profile


def run(arguments: argparse.Namespace, jobs: list[Job]) -> int:
    """Decide and print; 0 where some job starts, 1 where none fits."""
    if arguments.workers is not None:
        raise InputError("--workers: counts for one job; the file holds several, leave it out")
    policy, snapshot = inputs.policy_and_snapshot(arguments, jobs[0])
    deadline = arguments.deadline or policy.deadlines.plan_seconds * 2
    ends = time.monotonic() + deadline
    used = planners()

    def place(request: PlanRequest, graph: ClusterGraph, expired: Expired) -> Plan | Infeasible:
        return make_plan(request, graph, profile(request.job), policy, expired=expired, planners=used)

    desk = Desk(build(snapshot, policy), policy, place)
    desk.expired = lambda: time.monotonic() >= ends
    desk.hurried = lambda: time.monotonic() >= ends - deadline / 2
    question = TurnQuestion(jobs=_queued(jobs, arguments, policy))
    try:
        turns = take_turns(question, desk, policy.queue, choosers(policy.queue))
    except (QueueError, ValueError) as error:
        print(errors.one_line(f"no decision: {error}; raise --deadline, or write fewer jobs"), file=sys.stderr)
        return errors.INFEASIBLE
    print(_shown(turns, arguments.output), end="")
    return errors.OK if turns.starts else errors.INFEASIBLE


def _queued(jobs: list[Job], arguments: argparse.Namespace, policy: PolicySpec) -> tuple[QueuedJob, ...]:
    if len(jobs) > MAX_TURN_JOBS:
        raise InputError(f"{jobs[0].shown}: holds {len(jobs)} jobs; write {MAX_TURN_JOBS} at most")
    if len({job.key for job in jobs}) < len(jobs):
        raise InputError(f"{jobs[0].shown}: two jobs have the same namespace and name; give each a name of its own")
    made = []
    for job in jobs:
        spec = job.spec if arguments.planner is None else msgspec.structs.replace(job.spec, planner=PlannerChoice(arguments.planner))
        if spec.planner is PlannerChoice.NONE:
            raise InputError(f"{job.shown}: {job.key}: spec.planner: None asks for no plan; leave that job out")
        if spec.planner not in policy.planners:
            raise InputError(f"{job.shown}: spec.planner: the policy does not allow {spec.planner.value}; choose one with --planner")
        request = question(job, spec, policy, arguments)
        made.append(QueuedJob(request, weight=float(min(spec.run_policy.priority, policy.queue.max_priority))))
    return tuple(made)


def _shown(turns: Turns, form: str) -> str:
    if form == "yaml":
        text: str = yaml.dump(msgspec.to_builtins(turns), Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True)
        return text
    if form == "json":
        return msgspec.json.format(msgspec.json.encode(turns, order="deterministic"), indent=2).decode() + "\n"
    rows = [
        (start.key, "starts", str(len(start.plan.workers)), seconds_text(start.run_seconds), _nodes(start.plan)) for start in turns.starts
    ]
    rows += [(hold.key, hold.reason, "-", seconds_text(hold.run_seconds), hold.message or "others go first") for hold in turns.holds]
    lines = table(("JOB", "DECISION", "WORKERS", "RUN", "NODES, OR WHY NOT"), rows, right=frozenset({2}))
    if turns.score is not None:
        agent = "" if turns.score.agent is None else f", {seconds_text(turns.score.agent)} as the agent orders them"
        scored = f"{seconds_text(turns.score.rule)} as the rule orders them{agent}"
        lines += ["", f"Weighted mean time until they end: {scored}; the {turns.score.used.lower()}'s order is used."]
    return "\n".join([*lines, *(f"Step down: {step}" for step in turns.fallbacks)]) + "\n"


def _nodes(plan: Plan) -> str:
    by_node = plan.gpus_by_node()
    return ", ".join(f"{name} ({counted(gpus, 'GPU')})" for name, gpus in sorted(by_node.items()))
