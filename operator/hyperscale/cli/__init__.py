"""The command line `hyperscale` and `kubectl gnn`. In: arguments. Out: text, JSON or YAML, and an exit code."""
