"""The process on every node. In: NVML and peers. Out: metrics of GPUs and links. Imports little: every node pays for it."""
