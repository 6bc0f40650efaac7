"""End to end: the local cluster, the demo, and scenarios that run on them."""
