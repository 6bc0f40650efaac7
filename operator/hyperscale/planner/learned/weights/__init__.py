"""Weights of the learned planners as safetensors, each with the manifest that says what it is. No code."""
