"""A real Kubernetes control plane with simulated GPU nodes on one machine: `python -m e2e.cluster up|down|status`."""
