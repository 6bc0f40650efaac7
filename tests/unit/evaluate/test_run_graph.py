"""The graph of finished runs: which is like a planned one, what is tied to failures, which models surprise."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperscale.evaluate.forecast.epoch_forecast import learn_forecaster
from hyperscale.evaluate.forecast.forecast_types import ForecastQuestion, ForecastRun, RunFeatures
from hyperscale.evaluate.forecast.run_evidence import evidence, like_runs
from hyperscale.evaluate.forecast.run_facts import RunFacts, facts_of, judged
from hyperscale.evaluate.forecast.run_graph import RunGraph

ASKED = RunFacts("", "GAT", "GAT, 2 layers", "cora", ("a", "b", "c", "d"), ("A100",))


def past(count: int, node: str, failed: int, start: int = 0) -> list[RunFacts]:
    """`count` runs on one node, of which the first `failed` failed."""
    return [RunFacts(f"{node}-{at}", "GCN", "GCN, 2 layers", "arxiv", (node,), ("A100",), failed=at < failed) for at in range(count)]


def forecast_runs(architecture: str, graphs: int, spread: float, seed: int) -> list[ForecastRun]:
    """Ten runs on each graph; a graph's level is drawn with `spread`, and its runs repeat within 2 %."""
    rng = np.random.default_rng(seed)
    runs = []
    for graph in range(graphs):
        level = rng.normal(0.0, spread)
        features = RunFeatures(architecture, "", f"{architecture}-{graph}", "A100", 1e5 * (graph + 1), 1e6 * (graph + 1), 64.0, 64.0, 2.0)
        for at in range(10):
            ranks = int(rng.choice([1, 2, 4]))
            seconds = 4.0 / ranks
            measured = seconds * math.exp(level + rng.normal(0.0, 0.02))
            runs.append(ForecastRun(f"{architecture}-{graph}-{at}", features, ranks, 1, measured, seconds))
    return runs


def test_the_run_that_shares_most_is_named_with_what_it_shares() -> None:
    near = RunFacts("x", "GAT", "GAT, 2 layers", "cora", ("a", "b", "c", "z"), ("A100",), ratio=1.04, missed=False)
    far = RunFacts("y", "GAT", "GAT, 3 layers", "arxiv", ("d",), ("A100",))
    graph = RunGraph([near, far, *past(5, "e", 0)])
    assert [each.facts.run for each in graph.nearest(ASKED, 5)] == ["x", "y"]
    assert evidence(graph, ASKED, unlike=False) == (
        "Most like x (same model, same graph, same GPUs, 3 of 4 nodes): it ended well, "
        "an epoch took 1.04 times the forecast of the other runs.",
    )
    (first, second) = like_runs(graph, ASKED)
    assert (first.run, first.ratio, second.shared, second.ratio) == ("x", 1.04, ("same architecture", "same GPUs", "1 of 4 nodes"), None)


def test_all_nodes_alike_are_said_in_a_word() -> None:
    for nodes, words in ((("a",), "same node"), (("a", "b"), "same nodes"), (("a", "z"), "1 of 2 nodes")):
        graph = RunGraph([RunFacts("x", "GAT", "GAT, 2 layers", "cora", ("a", "b"))])
        assert graph.nearest(replace(ASKED, nodes=nodes))[0].shared[-1] == words


def test_an_unlike_run_says_in_what_it_differs() -> None:
    graph = RunGraph([RunFacts("x", "GAT", "GAT, 3 layers", "cora")])
    sentences = evidence(graph, ASKED, unlike=True, differing=("ranks", "hidden size"))
    assert "It differs most from the nearest finished run in ranks, hidden size." in sentences
    assert len(evidence(graph, ASKED, unlike=False, differing=("ranks",))) == 1


def test_what_many_runs_have_counts_less_than_what_few_have() -> None:
    common = [replace(each, architecture="GAT", model="GAT, 4 layers") for each in past(20, "a", 0)]
    rare = RunFacts("rare", "GAT", "GAT, 8 layers", "other", ("d",))
    assert RunGraph([rare, *common]).nearest(ASKED)[0].facts.run == "rare"


def test_a_run_with_neither_model_nor_graph_in_the_history_is_unlike_anything() -> None:
    graph = RunGraph(past(20, "a", 0))
    assert graph.nearest(ASKED) == []
    assert evidence(graph, ASKED, unlike=True) == ("No finished run has its model or its graph: it is unlike anything in the history.",)
    assert evidence(RunGraph([]), ASKED, unlike=None)[0].startswith("No finished run")


def test_asking_leaves_no_trace() -> None:
    graph = RunGraph([RunFacts("x", "GAT", "GAT, 2 layers", "cora", ("a",)), *past(5, "b", 1)])
    first = graph.nearest(ASKED, 3)
    assert graph.nearest(ASKED, 3) == first
    assert graph.runs_with(("node", "d")) == []


def test_a_node_whose_runs_fail_more_often_is_named() -> None:
    graph = RunGraph([*past(8, "a", 6), *past(60, "b", 2)])
    (tie,) = graph.ties(ASKED)
    assert (tie.kind, tie.name, tie.what, tie.count, tie.runs, tie.other_count, tie.other_runs) == ("node", "a", "failed", 6, 8, 2, 60)
    assert "Of 8 runs with node a, 6 failed; of the 60 others, 2 (p = " in evidence(graph, ASKED, unlike=None)[1]


def test_two_failures_of_two_are_no_tie_where_many_fail() -> None:
    assert RunGraph([*past(2, "a", 2), *past(30, "b", 15)]).ties(ASKED) == []


def test_ties_under_no_difference_are_rare() -> None:
    chance, stated = np.random.default_rng(0), 0
    for _ in range(400):
        runs = [
            RunFacts(str(at), "GCN", "m", "g", (str(chance.choice(list("abcdefgh"))),), failed=chance.random() < 0.2) for at in range(60)
        ]
        stated += bool(RunGraph(runs).ties(ASKED))
    assert stated <= 20


def test_models_that_were_wrong_on_new_graphs_are_doubted() -> None:
    runs = [*forecast_runs("GAT", 6, 0.8, 1), *forecast_runs("GCN", 6, 0.05, 2)]
    facts = judged([facts_of(run) for run in runs], learn_forecaster(runs))
    graph = RunGraph(facts)
    assert graph.doubt("GAT") > 1.25
    assert graph.doubt("GCN") < 0.8
    assert graph.doubt("RGAT") == pytest.approx(1.0)
    assert "Forecasts of GAT on graphs that were new" in " ".join(evidence(graph, replace(ASKED, data="new"), unlike=True))
    assert "Forecasts of GAT" not in " ".join(evidence(graph, ASKED, unlike=False))
    assert sum(each.missed or False for each in facts) <= 0.12 * len(facts)
    assert all(0.5 < each.ratio < 2.0 for each in facts)


def test_one_graph_or_no_run_gives_no_doubt() -> None:
    runs = forecast_runs("GAT", 1, 0.5, 1)
    facts = judged([facts_of(run) for run in runs], learn_forecaster(runs))
    assert all(math.isnan(each.new_data_error) for each in facts)
    assert RunGraph(facts).doubt("GAT") == 1.0
    assert RunGraph([]).doubt("GAT") == 1.0


def test_runs_that_do_not_teach_keep_their_facts() -> None:
    runs = forecast_runs("GAT", 2, 0.5, 1)
    failed = RunFacts("f", "GAT", "GAT, 2 layers", "cora", failed=True, cause="out of memory")
    facts = judged([failed, *(facts_of(run) for run in runs)], learn_forecaster(runs))
    assert facts[0] is failed
    assert "it failed (out of memory)" in evidence(RunGraph([failed]), ASKED, unlike=None)[0]


def test_the_graph_of_a_planned_run_is_named_by_its_sizes_where_it_has_no_name() -> None:
    features = RunFeatures("GCN", vertices=2708.0, edges=10556.0, feature_size=1433.0, layers=2.0, hidden_size=64.0, gpu_product="A100+T4")
    facts = facts_of(ForecastQuestion(features, 2, 1, 1.0), ["n1"])
    assert (facts.run, facts.model, facts.data, facts.nodes) == ("", "GCN, 2 layers, 64 wide", "2708 10556 1433", ("n1",))
    assert facts.products == ("A100", "T4")


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["GCN", "GAT"]), st.booleans()), max_size=30))
def test_every_answer_is_about_runs_of_the_history(rows: list[tuple[str, str, bool]]) -> None:
    runs = [RunFacts(str(at), model, model, node, (node,), failed=failed) for at, (node, model, failed) in enumerate(rows)]
    graph = RunGraph(runs)
    for each in graph.nearest(ASKED, 40):
        assert each.facts in runs
        assert each.score >= 0.0
    for tie in graph.ties(ASKED):
        assert 2 <= tie.count <= tie.runs < len(runs)
        assert tie.p_value <= 0.05
