"""Untrusted custom resources to `JobSpec` and `PolicySpec`, or one SpecError that says which field and what to write.

The API server has checked most of this already; the CLI's files, and resources stored under an older CRD, it has not.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec

from hyperscale.model import constants
from hyperscale.model.api.datasets import DatasetStatus, SizeSource, dataset_key, is_sized, with_sizes
from hyperscale.model.api.evaluation_policy import EvaluationStage, StageComparison, comparison_matrix
from hyperscale.model.api.job import JobSpec
from hyperscale.model.api.policy import GpuModel, PolicySpec, UplinkOverride
from hyperscale.spec import errors, former_fields, introspect, written
from hyperscale.spec.api_objects import fault_of
from hyperscale.spec.rules import JOB_RULES, MAX_NAME_LENGTH, NAME_HELP, NAME_PATTERN, ONE_UPLINK_FIGURE, PAIRS_ONCE, SAME_STAGE


def with_read_sizes(job: JobSpec, resource: Mapping[str, Any]) -> JobSpec:
    """The job with the sizes in `status.dataset` where its spec states none; unchanged where those are of another `spec.dataset`.

    A job that has started keeps the sizes that its plan rests on.
    """
    status = resource.get("status")
    if is_sized(job) or not isinstance(status, Mapping):
        return job
    try:
        read = msgspec.convert(status.get("dataset"), DatasetStatus)
    except msgspec.ValidationError:
        return job
    current = read.source is SizeSource.READ and read.dataset_key == dataset_key(job.dataset)
    return with_sizes(job, read) if current or status.get("mpiJobRef") is not None else job


MAX_SPEC_BYTES: Final = 65_535
"""JSON of one spec. kubectl repeats it in an annotation, and all annotations together may have 262,144 bytes."""
TOO_LARGE: Final = f"larger than {MAX_SPEC_BYTES} bytes of JSON; move what is long out of the templates, e.g. to a ConfigMap"
MAX_DEPTH: Final = 64
"""Levels of nesting; a pod template needs about 12."""
MAX_VALUES: Final = 65_536
"""Values of one spec, shared ones counted each time: stops YAML alias bombs."""
MAX_PATH_CHARACTERS: Final = 256
"""Of a SpecError; keys inside templates may be long."""
GENERATED_SUFFIX: Final = "xxxxx"
"""Stands for the five characters that the API server adds to generateName."""

_FREE_FORM: Final = frozenset({"template", "queries"})
"""Fields whose text may hold line breaks: pod templates and PromQL."""
_CONTROL: Final = re.compile("[\x00-\x1f\x7f]")

_Spec = TypeVar("_Spec", JobSpec, PolicySpec)


class SpecError(Exception):
    """A resource that cannot be used: `path` names the field, `message` says what is wrong and what to write instead."""

    def __init__(self, path: str, message: str) -> None:
        self.path = path[:MAX_PATH_CHARACTERS]
        super().__init__(f"{self.path}: {message}" if path else message)
        self.message = message


def parse_job(resource: Mapping[str, Any]) -> JobSpec:
    """The spec of a whole GNNTrainingJob, checked with every rule that the CRD has; raises only SpecError."""
    _check_kind(resource, constants.JOB_KIND)
    _check_name(resource)
    job = _parse(resource, JobSpec, constants.JOB_KIND)
    for rule in JOB_RULES:
        if not rule.holds(job):
            detail = f"{rule.detail(job)}; " if rule.detail is not None else ""
            raise SpecError(f"spec.{rule.path}", detail + rule.message)
    return job


def parse_policy(resource: Mapping[str, Any]) -> PolicySpec:
    """The spec of a whole PlannerPolicy; raises only SpecError."""
    _check_kind(resource, constants.POLICY_KIND)
    policy = _parse(resource, PolicySpec, constants.POLICY_KIND)
    for path, values in (
        ("planners", policy.planners),
        ("topologyLevels", policy.topology_levels),
        ("gpus", tuple(gpu.product for gpu in policy.gpus)),
        ("overrides.nodes", tuple(node.name for node in policy.overrides.nodes)),
    ):
        repeated = sorted({str(value) for value in values if values.count(value) > 1})
        if repeated:
            raise SpecError(f"spec.{path}", f"{repeated[0]} is given twice; write each once")
    for index, gpu in enumerate(policy.gpus):
        if gpu == GpuModel(gpu.product):
            raise SpecError(
                f"spec.gpus[{index}]",
                "has no figure; write gigaflops, pricePerHour, intraNodeBytesPerSecond or intraNodeLatencyNanoseconds",
            )
    check_uplinks(policy.overrides.uplinks)
    check_comparisons(policy.evaluation.comparisons)
    return policy


def check_uplinks(uplinks: tuple[UplinkOverride, ...]) -> None:
    """Raise SpecError where an entry has no figure or two, or a domain of a level is given twice."""
    path = "spec.overrides.uplinks"
    domains: set[tuple[str, str]] = set()
    for index, uplink in enumerate(uplinks):
        if (uplink.bytes_per_second is None) == (uplink.oversubscription is None):
            raise SpecError(f"{path}[{index}]", ONE_UPLINK_FIGURE)
        if (uplink.level, uplink.domain) in domains:
            domain = errors.shown(uplink.domain) if uplink.domain else "every domain"
            raise SpecError(f"{path}[{index}]", f"{domain} of {uplink.level} is given twice; write each domain of a level once")
        domains.add((uplink.level, uplink.domain))


def check_comparisons(comparisons: tuple[StageComparison, ...]) -> None:
    """Raise SpecError where a pair of stages is no pair, is given twice, or contradicts the others too much."""
    path = "spec.evaluation.comparisons"
    pairs: list[frozenset[EvaluationStage]] = []
    for index, one in enumerate(comparisons):
        if one.stage is one.compared_with:
            raise SpecError(f"{path}[{index}]", SAME_STAGE)
        pair = frozenset((one.stage, one.compared_with))
        if pair in pairs:
            raise SpecError(path, f"{one.stage} and {one.compared_with} are given twice; {PAIRS_ONCE}")
        pairs.append(pair)
    if comparisons:
        from hyperscale.util import ahp  # numpy is loaded for policies alone that compare stages

        try:
            ahp.weights([str(stage) for stage in EvaluationStage], comparison_matrix(comparisons))
        except ahp.InconsistentComparisonsError as error:
            entry = frozenset(EvaluationStage(name) for name in error.contradiction.entry)
            place = f"[{pairs.index(entry)}].importance" if entry in pairs else ""
            raise SpecError(path + place, str(error)) from None


def _check_kind(resource: object, kind: str) -> None:
    """Refuse what is no object, stands for one that cannot be decoded, or states another kind or version.

    Files that state neither kind nor version are taken at their word.
    """
    if not isinstance(resource, Mapping):
        raise SpecError("", f"{errors.shown(resource)} is no {kind}; write an object with apiVersion, kind, metadata and spec")
    if (fault := fault_of(resource)) is not None:
        raise SpecError(*fault)
    for field, wanted in (("apiVersion", constants.API_VERSION), ("kind", kind)):
        given = resource.get(field, wanted)
        if given != wanted:
            raise SpecError(field, f"{errors.shown(given)} is not supported; write {wanted}")


def _check_name(resource: Mapping[str, Any]) -> None:
    metadata = resource.get("metadata")
    if not isinstance(metadata, Mapping):
        raise SpecError("metadata", "required; write an object with a name")
    path, name = "metadata.name", metadata.get("name")
    if name is None and isinstance(metadata.get("generateName"), str):
        path, name = "metadata.generateName", metadata["generateName"] + GENERATED_SUFFIX
    if name is None:
        raise SpecError(path, f"required; {NAME_HELP}")
    if not isinstance(name, str) or len(name) > MAX_NAME_LENGTH or re.fullmatch(NAME_PATTERN, name) is None or name.endswith("\n"):
        raise SpecError(path, f"{errors.shown(name)} is not allowed; {NAME_HELP}")


def _parse(resource: Mapping[str, Any], wanted: type[_Spec], kind: str) -> _Spec:
    """Types and bounds of `resource["spec"]`."""
    plain = _Plain().copy(resource.get("spec"), "spec", 0)
    shape = introspect.struct_of(wanted)
    if not isinstance(plain, dict):
        raise SpecError("spec", f"{errors.shown(plain)} is not allowed; write {introspect.words_for(shape)}")
    if len(msgspec.json.encode(plain)) > MAX_SPEC_BYTES:
        raise SpecError("spec", TOO_LARGE)
    fault = errors.unknown_field(plain, shape)
    if fault is not None:
        fault = fault[0], former_fields.advice_on(kind, f"spec{fault[0]}") or fault[1]
    else:
        try:
            numbers = written.read(plain, shape)
            return msgspec.convert(numbers, wanted)
        except written.WrittenError as error:
            fault = error.path, str(error)
        except msgspec.ValidationError as error:
            fault = errors.explain(error, numbers, shape)
    raise SpecError(f"spec{fault[0]}", fault[1])


class _Plain:
    """Copies a value into plain JSON, counting what it meets; refuses everything that JSON or this operator cannot carry."""

    def __init__(self) -> None:
        self.met = 0

    def copy(self, value: object, path: str, depth: int, free_form: bool = False) -> object:
        """`value` as dicts, lists and scalars; raises SpecError."""
        self.met += 1
        if self.met > MAX_VALUES or depth > MAX_DEPTH:
            limit = f"more than {MAX_VALUES} values" if depth <= MAX_DEPTH else f"more than {MAX_DEPTH} levels of nesting"
            raise SpecError(path, f"{limit}; write a smaller spec")
        if isinstance(value, Mapping):
            return self._object(value, path, depth, free_form)
        if isinstance(value, (list, tuple)):
            return [self.copy(entry, f"{path}[{index}]", depth + 1, free_form) for index, entry in enumerate(value)]
        if isinstance(value, str):
            return self._text(value, path, free_form)
        return _number(value, path)

    def _object(self, value: Mapping[Any, object], path: str, depth: int, free_form: bool) -> dict[str, object]:
        """Entries of an object; a null outside free-form parts is an absent field, as the API server reads it."""
        copied: dict[str, object] = {}
        for key, entry in value.items():
            name = self._text(key, path, free_form)
            if entry is not None or free_form:
                copied[name] = self.copy(entry, f"{path}.{errors.clean(name)}", depth + 1, free_form or name in _FREE_FORM)
        return copied

    def _text(self, value: object, path: str, free_form: bool) -> str:
        if not isinstance(value, str):
            raise SpecError(path, f"the key {errors.shown(value)} is no text; put it in quotes")
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise SpecError(path, f"{errors.shown(value)} is no valid Unicode; write UTF-8 text") from None
        if not free_form and _CONTROL.search(value):
            raise SpecError(path, f"{errors.shown(value)} holds a control character; write it without")
        return value


def _number(value: object, path: str) -> object:
    """None, a truth value or a number as JSON has it."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise SpecError(path, "the number does not fit 64 bits; write a smaller one")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise SpecError(path, f"{errors.shown(value)} is no number of JSON; write a finite one")
        return value
    raise SpecError(
        path, f"a value of type {type(value).__name__} is not JSON; write a text (in quotes), a number, true, false, a list or an object"
    )
