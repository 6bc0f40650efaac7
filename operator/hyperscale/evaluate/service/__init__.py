"""In: a planned job over a pipe. Out: its evaluation within a hard deadline, from a process of its own."""
