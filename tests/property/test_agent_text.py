"""Whatever NVML answers, the agent's reading is finite and plausible, and its text is read back as it was."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from hyperscale.agent.exposition import ExpositionLine, Family, render
from hyperscale.agent.gpus.exposition_gpus import families
from hyperscale.agent.gpus.gpu_figures import FIGURES
from hyperscale.agent.gpus.gpu_reading import Reading
from hyperscale.agent.gpus.nvml import CODE_NAMES, Nvml
from hyperscale.agent.state import DriverCondition
from tests.unit.agent.expositiontext import samples
from tests.unit.agent.fakenvml import played, whole
from tests.unit.agent.test_nvml_errors import FUNCTIONS

TEXTS = {"uuid", "name", "bus"}
NUMBERS = sorted(key for key in whole() if key.partition(".")[2] not in TEXTS | {""} and not key.partition(".")[2].startswith("link"))
CHANGES = st.dictionaries(st.sampled_from(NUMBERS), st.integers(0, 2**64 - 1), max_size=12)
ERRORS = st.dictionaries(
    st.tuples(st.sampled_from(["", "gpu0.", "gpu1."]), st.sampled_from(FUNCTIONS)), st.sampled_from([*CODE_NAMES, 77]), max_size=4
)
MISSING = st.sets(st.sampled_from(NUMBERS), max_size=8)


@settings(max_examples=50, deadline=None)
@given(CHANGES, ERRORS, MISSING)
def test_no_answer_of_nvml_makes_a_figure_that_is_none(
    changes: dict[str, int], errors: dict[tuple[str, str], int], missing: set[str]
) -> None:
    with played() as fake:
        asked = {f"{scope}error.{function}": code for (scope, function), code in errors.items()}
        fake.load({**changes, **asked}, without=tuple(missing))
        reader = Nvml()
        for now in (100.0, 110.0):
            judge(reader.read(now))
        reader.close()


def judge(reading: Reading) -> None:
    for gpu in reading.gpus:
        assert gpu.state.condition is DriverCondition.READY or not gpu.figures
        for name, value in gpu.figures.items():
            assert math.isfinite(value)
            assert 0 <= value <= FIGURES[name].limit
    assert reading.gpus or reading.state.condition is not DriverCondition.READY
    served = samples(render(families(reading, "gpu-a", reading.state, 0.1)))
    assert len(served["hyperscale_agent_state"]) == 1
    assert sum(len(lines) for name, lines in served.items() if name in FIGURES) == sum(len(gpu.figures) for gpu in reading.gpus)


LABELS = st.dictionaries(st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,8}", fullmatch=True), st.text(min_size=1, max_size=20), max_size=4)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(LABELS, st.floats()), min_size=1, max_size=4), st.text(max_size=30))
def test_any_label_and_any_number_come_back_from_the_text(lines: list[tuple[dict[str, str], float]], words: str) -> None:
    text = render([Family("some_metric", "gauge", words, tuple(ExpositionLine(labels, value) for labels, value in lines))])
    for (labels, value), (found, number) in zip(lines, samples(text)["some_metric"], strict=True):
        assert found == labels
        assert number == value or (math.isnan(number) and math.isnan(value))
