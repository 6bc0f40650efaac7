"""In: a request and a ClusterGraph. Out: one planning question as arrays."""
