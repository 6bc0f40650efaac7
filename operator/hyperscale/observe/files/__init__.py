"""In: snapshot files in our own and other formats. Out: a ClusterSnapshot."""
