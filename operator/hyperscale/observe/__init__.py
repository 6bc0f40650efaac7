"""In: Kubernetes objects, Prometheus series, files. Out: a ClusterSnapshot whose every figure has its age and quality."""
