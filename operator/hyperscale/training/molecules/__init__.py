"""In: many small graphs with a label each. Out: graph-level training."""
