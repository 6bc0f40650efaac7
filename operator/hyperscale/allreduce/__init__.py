"""Pure: when gradients travel and which go together, exactly; what Horovod is told."""
