"""The command line `hyperscale`, also installed as `kubectl-gnn`: plan, explain, snapshot, topology, version."""
