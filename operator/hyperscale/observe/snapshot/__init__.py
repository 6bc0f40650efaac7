"""In: nodes, pods and one reading of the metrics. Out: a ClusterSnapshot."""
