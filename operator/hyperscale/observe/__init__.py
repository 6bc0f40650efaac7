"""Facts about the cluster, each figure with its age and quality: Kubernetes objects, Prometheus series, files."""
