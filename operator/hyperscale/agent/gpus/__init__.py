"""In: NVML. Out: readings of GPUs under DCGM's names and units."""
