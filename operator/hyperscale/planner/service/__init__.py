"""In: questions over a pipe. Out: answers within a hard deadline, from a process of its own."""
