"""In: nothing. Out: weights of the learned planners as safetensors, each with a manifest that says what it is. No code."""
