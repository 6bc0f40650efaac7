"""The border to the Kubernetes API: every request that the operator itself makes."""
