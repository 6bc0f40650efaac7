"""The model as a graph of operations: analysis and fusion (torch.fx)."""
