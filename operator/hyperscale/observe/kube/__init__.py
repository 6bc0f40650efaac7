"""In: raw Kubernetes objects. Out: the few fields that the operator reads."""
