"""In: one part of the graph and a model. Out: epochs, gradients, checkpoints and reports."""
