"""A step time curve, and placements on up to four nodes of four GPUs that it can be asked about."""

from __future__ import annotations

from itertools import product

from hyperscale.model.history.step_curves import LinkClass, StepTime

TRUE = StepTime(
    base_seconds=0.02,
    sample_seconds=0.001,
    straggle=0.02,
    exponent=2.0,
    links=(LinkClass(0.005, 0.0005, 0.01), LinkClass(0.02, 0.004, 0.2), LinkClass(0.03, 0.001, 0.1)),
    node_seconds=0.01,
    log_error=0.0,
)
PLACEMENTS = [gpus for nodes in range(1, 5) for gpus in product(range(1, 5), repeat=nodes) if list(gpus) == sorted(gpus, reverse=True)]
