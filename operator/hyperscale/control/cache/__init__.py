"""In: listings and watch events. Out: the cluster as last seen, and what plans reserve."""
