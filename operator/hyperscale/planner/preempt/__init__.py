"""In: running and pending jobs. Out: which running jobs to preempt so that all end sooner."""
