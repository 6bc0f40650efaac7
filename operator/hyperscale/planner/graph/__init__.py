"""In: a ClusterSnapshot. Out: a ClusterGraph in which every link has a figure, measured or estimated."""
