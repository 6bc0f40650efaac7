"""In: a request and a ClusterSnapshot. Out: a checked, explained plan, or the reason why there is none. No Kubernetes."""
