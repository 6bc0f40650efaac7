"""Calls into NVML: what is being called (a call may never return), what each error code means, numbers out of NVML's unions."""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

import pynvml

from hyperscale.agent.state import AgentState, DriverCondition


class Reach(Enum):
    """How far an error reaches."""

    FIGURE = "figure"
    """This figure cannot be had here and now; expected, nothing to report."""
    TROUBLE = "trouble"
    """This figure cannot be had, and that is not normal: counted."""
    GPU = "gpu"
    """The GPU cannot be read at all."""
    LIBRARY = "library"
    """NVML cannot be used: begin again."""


_REACHES: Final = {
    pynvml.NVML_ERROR_NOT_SUPPORTED: Reach.FIGURE,
    pynvml.NVML_ERROR_NOT_FOUND: Reach.FIGURE,
    pynvml.NVML_ERROR_INVALID_ARGUMENT: Reach.FIGURE,  # an older driver's answer to a newer question
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: Reach.FIGURE,
    pynvml.NVML_ERROR_NO_DATA: Reach.FIGURE,
    pynvml.NVML_ERROR_VGPU_ECC_NOT_SUPPORTED: Reach.FIGURE,
    pynvml.NVML_ERROR_FREQ_NOT_SUPPORTED: Reach.FIGURE,
    pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH: Reach.FIGURE,
    pynvml.NVML_ERROR_DEPRECATED: Reach.FIGURE,
    pynvml.NVML_ERROR_RESET_TYPE_NOT_SUPPORTED: Reach.FIGURE,
    pynvml.NVML_ERROR_GPU_IS_LOST: Reach.GPU,
    pynvml.NVML_ERROR_RESET_REQUIRED: Reach.GPU,
    pynvml.NVML_ERROR_GPU_NOT_FOUND: Reach.GPU,
    pynvml.NVML_ERROR_UNINITIALIZED: Reach.LIBRARY,
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: Reach.LIBRARY,
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: Reach.LIBRARY,
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: Reach.LIBRARY,
}

_CONDITIONS: Final = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: DriverCondition.NO_LIBRARY,
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: DriverCondition.NO_DRIVER,
    pynvml.NVML_ERROR_NO_PERMISSION: DriverCondition.NO_PERMISSION,
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: DriverCondition.VERSION_MISMATCH,
    pynvml.NVML_ERROR_GPU_IS_LOST: DriverCondition.GPU_LOST,
    pynvml.NVML_ERROR_GPU_NOT_FOUND: DriverCondition.GPU_LOST,
    pynvml.NVML_ERROR_RESET_REQUIRED: DriverCondition.RESET_REQUIRED,
}


def reach(error: pynvml.NVMLError) -> Reach:
    """How far this error reaches; codes that no one knows yet cost the figure they came with, and are counted."""
    return _REACHES.get(error.value, Reach.TROUBLE)


def state_of(error: pynvml.NVMLError, where: str) -> AgentState:
    """State of whatever `where` names, after this error."""
    return AgentState(_CONDITIONS.get(error.value, DriverCondition.UNREADABLE), f"{where}: {error} (NVML code {error.value})")


class Call:
    """Calls functions of pynvml by name and remembers which one is under way; used by one thread at a time, read by others."""

    def __init__(self) -> None:
        self.doing = ""
        """The function that has not returned yet, and of which GPU; empty between readings."""
        self.subject = ""
        """What the calls concern, e.g. GPU 3."""

    def __call__(self, function: str, *arguments: Any) -> Any:  # noqa: ANN401 - pynvml has no annotations
        """The answer; raises NVMLError."""
        self.doing = f"{function} of {self.subject}" if self.subject else function
        return getattr(pynvml, function)(*arguments)

    def optional(self, function: str, *arguments: Any) -> Any:  # noqa: ANN401 - pynvml has no annotations
        """The answer, or None where NVML does not say; raises the errors that cost the GPU or more."""
        try:
            return self(function, *arguments)
        except pynvml.NVMLError as error:
            if reach(error) in {Reach.GPU, Reach.LIBRARY}:
                raise
            return None

    def done(self) -> None:
        """The reading is over."""
        self.doing = self.subject = ""


_MEMBERS: Final = {
    pynvml.NVML_VALUE_TYPE_DOUBLE: "dVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_INT: "uiVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG: "ulVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: "ullVal",
    pynvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG: "sllVal",
    pynvml.NVML_VALUE_TYPE_SIGNED_INT: "siVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_SHORT: "usVal",
}


def field_number(field: Any) -> float | None:  # noqa: ANN401 - an nvmlFieldValue_t
    """Number of one field; None when NVML could not give it, or in a type that is not known."""
    member = _MEMBERS.get(field.valueType)
    if field.nvmlReturn != pynvml.NVML_SUCCESS or member is None:
        return None
    return float(getattr(field.value, member))
