"""Objects of the API before ADR 9 to objects of today, by the table in `former_fields`. Pure; what is converted already stays as it is."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from decimal import ROUND_CEILING, Decimal
from typing import Any, Final, NamedTuple

from hyperscale.model import constants
from hyperscale.spec import errors
from hyperscale.spec.former_fields import FIELDS, STATUS_FIELDS, Change, FormerField
from hyperscale.util.quantity import parse_exact

Json = dict[str, Any]
NANOSECONDS: Final = Decimal(10**9)
LARGEST_MIGRATION_PERCENT: Final = 99
_FACTORS: Final = {
    Change.ROUND_UP: Decimal(1),
    Change.PERCENT: Decimal(100),
    Change.MIGRATION_PERCENT: Decimal(100),
    Change.NANOSECONDS: NANOSECONDS,
    Change.THOUSANDS: Decimal(1000),
}


class ConvertError(ValueError):
    """An object that cannot be converted: `path` names the field, `message` says what to write instead."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path, self.message = path, message


class Converted(NamedTuple):
    """What came of an object."""

    resource: Json
    changed: tuple[str, ...]
    """Paths of former fields, in the order of the table."""
    notes: tuple[str, ...]
    """Values that are not the same as before, each with its path."""


def convert(resource: Mapping[str, Any]) -> Converted:
    """The object with the names and types of today; objects of other kinds stay as they are. Raises ConvertError.

    `status` is converted where it is there.
    """
    kind = resource.get("kind")
    fields = FIELDS.get(kind) if isinstance(kind, str) else None
    if fields is None or resource.get("apiVersion") != constants.API_VERSION:
        return Converted(dict(resource), (), ())
    work = _Work(copy.deepcopy(dict(resource)))
    for field in fields:
        work.apply(field)
    if kind == constants.JOB_KIND:
        work.start_policy()
        work.resources()
        for field in STATUS_FIELDS:
            work.apply(field)
        work.last_of_a_name(["status", "scheduling", "refused"], "node")
    else:
        work.last_of_a_name(["spec", "overrides", "nodes"], "name")
    return Converted(work.root, tuple(work.changed), tuple(work.notes))


class _Work:
    """One object on its way."""

    def __init__(self, root: Json) -> None:
        self.root = root
        self.changed: list[str] = []
        self.notes: list[str] = []

    def apply(self, field: FormerField) -> None:
        """Rewrite one field wherever it stands."""
        self._apply(self.root, field.path, field.now, field, "")

    def _apply(self, holder: Json, path: str, now: str, field: FormerField, above: str) -> None:
        head, list_mark, rest = path.partition("[].")
        if not list_mark:
            self._rewrite(holder, path, now, field, above)
            return
        entries = _at(holder, head.split("."))
        for index, entry in enumerate(entries if isinstance(entries, list) else ()):
            if isinstance(entry, dict):
                self._apply(entry, rest, now.partition("[].")[2], field, f"{above}{head}[{index}].")

    def _rewrite(self, holder: Json, path: str, now: str, field: FormerField, above: str) -> None:
        steps = path.split(".")
        value = _at(holder, steps)
        if value is None or not _is_former(value, field):
            return
        fresh = None if field.change is Change.DROPPED else self._value(value, field, above + path)
        if path == now:
            if fresh is not value:
                self.changed.append(above + path)
                _at(holder, steps[:-1])[steps[-1]] = fresh
            return
        if now and _at(holder, now.split(".")) is not None:
            raise ConvertError(above + path, f"{now.rpartition('.')[2]} is given too; remove one of the two")
        self.changed.append(above + path)
        _remove(holder, steps)
        if now:
            _put(holder, now.split("."), fresh, above + path)

    def _value(self, value: Any, field: FormerField, path: str) -> Any:  # noqa: ANN401 - any JSON
        """The value of today; the same object where nothing changes."""
        if field.words is not None:
            return field.words.get(value, value)
        if field.change is Change.COPY:
            return value
        if isinstance(value, bool) or not isinstance(value, int | float):
            if field.path == field.now:
                return value
            raise ConvertError(path, f"{errors.shown(value)} is no number; write one, or leave the field out")
        if field.change is Change.DECIMAL:
            return repr(value).removesuffix(".0")
        return f"{value}Mi" if field.change is Change.MEBIBYTES else self._whole(value, field, path)

    def _whole(self, value: float, field: FormerField, path: str) -> int:
        """The integer of today, with a note where it is not the same number."""
        exact = Decimal(repr(value)) * _FACTORS[field.change]
        whole = int(exact.to_integral_value(rounding=ROUND_CEILING))
        if field.change is Change.MIGRATION_PERCENT:
            whole = min(whole, LARGEST_MIGRATION_PERCENT)
        if exact != whole:
            self.notes.append(f"{path}: {errors.shown(value)} becomes {whole}")
        return value if isinstance(value, int) and whole == value and field.path == field.now else whole

    def start_policy(self) -> None:
        """`approval` and `planOnly` to `startPolicy`."""
        spec = self.root.get("spec")
        if not isinstance(spec, dict) or ("approval" not in spec and "planOnly" not in spec):
            return
        if "startPolicy" in spec:
            raise ConvertError(
                f"spec.{'approval' if 'approval' in spec else 'planOnly'}", "startPolicy is given too; remove one of the two"
            )
        self.changed += [f"spec.{name}" for name in ("approval", "planOnly") if name in spec]
        approval, plan_only = spec.pop("approval", None), spec.pop("planOnly", None)
        if plan_only is True:
            spec["startPolicy"] = "Never"
            if approval == "Manual":
                self.notes.append("spec.startPolicy: Never; write Manual to start it by approval")
            return
        spec["startPolicy"] = "Manual" if approval == "Manual" else "Automatic"

    def resources(self) -> None:
        """`gpusPerWorker`, `cpu`, `memory` and the resources of the template's worker container to `workers.resources`."""
        workers = _at(self.root, ["spec", "workers"])
        if not isinstance(workers, dict):
            return
        loose = {name: workers.pop(name) for name in ("gpusPerWorker", "cpu", "memory") if name in workers}
        if "resources" in workers:
            if loose:
                raise ConvertError(f"spec.workers.{next(iter(loose))}", "resources is given too; remove one of the two")
            return
        own, path = _own_resources(workers)
        if loose or own:
            self.changed += [f"spec.workers.{name}" for name in loose] + ([f"{path}.resources"] if own else [])
            _drop_own_resources(workers)
            workers["resources"] = _merged(loose, own, f"{path}.resources")

    def last_of_a_name(self, steps: list[str], key: str) -> None:
        """Of several entries of a node the last one counted; lists that are maps today hold one."""
        entries, path = _at(self.root, steps), ".".join(steps)
        if not isinstance(entries, list) or not all(isinstance(entry, dict) and isinstance(entry.get(key), str) for entry in entries):
            return
        kept = list({entry[key]: entry for entry in entries}.values())
        if len(kept) < len(entries):
            self.changed.append(path)
            self.notes.append(f"{path}: the last entry of each {key} is kept, as it was in force")
            _at(self.root, steps[:-1])[steps[-1]] = kept


def _is_former(value: object, field: FormerField) -> bool:
    """Whether the table has something to say about a value; an enum under its present name may hold a present word."""
    if field.words is None:
        return True
    return isinstance(value, str) and (value in field.words or field.now not in ("", field.path))


def _given(amounts: Json) -> Json:
    return {name: amount for name, amount in amounts.items() if amount is not None}


def _main_container(workers: Json) -> tuple[Json | None, str]:
    """The template's worker container, or its first one, with its path."""
    containers = _at(workers, ["template", "spec", "containers"])
    entries = [entry for entry in containers if isinstance(entry, dict)] if isinstance(containers, list) else []
    if not entries:
        return None, ""
    index = next((index for index, entry in enumerate(entries) if entry.get("name") == "worker"), 0)
    return entries[index], f"spec.workers.template.spec.containers[{index}]"


def _own_resources(workers: Json) -> tuple[Json, str]:
    container, path = _main_container(workers)
    own = (container or {}).get("resources") or {}
    if not isinstance(own, dict):
        raise ConvertError(f"{path}.resources", "must be a map")
    for kind, amounts in own.items():
        if kind not in ("limits", "requests") and amounts:
            raise ConvertError(f"{path}.resources.{kind}", "has no place in spec.workers.resources; remove it")
        if amounts is not None and not isinstance(amounts, dict | list):
            raise ConvertError(f"{path}.resources.{kind}", "must be a map")
    return {kind: own[kind] for kind in ("limits", "requests") if own.get(kind)}, path


def _drop_own_resources(workers: Json) -> None:
    container, _ = _main_container(workers)
    if container is not None:
        container.pop("resources", None)


def _merged(loose: Json, own: Json, path: str) -> Json:
    """`resources` of the loose fields and what the template asked for besides."""
    memory = loose.get("memory")
    stated = {
        "limits": _given({constants.GPU_RESOURCE: loose.get("gpusPerWorker"), "memory": memory}),
        "requests": _given({"cpu": loose.get("cpu"), "memory": memory}),
    }
    for kind, amounts in own.items():
        _merge(stated, kind, amounts, path)
    return {kind: amounts for kind, amounts in stated.items() if amounts}


def _merge(stated: dict[str, Json], kind: str, amounts: Any, path: str) -> None:  # noqa: ANN401 - any JSON
    """Add what the template asked for; raises ConvertError where it contradicts what was in force."""
    if not isinstance(amounts, dict):
        raise ConvertError(f"{path}.{kind}", "must be a map")
    # gpusPerWorker was 1 where it was absent, and overruled the template.
    in_force = {constants.GPU_RESOURCE: stated["limits"].get(constants.GPU_RESOURCE, 1), **stated[kind]}
    for name, amount in amounts.items():
        if name in in_force and not _equal(in_force[name], amount):
            raise ConvertError(
                f"{path}.{kind}.{name}",
                f"{errors.shown(amount)} was overruled by {errors.shown(in_force[name])}; write the one that you want",
            )
        stated[kind][name] = amount


def _equal(one: object, other: object) -> bool:
    try:
        return parse_exact(str(one)) == parse_exact(str(other))
    except ValueError:
        return one == other


def _at(holder: Any, steps: list[str]) -> Any:  # noqa: ANN401 - any JSON
    """The value at a path; None where there is none, and for null."""
    for step in steps:
        if not isinstance(holder, dict):
            return None
        holder = holder.get(step)
    return holder


def _remove(holder: Json, steps: list[str]) -> None:
    """Take a field away, and what it leaves empty."""
    parents = [holder]
    for step in steps[:-1]:
        parents.append(parents[-1][step])
    for parent, step in zip(reversed(parents), reversed(steps), strict=True):
        del parent[step]
        if parent or parent is holder:
            return


def _put(holder: Json, steps: list[str], value: object, former: str) -> None:
    for step in steps[:-1]:
        if holder.get(step) is None:
            holder[step] = {}
        holder = holder[step]
        if not isinstance(holder, dict):
            raise ConvertError(former, f"{step} is no object; write one")
    holder[steps[-1]] = value
