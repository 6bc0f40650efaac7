"""What holds for every step time curve that measured runs can teach, however wild they are."""

from __future__ import annotations

import msgspec
import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hyperscale.model.history.step_curves import MOST_REMEMBERED, Step, StepTime, node_class, placed
from hyperscale.planner.cost.steptime import Design, curve_seconds, gradient, predict
from hyperscale.planner.cost.steptime_fit import fit, learn

GPUS = st.lists(st.integers(1, 8), min_size=1, max_size=5).map(tuple)
WILD = st.builds(Step, GPUS, st.floats(1e-3, 1e7), st.floats(1e-7, 1e8), st.sampled_from(["", "a", "b", "c"]))
TAME = st.builds(Step, GPUS, st.floats(1.0, 1e4), st.floats(0.01, 10.0), st.sampled_from(["", "a", "b"]))
ASKED = [Step(gpus, 10.0) for gpus in ((1,), (8,), (2, 2), (5, 4, 3), (1, 1, 1, 1, 1, 1))]


@settings(max_examples=15, deadline=None)
@given(st.lists(WILD, min_size=12, max_size=24))
def test_predictions_are_never_negative_and_grow_with_the_batch(rows: list[Step]) -> None:
    curve = fit(rows)
    for gpus in ((1,), (3, 2), (4, 4, 4)):
        seconds = predict(curve, [Step(gpus, batch) for batch in (1e-3, 1.0, 1e3, 1e6)])
        assert (seconds >= 0.0).all()
        assert np.isfinite(seconds).all()
        assert (np.diff(seconds) >= -1e-9 * seconds[1:]).all()


NO_ALLREDUCE = [Step((1,), 116.4, 59283029.27, "a"), *[Step((1,), 0.5, 1e-7)] * 3, Step((1, 1, 7, 8), 2882015.0, 71000808.0),
    Step((1, 7), 0.5, 1e-7), *[Step((3, 5), 112.0, 83.0)] * 2, Step((3, 5), 9060447.3, 93679365.1), Step((5, 5, 7), 0.5, 1e-7),
    Step((1, 1, 2, 8), 8936807.8, 0.99999), Step((4, 4, 4, 4, 8), 5618123.4, 28746687.9)]  # fmt: skip
"""Of a fold's steps that have a neighbour in their placement one has a share of 1e-309 in the network, the others none."""


@settings(max_examples=5, deadline=None)
@given(st.lists(WILD, min_size=12, max_size=24), st.integers(0, 2**16))
@example(NO_ALLREDUCE, 0)
def test_what_is_learnt_survives_json_whatever_the_rows(rows: list[Step], seed: int) -> None:
    plain = np.exp(np.random.default_rng(seed).uniform(-15.0, 15.0, len(rows))).tolist()
    curve = learn(rows, plain)
    assert learn(rows, plain) == curve
    if curve is not None:
        assert msgspec.json.decode(msgspec.json.encode(curve), type=StepTime) == curve
        assert len(curve.effects) <= MOST_REMEMBERED
        assert len(msgspec.json.encode(curve)) < 8192


@settings(max_examples=4, deadline=None)
@given(st.lists(TAME, min_size=12, max_size=24), st.randoms(use_true_random=False))
def test_the_order_in_which_runs_ended_teaches_nothing(rows: list[Step], chance: object) -> None:
    mixed = list(rows)
    chance.shuffle(mixed)  # type: ignore[attr-defined] # hypothesis types its Random as object
    first, second = (learn(one, [row.batch for row in one]) for one in (rows, mixed))
    assert first == second


@settings(max_examples=50, deadline=None)
@given(st.lists(GPUS, min_size=1, max_size=6), st.lists(st.floats(0.01, 2.0), min_size=14, max_size=14), st.floats(1.05, 19.0))
def test_derivatives_are_those_of_the_curve(places: list[tuple[int, ...]], values: list[float], exponent: float) -> None:
    design, vector = Design.of([Step(gpus, 10.0) for gpus in places]), np.array(values)
    vector[3] = exponent
    found = gradient(vector, design)
    for index in range(len(vector)):
        step = np.zeros(len(vector))
        step[index] = 1e-5 * vector[index]
        more, less = (np.log(curve_seconds(vector + sign * step, design)) for sign in (1, -1))
        assert np.allclose((more - less) / (2 * step[index]), found[:, index], rtol=1e-4, atol=1e-6)


@settings(max_examples=10, deadline=None)
@given(st.lists(TAME, min_size=12, max_size=24))
def test_a_curve_reaches_what_was_measured_and_nothing_of_a_class_that_was_not(rows: list[Step]) -> None:
    curve = fit(rows)
    assert all(curve.reaches(row.gpus) for row in rows)
    classes = {node_class(row.gpus) for row in rows}
    assert all(node_class(one.gpus) in classes for one in ASKED if curve.reaches(one.gpus))


@settings(max_examples=50, deadline=None)
@given(
    st.dictionaries(st.text(min_size=1, max_size=8), st.integers(1, 8), min_size=1, max_size=6),
    st.integers(1, 10**9),
    st.integers(1, 10**6),
)
def test_the_steps_of_an_epoch_see_every_vertex(gpus: dict[str, int], vertices: int, batch: int) -> None:
    step, steps = placed(gpus, vertices, batch)
    assert steps * batch * sum(gpus.values()) >= vertices
    assert (steps - 1) * batch * sum(gpus.values()) < vertices
    whole, one = placed(gpus, vertices, None)
    assert (one, whole.hosts) == (1, step.hosts)
    assert whole.batch * sum(gpus.values()) == np.float64(vertices) or abs(whole.batch * sum(gpus.values()) / vertices - 1.0) < 1e-12
