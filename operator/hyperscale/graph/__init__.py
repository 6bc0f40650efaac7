"""From a snapshot to a graph that plans are computed on, and to pictures."""
