"""In: one consistent look at a job and its cluster. Out: the next step. Pure."""
