"""In: gradients with sizes and ready times, and a network. Out: which gradients go together in one allreduce, and when."""
