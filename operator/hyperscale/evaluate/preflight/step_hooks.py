"""Counts the steps of code that was not written for it, and looks at its losses and gradients, by hooks of torch."""

from __future__ import annotations

import inspect
import math
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from hyperscale.evaluate.preflight.trial_types import Said, TrialEvent

STOCK: Final = ("Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "SGD")
"""Optimizers of torch whose step has a door to the compiler."""
MAX_IDLE: Final = 64
"""Names of parameters kept."""
BARE_PASSES: Final = 64
"""Backward passes without a step of an optimizer after which each pass counts as a step: fewer may add up gradients for one step."""


class StepHooks:
    """One step is one `step()` of an optimizer; where the code has none, one backward pass."""

    def __init__(self, steps: int, tell: Callable[[TrialEvent], None], peak_bytes: Callable[[], int], stop: Callable[[], None]) -> None:
        """stop: called after the last step; it does not return."""
        self._wanted, self._tell, self._peak_bytes, self._stop = steps, tell, peak_bytes, stop
        self.steps = 0
        self._passes = 0
        self._optimizes = False
        self._loss = ""
        self._began = time.perf_counter()
        self._moved: set[int] = set()
        """Parameters that had a gradient in some step."""
        self._trained: dict[int, tuple[str, Any]] = {}
        self._names: dict[int, str] = {}
        self._modules: set[int] = set()

    def install(self, torch: Any) -> None:  # noqa: ANN401 - the module
        """Hook backward passes, optimizers and calls of modules."""
        original = torch.Tensor.backward
        self._isfinite, self._count = torch.isfinite, torch.count_nonzero

        def backward(tensor: Any, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - as torch's
            self._judge_loss(tensor)
            result = original(tensor, *arguments, **named)
            self._passes += 1
            if not self._optimizes and self._passes > BARE_PASSES:
                self._after()  # it updates its parameters by hand
            return result

        torch.Tensor.backward = backward
        optimizers = sys.modules[torch.optim.Optimizer.__module__]
        optimizers.register_optimizer_step_pre_hook(lambda optimizer, *_: self._before(optimizer))
        optimizers.register_optimizer_step_post_hook(lambda *_: self._after())
        # One name for each parameter, as its module has it.
        torch.nn.modules.module.register_module_forward_pre_hook(lambda module, _: self._name(module))

    def finish(self) -> None:
        """The code came to its end: passes without an optimizer were its steps; say which parameters never moved."""
        if not self._optimizes and not self.steps and self._passes:
            self.steps = self._passes
            each = (time.perf_counter() - self._began) / self.steps
            self._tell(TrialEvent(Said.STEP, step=self.steps, loss=self._loss, seconds=each, bytes=self._peak_bytes()))
        self._idle()

    def _name(self, module: Any) -> None:  # noqa: ANN401 - a torch module
        """The outermost module that is called comes first, and has the longest names."""
        if id(module) in self._modules:
            return
        self._modules.add(id(module))
        for name, parameter in module.named_parameters():
            self._names.setdefault(id(parameter), name)

    def _judge_loss(self, tensor: Any) -> None:  # noqa: ANN401
        if tensor.numel() != 1:
            return
        loss = float(tensor.detach())
        self._loss = loss.hex()
        if not math.isfinite(loss):
            self._tell(TrialEvent(Said.NOT_FINITE, f"the loss is {loss}", self.steps + 1))
            self._stop()

    def _before(self, optimizer: Any) -> None:  # noqa: ANN401
        self._optimizes = True
        for group, entries in enumerate(optimizer.param_groups):
            for place, parameter in enumerate(entries["params"]):
                self._look_at(parameter, f"parameter {place} of group {group}")

    def _look_at(self, parameter: Any, otherwise: str) -> None:  # noqa: ANN401
        if not parameter.requires_grad:
            return
        name = self._names.get(id(parameter), otherwise)
        self._trained.setdefault(id(parameter), (name, parameter))
        gradient = parameter.grad
        if gradient is None:
            return
        values = gradient.coalesce().values() if gradient.is_sparse else gradient
        if not bool(self._isfinite(values).all()):
            self._tell(TrialEvent(Said.NOT_FINITE, f"a gradient of {name} is not finite", self.steps + 1))
            self._stop()
        if id(parameter) not in self._moved and int(self._count(values)):
            self._moved.add(id(parameter))

    def _after(self) -> None:
        self.steps += 1
        now = time.perf_counter()
        self._tell(TrialEvent(Said.STEP, step=self.steps, loss=self._loss, seconds=now - self._began, bytes=self._peak_bytes()))
        if self.steps >= self._wanted:
            self._idle()
            self._stop()
        self._began = time.perf_counter()

    def _idle(self) -> None:
        if not self.steps:
            return
        names = sorted(name for key, (name, _) in self._trained.items() if key not in self._moved)
        for name in names[:MAX_IDLE]:
            self._tell(TrialEvent(Said.IDLE, name[:128], self.steps))


def open_doors(torch: Any) -> None:  # noqa: ANN401 - the module
    """Take the doors to torch.compile off stock optimizers: the first call through one imports the compiler (pytorch#104053).

    That takes 7 s and 120 MB. The steps are the same to the bit; `hyperscale.training.engine.adam` does so for built-in models.
    """
    base = torch.optim.Optimizer
    for name in ("add_param_group", "zero_grad", "state_dict", "load_state_dict"):
        setattr(base, name, inspect.unwrap(getattr(base, name)))
    for name in STOCK:
        kind = getattr(torch.optim, name)
        if "step" in vars(kind):
            kind.step = torch.no_grad()(inspect.unwrap(kind.step))
