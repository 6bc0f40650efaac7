"""In: series of one figure. Out: samples of GPUs, cards and links by node."""
