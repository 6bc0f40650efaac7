"""A real Kubernetes on one machine, with simulated GPU nodes and, where asked for, nodes that run containers: `python -m e2e.cluster`."""
