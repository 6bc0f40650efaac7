"""HyperScale: plans where each rank of a GNN training job runs, says why, and keeps the plan true while the cluster changes."""

__version__ = "0.1.0"
