from numpy import float32, float64, int32, int64, uint8
from numpy.typing import NDArray

FEATURES: int
HIDDEN: int
NODE_FEATURES: int
QUEUE_FEATURES: int
WIDTH: int
QUEUE: int

class Stream:
    decisions: int
    cost: float
    mean_area: float
    mean_seconds: float
    def __init__(
        self,
        speed: NDArray[float64],
        latency: NDArray[float64],
        per_byte: NDArray[float64],
        domain: NDArray[int32],
        weights: NDArray[float64],
        noise: NDArray[float64],
        equal: NDArray[uint8],
        workers: NDArray[int32],
        figures: NDArray[float64],
        gaps: NDArray[float64],
        half: NDArray[uint8],
        load: float,
        placement_lambda: float,
        contention: bool,
        starvation_runs: float,
    ) -> None: ...
    def set_rule(
        self,
        order: int,
        alone: float,
        thrift: float,
        patience: float,
        size: float,
        communication: float,
        costs: float,
        speedup: float,
        mask_patience: float,
    ) -> None: ...
    def set_strict_bounds(self, bounds: float) -> None: ...
    def set_bounded_patience(self, bounded: bool) -> None: ...
    def set_wait_price(self, price: float) -> None: ...
    def set_idle_bound(self, costs: float, runs: float) -> None: ...
    def set_judged(
        self, arrivals: int, least_load: float, most_load: float, least_variation: float, most_variation: float, least_bound_runs: float
    ) -> None: ...
    def set_network(self, weights: NDArray[float32]) -> None: ...
    def run(self, policy: int, alpha: float = 0.0, sample: bool = False, seed: int = 0, record: bool = False) -> NDArray[float64]: ...
    def begin(self, seed: int = 0) -> None: ...
    def advance(self) -> bool: ...
    def act(self, chosen: int) -> None: ...
    def observed(self) -> tuple[NDArray[float64], NDArray[int64], NDArray[int64]]: ...
    def agent_scores(self) -> NDArray[float64]: ...
    def rule_choice(self) -> tuple[int, int]: ...
    def view(
        self,
    ) -> tuple[
        list[tuple[int, float, float, list[tuple[int, float, float, float, float]], list[tuple[float, int, float, float]]]],
        list[tuple[int, int, float]],
        tuple[int, int, float, int, float, float, float],
        float,
    ]: ...
    def outcome(self) -> NDArray[float64]: ...
    def pictures(self) -> tuple[NDArray[float32], NDArray[float32], NDArray[float32], NDArray[float32]]: ...
    def nodes(self) -> list[list[int]]: ...
    def jobs_table(self) -> NDArray[float64]: ...
    def recorded(
        self,
    ) -> tuple[
        NDArray[float32], NDArray[int32], NDArray[int32], NDArray[float64], NDArray[float64], NDArray[float64], NDArray[float64]
    ]: ...
