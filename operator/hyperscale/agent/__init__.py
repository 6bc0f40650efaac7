"""The process on every node: what its GPUs do (NVML), how far other nodes are (link probe). Imports little: every node pays for it."""
