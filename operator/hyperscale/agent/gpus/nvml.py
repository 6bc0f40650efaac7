"""A node's GPUs through NVML. Calls into NVML may never return: a reading belongs on a thread of its own (nvmlpoll)."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any, Final

import pynvml

from hyperscale.agent.gpus.gpu_figures import nvlink_rates, plausible
from hyperscale.agent.gpus.gpu_reading import GpuPath, GpuReading, Reading
from hyperscale.agent.gpus.nvml_calls import Call, Reach, reach, state_of
from hyperscale.agent.gpus.nvml_figures import READERS
from hyperscale.agent.gpus.nvml_mig import instances
from hyperscale.agent.gpus.nvml_paths import normal_bus_id, paths
from hyperscale.agent.state import AgentState, DriverCondition, worst
from hyperscale.util.xids import graver

PATHS_EVERY: Final = 6
"""Readings between two looks at the ways between GPUs: links go down rarely, and asking costs some hundred calls."""
_MAX_EVENTS: Final = 256
"""XIDs taken out of the queue in one reading."""
_EVENT_MILLISECONDS: Final = 1
"""What waiting for an XID may take; they queue up between readings. Never 0: for some that means for ever (cuda-python#2924)."""
_XID = "DCGM_FI_DEV_XID_ERRORS"
_READY = AgentState(DriverCondition.READY)


class _BeginAgainError(Exception):
    """NVML as a whole failed; `state` says how."""

    def __init__(self, state: AgentState) -> None:
        super().__init__(state.line)
        self.state = state


class Nvml:
    """Reads all GPUs; opens NVML when needed, and again after it failed. Not for two threads at once."""

    def __init__(self) -> None:
        self.call = Call()
        """Tells other threads what is under way."""
        self._open = False
        self._driver = ""
        self._events: Any = None
        self._watched: dict[int, str] = {}
        """UUIDs, by index, of the GPUs whose XIDs are taken."""
        self._xids: dict[str, int] = {}
        """Gravest and latest XID by UUID: indices move when a GPU is gone."""
        self._handles: dict[int, Any] = {}
        self._totals: dict[str, tuple[float, Mapping[str, float]]] = {}
        """When and what the running totals of a GPU were last, by UUID."""
        self._paths: tuple[GpuPath, ...] = ()
        self._paths_of: tuple[str, ...] = ()
        self._readings = 0
        self._errors: dict[str, int] = {}

    def read(self, now: float, *, figures: bool = True) -> Reading:
        """All GPUs at `now` (seconds, monotonic); without `figures` only which there are and the ways between them."""
        try:
            return self._read(now, figures)
        except _BeginAgainError as error:
            self.close()
            return Reading(taken_at=now, state=error.state, driver=self._driver, errors=dict(self._errors))
        finally:
            self.call.done()

    def close(self) -> None:
        """Let go of NVML; the next reading opens it again."""
        if self._open:
            self._open = False
            for function, arguments in (("nvmlEventSetFree", (self._events,)), ("nvmlShutdown", ())):
                try:
                    if function != "nvmlEventSetFree" or self._events is not None:
                        self.call(function, *arguments)
                except pynvml.NVMLError as error:
                    self._count(error)
        self._events = None
        self._handles, self._watched = {}, {}
        self._paths_of = ()

    def _read(self, now: float, figures: bool) -> Reading:
        count = self._begin()
        self._take_events()
        gpus = tuple(self._gpu(index, now, figures) for index in range(count))
        state = worst(gpu.state for gpu in gpus)
        self._readings += 1
        paths = self._find_paths(gpus)
        reading = Reading(taken_at=now, state=state, driver=self._driver, gpus=gpus, paths=paths, errors=dict(self._errors))
        mending = state.condition is not DriverCondition.READY and not self._readings % PATHS_EVERY
        if mending or not figures:
            # A GPU that was reset shows itself only to those who begin again. Not each time: XIDs of the others would be missed meanwhile.
            # And who only looks now and then holds nothing open: open devices keep a driver from being exchanged (gpu-operator#2570).
            self.close()
        return reading

    def _begin(self) -> int:
        """Number of GPUs, NVML being open."""
        try:
            if not self._open:
                self.call("nvmlInit")
                self._open = True
                self._driver = str(self.call("nvmlSystemGetDriverVersion"))
            count = int(self.call("nvmlDeviceGetCount"))
            if not self._handles:
                self._watch_events(count)
        except pynvml.NVMLError as error:
            if error.value in {pynvml.NVML_ERROR_GPU_NOT_FOUND, pynvml.NVML_ERROR_NOT_FOUND}:
                raise _BeginAgainError(AgentState(DriverCondition.NO_GPU, "NVML finds no GPU")) from error
            raise _BeginAgainError(state_of(error, self.call.doing)) from error
        if not count:
            raise _BeginAgainError(AgentState(DriverCondition.NO_GPU, "NVML finds no GPU"))
        return count

    def _watch_events(self, count: int) -> None:
        """Handles of all GPUs that can be had, and their XIDs from now on."""
        try:
            self._events = self.call("nvmlEventSetCreate")
        except pynvml.NVMLError as error:
            self._check(error)
        for index in range(count):
            self.call.subject = f"GPU {index}"
            try:
                handle = self._handles[index] = self.call("nvmlDeviceGetHandleByIndex", index)
                if self._events is not None and self.call("nvmlDeviceGetSupportedEventTypes", handle) & _XID_EVENTS:
                    uuid = str(self.call("nvmlDeviceGetUUID", handle))
                    self.call("nvmlDeviceRegisterEvents", handle, _XID_EVENTS, self._events)
                    self._watched[index] = uuid
            except pynvml.NVMLError as error:
                self._check(error)
            except ValueError:  # a name that is no text; the reading of this GPU says so
                continue

    def _take_events(self) -> None:
        """Empty the queue of XIDs; the last grave one, else the last of all, stays known until the agent ends."""
        if self._events is None:
            return
        by_address = {_address(handle): index for index, handle in self._handles.items()}
        for _ in range(_MAX_EVENTS):
            try:
                event = self.call("nvmlEventSetWait_v2", self._events, _EVENT_MILLISECONDS)
            except pynvml.NVMLError as error:
                if error.value != pynvml.NVML_ERROR_TIMEOUT:  # nothing (more) in the queue
                    self._check(error)
                return
            uuid = self._watched.get(by_address.get(_address(event.device), -1))
            if uuid and event.eventType & _XID_EVENTS:
                # A fatal error ends the programs on the GPU, which report harmless ones after it.
                self._xids[uuid] = graver(self._xids.get(uuid, 0), int(event.eventData))

    def _gpu(self, index: int, now: float, figures: bool) -> GpuReading:
        """One GPU; what goes wrong with it stays with it, unless NVML as a whole is gone."""
        self.call.subject = f"GPU {index}"
        try:
            if index not in self._handles:
                self._handles[index] = self.call("nvmlDeviceGetHandleByIndex", index)
            handle = self._handles[index]
            named = self._named(index, handle)
            if not figures:
                return named
            return self._measured(named, handle, now)
        except pynvml.NVMLError as error:
            self._check(error)
            return GpuReading(index, state_of(error, self.call.doing))
        except ValueError as error:  # a name that is no text
            return GpuReading(index, AgentState(DriverCondition.UNREADABLE, f"{self.call.doing}: {error}"))

    def _named(self, index: int, handle: Any) -> GpuReading:  # noqa: ANN401 - an NVML handle
        uuid = str(self.call("nvmlDeviceGetUUID", handle))
        bus_id = normal_bus_id(self.call("nvmlDeviceGetPciInfo_v3", handle).busId)
        minor = self._optional("nvmlDeviceGetMinorNumber", handle)
        model = self._optional("nvmlDeviceGetName", handle)
        return GpuReading(index, _READY, uuid, bus_id, f"nvidia{index if minor is None else minor}", "" if model is None else str(model))

    def _measured(self, named: GpuReading, handle: Any, now: float) -> GpuReading:  # noqa: ANN401 - an NVML handle
        raw: dict[str, float] = {}
        for reader in READERS:
            try:
                raw |= reader(self.call, handle)
            except pynvml.NVMLError as error:
                self._pass_on(error)
        before_at, before = self._totals.get(named.uuid, (now, {}))
        self._totals[named.uuid] = now, raw
        raw |= nvlink_rates(before, raw, now - before_at)
        if self._watched.get(named.index) == named.uuid:
            raw[_XID] = self._xids.get(named.uuid, 0)
        split = instances(self.call, handle, self._pass_on)
        return GpuReading(
            named.index, named.state, named.uuid, named.pci_bus_id, named.device, named.model, figures=plausible(raw), instances=split
        )

    def _optional(self, function: str, handle: Any) -> Any:  # noqa: ANN401 - pynvml has no annotations
        """The answer, or None where the GPU has none."""
        try:
            return self.call(function, handle)
        except pynvml.NVMLError as error:
            self._pass_on(error)
            return None

    def _find_paths(self, gpus: tuple[GpuReading, ...]) -> tuple[GpuPath, ...]:
        """Ways between the GPUs that can be read; looked up again when those change, and now and then."""
        readable = {gpu.index: gpu for gpu in gpus if gpu.uuid}
        present = tuple(gpu.uuid for gpu in readable.values())
        if present == self._paths_of and self._readings % PATHS_EVERY:
            return self._paths
        try:
            handles = {index: self._handles[index] for index in readable}
            self._paths = paths(self.call, handles, {index: gpu.pci_bus_id for index, gpu in readable.items()})
            self._paths_of = present
        except pynvml.NVMLError as error:
            self._check(error)
            self._paths, self._paths_of = (), ()
        return self._paths

    def _pass_on(self, error: pynvml.NVMLError) -> None:
        """Count an error that costs one figure; raise those that cost the GPU or more."""
        if reach(error) in {Reach.GPU, Reach.LIBRARY}:
            raise error
        self._count(error)

    def _check(self, error: pynvml.NVMLError) -> None:
        """Count an error that costs one GPU or less; raise when NVML as a whole is gone."""
        if reach(error) is Reach.LIBRARY:
            raise _BeginAgainError(state_of(error, self.call.doing)) from error
        self._count(error)

    def _count(self, error: pynvml.NVMLError) -> None:
        if reach(error) is not Reach.FIGURE:
            name = CODE_NAMES.get(error.value, f"NVML_ERROR_{error.value}")
            self._errors[name] = self._errors.get(name, 0) + 1


_XID_EVENTS: Final = pynvml.nvmlEventTypeXidCriticalError

CODE_NAMES: Final[Mapping[int, str]] = {getattr(pynvml, name): name for name in dir(pynvml) if name.startswith("NVML_ERROR_")}
"""pynvml's names of NVML's error codes."""


def _address(handle: Any) -> int | None:  # noqa: ANN401 - an NVML handle
    return ctypes.cast(handle, ctypes.c_void_p).value
