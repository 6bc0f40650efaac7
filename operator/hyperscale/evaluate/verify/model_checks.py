"""Is a model trainable on a job's data? Shapes and types, labels, gradients, and a loss that does not depend on how the data are split.

The model runs on a small sample. Tensors come in with the sample, so that this module needs no torch of its own; the operation graph comes
from `hyperscale analyze`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

UNEVEN_PARTS: Final = (1, 2, 4)
"""Proportions of the parts whose losses are combined."""
RELATIVE_TOLERANCE: Final = 1e-4
"""Of a loss in single precision that is summed in another order."""
MAX_NAMES: Final = 5
"""Parameters that a sentence names."""

Loss = Callable[[Any, Any], Any]
"""(logits (m, classes), labels (m,)) -> a scalar tensor."""
Combine = Callable[[Sequence[float], Sequence[int]], float]
"""(losses of parts, their training vertices) -> the loss that training reports."""


class ModelSample(NamedTuple):
    """A small graph with the job's widths."""

    graph: Any
    """As the model's forward takes it; None for a model of features alone."""
    features: Any
    """Tensor (n, F)."""
    labels: Any
    """Tensor (n,) of whole numbers."""
    train: Any
    """Tensor (n,) of booleans: vertices with a label to train on."""
    classes: int
    """Classes of the job's dataset."""


def weighted_mean(losses: Sequence[float], sizes: Sequence[int]) -> float:
    """Return the mean over all vertices from the means of parts."""
    return math.fsum(loss * size for loss, size in zip(losses, sizes, strict=True)) / sum(sizes)


def check_model(model: Any, sample: ModelSample, loss: Loss, combine: Combine = weighted_mean) -> tuple[str, ...]:  # noqa: ANN401
    """Return sentences that say why the model does not train on the sample; empty for a sound one.

    model: a torch module whose forward takes (graph, features) or features. It is left with its parameters as they were, without gradients.
    """
    for rule in (_types, _labels):
        if faults := tuple(rule(model, sample)):
            return faults
    mode = model.training
    model.eval()  # dropout would make two runs differ
    try:
        return _trial(model, sample, loss, combine)
    finally:
        model.zero_grad(set_to_none=True)
        model.train(mode)


def check_operations(model: Any, features: int, classes: int, vertices: int, edges: int) -> tuple[str, ...]:  # noqa: ANN401
    """Return faults of shapes and types along the operation graph of `hyperscale analyze`; empty for a sound model.

    vertices, edges: of the job's graph, to which shapes are scaled. Raises ModuleNotFoundError without torch or DGL.
    """
    from hyperscale.training.modelgraph.analyze import AnalysisError, analyze
    from hyperscale.training.modelgraph.fusion_rules import GraphStatistics

    try:
        graph = analyze(model, features, GraphStatistics(vertices, edges))
    except AnalysisError as error:
        return (f"operations: {error}",)
    last = next((one for one in reversed(graph.operations) if one.shape and one.kind != "output"), None)
    if last is None:
        return ("operations: the model gives no tensor; return one of shape (vertices, classes)",)
    if last.shape != (vertices, classes):
        shown = " x ".join(map(str, last.shape))
        return (f"operations: {last.name} ({last.kind}) gives {shown}; the loss needs {vertices} x {classes}",)
    return ()


def _types(model: Any, sample: ModelSample) -> Iterator[str]:  # noqa: ANN401
    kind = sample.features.dtype
    if not kind.is_floating_point:
        yield f"types: features are {kind}; convert them to a floating-point type"
        return
    parameters = list(model.named_parameters())
    if others := [name for name, value in parameters if value.dtype != kind]:
        yield f"types: {_named(others)} differ from the features' {kind}; convert the model or the features"
    if broken := [name for name, value in parameters if not bool(value.isfinite().all())]:
        yield f"values: {_named(broken)} hold NaN or infinity before the first step; initialise them"


def _labels(model: Any, sample: ModelSample) -> Iterator[str]:  # noqa: ANN401
    labels = sample.labels
    if labels.dtype.is_floating_point or labels.dtype.is_complex:
        yield f"labels: they are {labels.dtype}; the loss needs class numbers as whole numbers"
        return
    chosen = labels[sample.train]
    if chosen.numel() == 0:
        yield "labels: no vertex of the training split has a label"
        return
    low, high = int(chosen.min()), int(chosen.max())
    if low < 0 or high >= sample.classes:
        yield f"labels: classes {low} to {high} occur; spec.dataset.classes: {sample.classes} allows 0 to {sample.classes - 1}"


def _trial(model: Any, sample: ModelSample, loss: Loss, combine: Combine) -> tuple[str, ...]:  # noqa: ANN401
    try:
        logits = _logits(model, sample)
    except Exception as error:  # any fault of a user's forward is an answer
        return (f"shapes: forward fails on {tuple(sample.features.shape)} features ({_reason(error)})",)
    faults = tuple(_output(logits, sample))
    if faults:
        return faults
    try:
        value = loss(logits[sample.train], sample.labels[sample.train])
        faults = tuple(_scalar(value))
        if not faults:
            faults = (*_gradients(model, value), *_uneven(logits, sample, loss, combine))
    except Exception as error:  # the same of a user's loss
        return (f"loss: it fails on {sample.classes} classes ({_reason(error)})",)
    return faults


def _logits(model: Any, sample: ModelSample) -> Any:  # noqa: ANN401
    return model(sample.features) if sample.graph is None else model(sample.graph, sample.features)


def _output(logits: Any, sample: ModelSample) -> Iterator[str]:  # noqa: ANN401
    if not hasattr(logits, "shape"):
        yield f"shapes: forward gives a {type(logits).__name__}; return one tensor"
        return
    wanted = (len(sample.features), sample.classes)
    if tuple(logits.shape) != wanted:
        yield f"shapes: forward gives {tuple(logits.shape)}; the labels need {wanted}: (vertices, classes)"
    elif logits.dtype != sample.features.dtype:
        yield f"types: forward gives {logits.dtype} from features of {sample.features.dtype}"
    elif not bool(logits.isfinite().all()):
        yield "values: forward gives NaN or infinity on finite features"


def _scalar(value: Any) -> Iterator[str]:  # noqa: ANN401
    if getattr(value, "numel", lambda: 0)() != 1:
        yield "loss: it is no single number; reduce it to a mean or a sum"
    elif not bool(value.isfinite()):
        yield "loss: it is NaN or infinite on the sample"


def _gradients(model: Any, value: Any) -> Iterator[str]:  # noqa: ANN401
    """A gradient that is None or zero everywhere does not train its parameter."""
    frozen = [name for name, each in model.named_parameters() if not each.requires_grad]
    if frozen:
        yield f"gradients: {_named(frozen)} are frozen; set requires_grad or remove them from the module"
    if not value.requires_grad:
        yield "gradients: the loss depends on no parameter; forward detaches its result"
        return
    yield from _after_backward(model, value)


def _after_backward(model: Any, value: Any) -> Iterator[str]:  # noqa: ANN401
    model.zero_grad(set_to_none=True)
    value.backward()
    trained = [(name, each.grad) for name, each in model.named_parameters() if each.requires_grad]
    unreached = [name for name, gradient in trained if gradient is None or not bool(gradient.any())]
    if unreached:
        yield f"gradients: none reaches {_named(unreached)}; use them in forward and do not detach what they give"
    broken = [name for name, gradient in trained if gradient is not None and not bool(gradient.isfinite().all())]
    if broken:
        yield f"gradients: those of {_named(broken)} are NaN or infinite"


def _uneven(logits: Any, sample: ModelSample, loss: Loss, combine: Combine) -> Iterator[str]:  # noqa: ANN401
    """The training vertices in uneven parts, as ranks hold them, give the loss of all."""
    scores, labels = logits.detach()[sample.train], sample.labels[sample.train]
    count, whole = len(labels), sum(UNEVEN_PARTS)
    bounds = [0]
    for weight in UNEVEN_PARTS:
        bounds.append(bounds[-1] + count * weight // whole)
    bounds[-1] = count
    parts = [(first, last) for first, last in pairwise(bounds) if last > first]
    losses = [float(loss(scores[first:last], labels[first:last])) for first, last in parts]
    combined = combine(losses, [last - first for first, last in parts])
    together = combine([float(loss(scores, labels))], [count])
    if not math.isclose(combined, together, rel_tol=RELATIVE_TOLERANCE, abs_tol=RELATIVE_TOLERANCE * 0.1):
        sizes = ", ".join(str(last - first) for first, last in parts)
        yield f"loss: parts of {sizes} vertices give {combined:.6g}, all together {together:.6g}; weight each part by its vertices"


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return ", ".join(names[:MAX_NAMES]) + more


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
