"""The learned constructor: a graph network that places worker after worker, taught by what greedy's completions cost."""
