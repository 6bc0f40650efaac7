"""spec/parse.py on the same corpus that tests/api runs through the API server."""

from __future__ import annotations

import pytest

from hyperscale.spec.parse import SpecError, parse_job
from tests.corpus.jobs import BAD_JOBS, GOOD_JOBS, Bad, Resource, job


@pytest.mark.parametrize("bad", BAD_JOBS, ids=lambda bad: bad.name)
def test_a_bad_job_is_refused_with_its_path_and_what_to_write(bad: Bad) -> None:
    with pytest.raises(SpecError) as refusal:
        parse_job(job(bad.changes))
    assert refusal.value.path == (bad.spec_path or bad.path)
    assert bad.words in refusal.value.message
    assert bad.spec_words in refusal.value.message
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 400


@pytest.mark.parametrize("resource", GOOD_JOBS.values(), ids=GOOD_JOBS.keys())
def test_a_good_job_is_parsed(resource: Resource) -> None:
    assert parse_job(resource).workers.max_replicas >= 1


def test_ids_of_the_corpus_are_unique() -> None:
    names = [bad.name for bad in BAD_JOBS]
    assert len(names) == len(set(names))
