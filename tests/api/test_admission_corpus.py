"""The API server and spec/parse.py say the same about one corpus of jobs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from e2e.cluster.api import Api, ApiError, Object
from hyperscale.model.api.job import JobSpec
from hyperscale.spec.parse import SpecError, parse_job
from hyperscale.spec.written import write
from tests.corpus.jobs import BAD_JOBS, CROSSING_JOBS, GOOD_JOBS, Bad, Resource, job
from tests.corpus.strategies import JOBS, WIRES

COLLECTION = "/apis/hyperscale.dev/v1alpha1/namespaces/default/gnntrainingjobs"
STRICT = f"{COLLECTION}?fieldValidation=Strict"
"""What kubectl asks for: unknown fields are errors."""


def refusal(api: Api, resource: Object) -> str:
    """The server's message, which must be a refusal of the object, not a failure of the server."""
    with pytest.raises(ApiError) as refused:
        api.create(STRICT, resource)
    assert refused.value.code in (400, 422), refused.value
    return str(refused.value)


@pytest.mark.parametrize("bad", BAD_JOBS, ids=lambda bad: bad.name)
def test_a_bad_job_is_refused_at_apply_with_its_path(api: Api, bad: Bad) -> None:
    message = refusal(api, job(bad.changes))
    assert bad.path in message
    assert bad.words in message


@pytest.mark.parametrize("bad", CROSSING_JOBS, ids=lambda bad: bad.name)
def test_a_rule_between_fields_reads_the_same_from_both_sides(api: Api, bad: Bad) -> None:
    with pytest.raises(SpecError) as refused:
        parse_job(job(bad.changes))
    assert refused.value.message.partition("; ")[2] in refusal(api, job(bad.changes))


@pytest.mark.parametrize("resource", GOOD_JOBS.values(), ids=GOOD_JOBS.keys())
def test_a_good_job_is_admitted_and_what_is_stored_parses_to_the_same_spec(api: Api, resource: Resource) -> None:
    stored = api.create(f"{STRICT}&dryRun=All", resource)
    assert parse_job(stored) == parse_job(resource)


def outcome(api: Api, resource: Object) -> str:
    """ "" when the server admits the object, else its refusal."""
    try:
        api.create(f"{STRICT}&dryRun=All", resource)
    except ApiError as error:
        return str(error)
    return ""


@settings(max_examples=50, deadline=None)
@given(JOBS)
def test_every_job_that_keeps_the_rules_is_admitted(api: Api, spec: JobSpec) -> None:
    assert outcome(api, job({"spec": write(spec)})) == ""


@settings(max_examples=50, deadline=None)
@given(WIRES)
def test_the_server_and_the_parser_never_disagree_about_rules(api: Api, wire: Object) -> None:
    refused = outcome(api, job({"spec": wire}))
    try:
        parse_job(job({"spec": wire}))
        path = ""
    except SpecError as error:
        path = error.path
    assert bool(refused) == bool(path), (refused, path)
    assert path in refused


def test_the_corpus_is_large_enough() -> None:
    assert len(BAD_JOBS) >= 30
    assert len(GOOD_JOBS) >= 10
