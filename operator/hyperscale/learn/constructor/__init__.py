"""In: generated clusters, labelled by greedy's completions. Out: weights of a graph network that places worker after worker."""
