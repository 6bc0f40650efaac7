"""From a cluster graph and a workload to a checked, explained plan."""
