"""Nodes that run containers, beside the simulated ones: kubelet and containerd each in a network of its own, on this one machine."""
