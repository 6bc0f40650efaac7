"""In: jobs that end. Out: stored runs, and the corrections that they teach predictions."""
