"""In: a model. Out: its operation graph (torch.fx), and the same model with fused passes over edges."""
