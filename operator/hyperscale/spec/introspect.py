"""What the msgspec types say about themselves, for the two readers that need it: error messages and the CRD schema."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import msgspec
from msgspec import inspect

from hyperscale.model.api import container_resources
from hyperscale.model.api import job as types
from hyperscale.model.api import written_numbers as forms
from hyperscale.util.quantity import shortest

_PATTERN_HELP = {
    types.DNS_LABEL: "of a-z, 0-9 and -, first and last no -",
    types.DNS_SUBDOMAIN: "of a-z, 0-9, - and ., first and last in every part between dots a letter or digit",
    types.LABEL_KEY: "that make a label key such as topology.kubernetes.io/zone",
    types.LABEL_VALUE: "that make a label value: letters, digits, -, _ and .",
    container_resources.RESOURCE_NAME: "that name a resource such as cpu, memory or rdma/hca",
    types.RELATIVE_PATH: "that make a relative path without .. such as data/graph.bin",
}


@dataclass(frozen=True, slots=True)
class Shape:
    """One type, stripped of its wrappers."""

    bare: inspect.Type
    """Never Metadata, never a union with None."""
    optional: bool
    """None is allowed and means absent."""
    format: str = ""
    """Of OpenAPI, e.g. date-time; "" where the type has none."""
    written: str = ""
    """The form of a number that users write as text, see `model.api.written_numbers`; "" for all others."""


def shape_of(wrapped: inspect.Type) -> Shape:
    """`wrapped` without Metadata and None; the outermost format wins."""
    form, written, optional, bare = "", "", False, wrapped
    while True:
        if isinstance(bare, inspect.Metadata):
            form = form or (bare.extra_json_schema or {}).get("format", "")
            written = written or (bare.extra or {}).get(forms.WRITTEN, "")
            bare = bare.type
        elif isinstance(bare, inspect.UnionType) and inspect.NoneType() in bare.types:
            optional = True
            members = tuple(member for member in bare.types if member != inspect.NoneType())
            bare = members[0] if len(members) == 1 else inspect.UnionType(members)
        else:
            return Shape(bare, optional, form, written)


@cache
def struct_of(cls: type[msgspec.Struct]) -> inspect.StructType:
    """The fields of a struct class."""
    info = inspect.type_info(cls)
    if not isinstance(info, inspect.StructType):
        raise TypeError(f"{cls.__name__} is no msgspec.Struct")
    return info


def words_for(wrapped: inspect.Type) -> str:
    """What to write for a value of this type, to follow "write "."""
    return words_of(shape_of(wrapped))


def words_of(shape: Shape) -> str:
    """The same for a type whose wrappers are taken off."""
    bare = shape.bare
    if shape.written and isinstance(bare, inspect.StrType):
        return "a quantity above 0 such as 24Gi, 8 or 500m"
    if shape.written and isinstance(bare, inspect.IntType | inspect.FloatType):
        return _written_words(shape.written, bare)
    if isinstance(bare, (inspect.EnumType, inspect.LiteralType)):
        choices = choices_of(bare)
        return choices[0] if len(choices) == 1 else "one of " + ", ".join(choices)
    if isinstance(bare, (inspect.IntType, inspect.FloatType)):
        return _number_words(bare)
    if isinstance(bare, inspect.StrType):
        return _string_words(bare)
    return _container_words(bare)


def choices_of(bare: inspect.EnumType | inspect.LiteralType) -> tuple[str, ...]:
    """The allowed words, in the order in which they are declared."""
    if isinstance(bare, inspect.EnumType):
        return tuple(str(member.value) for member in bare.cls)
    return tuple(str(value) for value in bare.values)


def _number_words(bare: inspect.IntType | inspect.FloatType) -> str:
    kind = "a whole number" if isinstance(bare, inspect.IntType) else "a number"
    low = f" above {bare.gt:g}" if bare.gt is not None else ""
    if bare.ge is not None and bare.le is not None:
        return f"{kind} from {bare.ge} to {bare.le}"
    if bare.ge is not None and bare.lt is not None:
        return f"{kind} from {bare.ge:g} to below {bare.lt:g}"
    return kind + low + (f" up to {bare.le:g}" if bare.le is not None else "")


def _written_words(form: str, bare: inspect.IntType | inspect.FloatType) -> str:
    """Of a decimal string or a quantity; both have a lower and an upper bound."""
    if form in forms.DECIMAL_PATTERNS:
        low = f"from {bare.ge:g}" if bare.ge is not None else f"above {bare.gt:g}"
        high = f"to {bare.le:g}" if bare.le is not None else f"to below {bare.lt:g}"
        lowest = max(bare.ge or bare.gt or 0, 0)
        example = f"{lowest:g}.5" if lowest == int(lowest) else f"{lowest:g}"
        return f'a decimal number in quotes {low} {high}, such as "{example}"'
    return f"a quantity from {shortest(bare.ge or 0)} to {shortest(bare.le or 1)}, such as 10G or 24Gi"


def _string_words(bare: inspect.StrType) -> str:
    shortest = bare.min_length or 0
    if bare.max_length is None:
        return "a text"
    lengths = f"{shortest} to {bare.max_length}" if shortest else f"at most {bare.max_length}"
    help_text = _PATTERN_HELP.get(bare.pattern or "", f"that match {bare.pattern}" if bare.pattern else "")
    return f"a text of {lengths} characters {help_text}".rstrip()


def _container_words(bare: inspect.Type) -> str:
    if isinstance(bare, inspect.BoolType):
        return "true or false"
    if isinstance(bare, inspect.StructType):
        return "an object with the fields " + ", ".join(field.encode_name for field in bare.fields)
    fewest, most = getattr(bare, "min_length", None), getattr(bare, "max_length", None)
    limit = f" of {f'{fewest} to' if fewest else 'at most'} {most} entries" if most is not None else ""
    return ("an object" if isinstance(bare, inspect.DictType) else "a list") + limit
