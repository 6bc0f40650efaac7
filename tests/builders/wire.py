"""Specs as users write them to the operator's type, without the rules between fields."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from hyperscale.model.api.job import JobSpec
from hyperscale.spec.introspect import struct_of
from hyperscale.spec.written import read


def spec_of(wire: Mapping[str, object]) -> JobSpec:
    """`GNNTrainingJob.spec`; raises msgspec.ValidationError or WrittenError."""
    return msgspec.convert(read(wire, struct_of(JobSpec)), JobSpec)
