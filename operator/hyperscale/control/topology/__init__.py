"""In: snapshots. Out: ClusterTopology objects, written at a bounded rate."""
