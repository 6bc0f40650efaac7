"""What another plan changes, in sentences; and what may be preferred, in a table."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hyperscale.cli.explain.plan_difference import difference, difference_sentences
from hyperscale.cli.plan.offers_view import offers_lines
from hyperscale.model.offers.plan_offers import PlanAlternatives, prior_of
from hyperscale.model.plan import Plan
from hyperscale.model.status import JobStatus, StateWord, to_wire
from hyperscale.planner.choice.alternative_plans import offer_of
from tests.builders.seen import last_step, plan
from tests.builders.seen import status as told
from tests.unit.cli.cli_samples import Files, files_fixture, job, run

__all__ = ["files_fixture"]

TWO = plan("node-a", "node-b")
OTHER = plan("node-a", "node-c", plan_id="fedcba9876543210")


def priced(one: Plan, epoch_seconds: float, cost: float | None) -> Plan:
    return replace(one, predicted=replace(one.predicted, epoch_seconds=epoch_seconds, cost_per_epoch=cost))


def test_nodes_workers_seconds_and_cost_are_compared() -> None:
    change = difference(prior_of(priced(TWO, 2.0, 0.5)), priced(OTHER, 1.5, 1.0))
    assert difference_sentences(change) == [
        "An epoch goes from 2 s to 1.5 s (-25 %).",
        "The cost of an epoch goes from 0.5 to 1 (+100 %).",
        "Nodes added: node-c.",
        "Nodes left: node-b.",
        "1 worker moved: 1: node-b to node-c.",
    ]


def test_another_number_of_workers_is_no_move() -> None:
    change = difference(prior_of(TWO), plan("node-a", "node-b", "node-b", plan_id="2" * 16))
    assert change.moved == ()
    assert "Workers: 2 before, 3 now; GPUs: 2 before, 3 now." in difference_sentences(change)
    assert change.cost_per_epoch is None


def test_a_plan_that_only_predicts_something_else_says_that_workers_stay() -> None:
    assert difference_sentences(difference(prior_of(TWO), priced(TWO, 1.0, None))) == [
        "An epoch stays at 1 s.",
        "All workers stay on their nodes.",
    ]


@given(
    before=st.lists(st.sampled_from("abcdef"), min_size=1, max_size=6), after=st.lists(st.sampled_from("abcdef"), min_size=1, max_size=6)
)
def test_nodes_before_and_the_difference_give_the_nodes_after(before: list[str], after: list[str]) -> None:
    change = difference(prior_of(plan(*before)), plan(*after))
    assert (set(before) - set(change.nodes_left)) | set(change.nodes_added) == set(after)
    moved = {one.index: one.target_node for one in change.moved}
    assert [moved.get(index, node) for index, node in enumerate(before)][: len(after)] == after[: len(before)]
    assert difference_sentences(change)


def test_a_very_large_plan_is_compared_in_part_and_says_so() -> None:
    large = plan(*(f"node-{index}" for index in range(600)))
    change = difference(prior_of(large), plan(*(f"other-{index}" for index in range(600))))
    sentences = difference_sentences(change)
    assert "Only the first 256 workers were compared." in sentences
    assert max(map(len, sentences)) < 1200


def waiting() -> JobStatus:
    offered = PlanAlternatives(
        "0" * 16, (offer_of(TWO, 100), replace(offer_of(OTHER, 100), trades="Against plan x: 3 % less cost.", plan=OTHER))
    )
    return replace(
        told(StateWord.PLANNED, last_step("AwaitingApproval")),
        observed_generation=1,
        plan=TWO,
        alternatives=offered,
        prior_plan=prior_of(OTHER),
    )


def test_explain_shows_alternatives_and_what_the_plan_changes(files: Files) -> None:
    path = files.write("job.json", json.dumps({**job(), "status": to_wire(waiting())}))
    ran = run("explain", "-f", path)
    assert (ran.code, ran.err) == (0, "")
    assert "Against plan fedcba9876543210" in ran.out
    assert "Nodes added: node-b." in ran.out
    (header, first, second) = ran.out[ran.out.index("ALTERNATIVES") :].splitlines()[:3]
    assert first.startswith("0123456789abcdef *")
    assert " ".join(second.split()) == "fedcba9876543210 2 2 2 1 s unknown 0.00% Against plan x: 3 % less cost."
    assert "NODE FAILURE" in header
    shown = json.loads(run("explain", "-f", path, "-o", "json").out)
    assert [offer["id"] for offer in shown["alternatives"]["offers"]] == [TWO.plan_id, OTHER.plan_id]
    assert "plan" not in shown["alternatives"]["offers"][1]
    assert shown["difference"]["nodesAdded"] == ["node-b"]


def test_explain_of_a_running_job_offers_nothing(files: Files) -> None:
    status = replace(waiting(), conditions=told(StateWord.RUNNING).conditions)
    shown = json.loads(run("explain", "-f", files.write("job.json", json.dumps({**job(), "status": to_wire(status)})), "-o", "json").out)
    assert (shown["alternatives"], shown["difference"]) == (None, None)


def test_a_preview_shows_alternatives_with_the_wide_output(files: Files) -> None:
    wider = files.write("wider.yaml", job(workers={**job()["spec"]["workers"], "maxReplicas": 8}))
    plain, wide = (files.plan(*output, job=wider) for output in ((), ("-o", "wide")))
    assert (wide.code, wide.err) == (0, plain.err)
    assert wide.out.startswith(plain.out)
    assert wide.out.count("ALTERNATIVES") == 1
    assert "ALTERNATIVES" not in plain.out


def test_a_single_offer_is_no_choice() -> None:
    assert offers_lines((offer_of(TWO, 100),), TWO.plan_id) == []
