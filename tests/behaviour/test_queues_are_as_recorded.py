"""Decisions about several jobs at once against their records (see CONTRIBUTING.md, Tests)."""

from __future__ import annotations

import pytest

from hyperscale.planner.search.kernels import kernel
from tests.behaviour import queues, stored

pytestmark = pytest.mark.skipif(not kernel.COMPILED, reason="the search kernel is not compiled (make kernel); plans from numpy differ")


@pytest.mark.parametrize("question", queues.QUESTIONS)
def test_the_answer_is_as_recorded(question: str) -> None:
    stored.assert_as_recorded(queues.KIND, question, queues.output(question))


def test_some_jobs_start_and_wait_and_some_move_or_stop() -> None:
    recorded = {question: stored.read(queues.KIND, question)["answer"] for question in queues.QUESTIONS}
    assert recorded["turns-by-rule"]["starts"]
    assert recorded["turns-by-rule"]["holds"]
    assert recorded["turns-by-agent"]["score"]["agent"] is not None
    assert recorded["a-move-pays"]["advice"][0]["moved"]
    assert not recorded["a-move-does-not-pay"]["advice"][0]["moved"]
    assert recorded["a-stop-pays"]["stops"]
    assert not recorded["a-stop-too-soon"]["stops"]
