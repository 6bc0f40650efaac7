from hyperscale.model.adjacency import Array

def csr(sources: Array, destinations: Array, vertices: int, both: bool) -> tuple[Array, Array]: ...
def stream(
    indptr: Array,
    indices: Array,
    order: Array,
    capacity: Array,
    entry_capacity: Array,
    alpha: float,
    assignment: Array,
    load: Array,
    entry_load: Array,
) -> int: ...
def cut(indptr: Array, indices: Array, assignment: Array, parts: int) -> tuple[int, Array]: ...
