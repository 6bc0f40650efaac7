import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]
Bytes = npt.NDArray[np.uint8]

class Kernel:
    def __init__(
        self,
        speed: Doubles,
        weight: Doubles,
        latency: Doubles,
        per_byte: Doubles,
        inside: Doubles,
        slots: Ints,
        workers: int,
        gpus: int,
        equal: bool,
        rounds: float,
        halo_bytes: float,
        ring_latency_factor: float,
        ring_byte_factor: float,
        epoch_flops: float,
        overhead_seconds: float,
        communication_weight: float,
        collectives: Doubles,
        floors: Doubles,
        filling: Doubles,
        domains: Ints,
        uplinks: Doubles,
        sharp: Ints,
    ) -> None: ...
    def use_slots(self, slots: Ints) -> None: ...
    def objectives(self, orders: Ints, seconds: Doubles) -> None: ...
    def seed_ranking(self, ranking: Ints) -> int: ...
    def greedy(self, orders: Ints, start: int, seed_takes_slot: bool, filled: Ints) -> None: ...
    def local_search(self, orders: Ints, fixed: Bytes, sweeps: int, seconds: Doubles) -> None: ...
    def replace(self, orders: Ints, fixed: Bytes, first: int, end: int, best: float) -> float: ...
    def rings(self, orders: Ints, fixed: Bytes) -> None: ...
    def close(self, orders: Ints, seconds: Doubles, places: int, most: int) -> None: ...
