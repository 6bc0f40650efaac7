"""The step time curve: what it finds again, what it remembers, what it refuses."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from hyperscale.model.history.step_curves import Step, StepTime, node_class
from hyperscale.planner.cost.steptime import predict
from hyperscale.planner.cost.steptime_fit import fit
from tests.builders.steps import PLACEMENTS, TRUE

ASKED = [Step(gpus, batch) for gpus in PLACEMENTS for batch in (8.0, 32.0, 128.0)]


def measured(noise: float = 0.0, seed: int = 0) -> list[Step]:
    rng = np.random.default_rng(seed)
    seconds = predict(TRUE, ASKED) * np.exp(rng.normal(0.0, noise, len(ASKED)))
    return [Step(step.gpus, step.batch, float(time)) for step, time in zip(ASKED, seconds, strict=True)]


def test_a_curve_is_found_again_from_half_of_its_placements() -> None:
    rows = measured()
    curve = fit(rows[::2])
    assert predict(curve, ASKED) == pytest.approx(predict(TRUE, ASKED), rel=0.02)


def test_noise_of_a_few_percent_leaves_a_smaller_error() -> None:
    curve = fit(measured(noise=0.05)[::2])
    error = np.abs(predict(curve, ASKED, remembered=False) / predict(TRUE, ASKED) - 1.0)
    assert error.mean() < 0.03


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_class_that_was_hardly_measured_is_guessed_and_not_thrown_far_away(missing: int, seed: int) -> None:
    rows = [row for row in measured(0.05, seed) if node_class(row.gpus) != missing or sum(row.gpus) == missing + 1]
    off = np.abs(np.log(predict(fit(rows), ASKED) / predict(TRUE, ASKED)))
    assert off.max() < np.log(4.0)


@pytest.mark.parametrize("noise", [0.0, 0.02, 0.05])
def test_a_busy_link_is_remembered_for_its_hosts_only(noise: float) -> None:
    rng = np.random.default_rng(3)
    batches = (8.0, 32.0, 64.0, 128.0)
    places = [(4, 4), (3, 3), (2, 2), (1, 1), (4, 2), (4,), (1,), (2, 2, 2), (4, 4, 4)]
    steps = [Step(gpus, batch, hosts=hosts) for gpus in places for batch in batches for hosts in ("rack a", "rack b")]
    steps = [Step(step.gpus, step.batch, hosts=f"{step.hosts} {step.gpus}") for step in steps]
    busy = "rack a (4, 4)"
    rows = [
        Step(
            step.gpus, step.batch, float(seconds * (1.5 if step.hosts == busy else 1.0) * np.exp(rng.normal(0.0, noise))), hosts=step.hosts
        )
        for step, seconds in zip(steps, predict(TRUE, steps), strict=True)
    ]
    curve = fit(rows)
    slow, quick = predict(curve, [Step((4, 4), 32.0, hosts=busy), Step((4, 4), 32.0, hosts="rack b (4, 4)")])
    forgotten = predict(curve, [Step((4, 4), 32.0, hosts=busy)], remembered=False)
    assert slow > 1.3 * quick
    assert forgotten[0] < 0.9 * slow


def test_placements_that_never_differ_are_given_no_correction_to_speak_of() -> None:
    rows = measured(noise=0.02)
    curve = fit(rows)
    assert max(abs(effect.sync) for effect in curve.effects.values()) < 0.05


def test_the_order_of_nodes_means_nothing_without_their_names() -> None:
    curve = fit(measured(noise=0.05))
    first, second = predict(curve, [Step((4, 1, 2), 32.0), Step((1, 2, 4), 32.0)])
    assert first == second


def test_more_samples_never_take_less_time() -> None:
    curve = fit(measured(noise=0.1))
    for gpus in PLACEMENTS[::7]:
        times = predict(curve, [Step(gpus, batch) for batch in (1.0, 10.0, 100.0, 1000.0)])
        assert list(times) == sorted(times)


def test_a_step_of_one_gpu_waits_for_nobody() -> None:
    one = predict(TRUE, [Step((1,), 10.0)])[0]
    assert one == pytest.approx(0.02 + 0.001 * 10)


def test_a_curve_survives_json() -> None:
    curve = fit(measured(noise=0.05))
    again = msgspec.json.decode(msgspec.json.encode(curve), type=StepTime)
    assert again == curve


def test_the_same_rows_give_the_same_curve() -> None:
    assert fit(measured(noise=0.05)) == fit(measured(noise=0.05))


def test_too_few_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="needs 12 measured steps, not 5"):
        fit(measured()[:5])


@pytest.mark.parametrize("bad", [Step((), 8.0, 1.0), Step((0, 1), 8.0, 1.0), Step((1,), 8.0, 0.0), Step((1,), 0.0, 1.0)])
def test_a_row_without_gpus_batch_or_seconds_is_refused(bad: Step) -> None:
    with pytest.raises(ValueError, match="above 0"):
        fit([*measured(), bad])
